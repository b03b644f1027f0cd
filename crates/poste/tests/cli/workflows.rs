//! `poste workflow`: its output, refusals and exit codes.

use crate::assert_transcript;
use crate::common::Desk;

const REVIEW: &str = r#"title = "Review until approved"
[inputs.task]
about = "What to change"
[[step]]
key = "write"
agent = "coder"
request = "{{inputs.task}}"
[[step]]
key = "review"
agent = "reviewer"
needs = ["write"]
request = "{{steps.write.result}}"
until = 'steps.review.verdict == "approved"'
again = "write"
max_rounds = 2
[[step]]
key = "merge"
approval = "lead"
needs = ["review"]
request = "Merge?"
"#;

fn desk() -> Desk {
    let desk = Desk::with(&["ann --kind human", "coder", "reviewer", "other"]);
    desk.file("workflows/review.toml", REVIEW);
    desk.trust();
    desk
}

#[test]
fn a_workflow_goes_on_with_every_answer() {
    let mut desk = desk();
    desk.play(
        "
        poste workflow list
        poste workflow list --definitions
        poste workflow run review --as ann
        poste workflow run review --input tsk=x --as ann
        poste workflow run revue --input task=x --as ann
        poste workflow run review --wait 20s --as ann
        poste workflow run none/here.toml --as ann
        poste workflow run review --input task='Fix it' --id first --as ann
        poste workflow run review --input task='Fix it' --id first --as ann
        poste workflow list
        poste reply 1 'done so' --done --as coder
        poste forward 3 other --as reviewer
        poste reply 3 'rejected: no test' --done --as reviewer
        poste workflow show review-1
        poste reply 5 'with a test' --done --as coder
        poste done 7 --result 'Approved!' --as reviewer
        poste workflow approve review-1 --choice deny --note 'Not on a Friday' --as ann
        poste workflow show review-1
        poste workflow retry review-1 --as coder
        poste workflow retry review-1 --reason 'It is Monday' --as ann
        poste workflow approve review-1 --as ann
        poste workflow show review-1
        poste workflow approve review-1 --as ann
        poste workflow cancel review-1 --as ann
        poste workflow list
        poste workflow list --all
        poste workflow show nothing
        poste log why 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_is_wrong_with_a_definition_is_said_with_its_line() {
    let mut desk = desk();
    desk.file(
        "workflows/wrong.yaml",
        "steps:\n  - key: a\n    agent: nobody\n    needs: [b]\n    request: '{{inputs.x}}'\n",
    );
    desk.trust();
    desk.file("workflows/round.toml", "[[step]]\nkey = \"a\"\nagent = \"coder\"\nneeds = [\"a\"]\nrequest = \"do\"\n");
    desk.trust();
    desk.play(
        "
        poste workflow lint
        poste workflow lint review
        poste workflow lint workflows/round.toml --json
        poste workflow run wrong --as ann
        poste workflow graph wrong
        poste workflow graph review
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn messages_that_say_which_step_they_are_wait_for_the_earlier_ones() {
    let mut desk = desk();
    desk.play(
        "
        poste send coder Second --type directive --workflow research --step 2 --as ann
        poste send coder First --type directive --workflow research --step 1 --as ann
        poste claim 1 --as coder
        poste workflow show research
        poste claim --as coder
        poste done 2 --result found --as coder
        poste claim 1 --as coder
        poste workflow list
        poste workflow cancel research --as ann
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_secret_in_an_input_or_a_definition_is_stopped() {
    let mut desk = desk();
    let key = "AKIAIOSFODNN7EXAMPLX";
    let run = format!("poste workflow run review --input task='Use {key}' --id once --as ann");
    let refused = desk.peek(&run).exits(4);
    assert!(refused.err().contains("in the input task"), "{}", refused.err());
    desk.file("workflows/leaky.toml", format!("[[step]]\nkey = \"a\"\nagent = \"coder\"\nrequest = \"Use {key}\"\n"));
    desk.trust();
    let refused = desk.peek("poste workflow run leaky --as ann").exits(4);
    assert!(refused.err().contains("in the definition, line 4"), "{}", refused.err());
    assert_eq!(desk.peek("poste workflow list --all").out(), "");
    desk.quietly(&format!("{run} --allow-secret"));
}
