//! Approvals: questions that are asked, discussed, decided, or left to their deadline.

use serde_json::json;

use crate::assert_transcript;
use crate::common::Desk;

fn desk() -> Desk {
    Desk::with(&["boss --role lead", "coder --role builder --lead boss", "anna --kind human", "other --role builder"])
}

#[test]
fn a_question_is_asked_of_the_lead_talked_about_and_decided() {
    let mut desk = desk();
    desk.play(
        "
        poste ask lead 'Deploy to production?' 'All tests pass.' --by 30m --default deny --as coder
        poste approvals --as coder
        poste approvals --mine --as boss
        poste approvals --mine --as other
        poste inbox --as boss
        poste read 1 --as boss
        poste read 1 --for-model --as boss
        # none of these is a decision
        poste reply 1 'Which version?' --as boss
        poste ack 1 --as boss
        poste done 1 --as boss
        poste reply 1 'Yes' --done --as boss
        poste forward 1 anna --as boss
        poste approve 1 --as other
        poste approve 1 --choice maybe --as boss
        poste approve 1 --as coder
        # this is
        poste approve 1 --note 'Only the backend' --id yes-1 --as boss
        poste approve 1 --note 'Only the backend' --id yes-1 --as boss
        poste deny 1 --reason 'Changed my mind' --as boss
        poste approvals 1
        poste approvals 1 --json
        poste track 1
        poste log why 1
        poste read 3 --as coder
        poste approvals --as coder
        poste approvals --all
        poste approvals 2
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn at_the_deadline_the_default_is_applied_and_both_sides_read_so() {
    let mut desk = desk();
    desk.play("poste ask boss 'Deploy?' --by 30m --default deny --as coder");
    desk.later("31m");
    desk.play(
        "
        poste approve 1 --as boss
        poste approvals 1
        poste track 1
        poste log why 1
        poste inbox --as coder
        poste read 2 --as coder
        poste inbox --as boss
        poste read 3 --as boss
        poste log show --limit 3
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_deadline_without_a_default_and_a_recipient_who_is_gone_read_as_they_are() {
    let mut desk = desk();
    desk.play(
        "
        poste ask boss 'Deploy?' --by 30m --as coder
        poste ask other,boss 'Which database?' --choice postgres --choice sqlite --as coder
        poste ask other 'Rename it?' --as coder
        poste approve 2 --as other
        poste approve 2 --choice sqlite --as other
        poste track 2
        poste retire other --as boss
        poste approvals --asked --as coder
        ",
    );
    desk.later("30m");
    desk.play(
        "
        poste approvals --all
        poste track 1
        poste retry 1 --as coder
        poste ask lead 'Again?' --plan --as coder
        poste retire coder --as boss
        poste approvals --all --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_cannot_be_asked_is_explained() {
    let mut desk = desk();
    desk.play(
        "
        poste ask boss 'Deploy?' --default deny --as coder
        poste ask boss 'Deploy?' --default maybe --by 1h --as coder
        poste ask boss 'Deploy?' --choice yes --choice yes --as coder
        poste ask coder 'Deploy?' --as coder
        poste ask topic:builds 'Deploy?' --as coder
        poste ask bos 'Deploy?' --as coder
        poste approve 9 --as boss
        poste approvals
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn waiting_prints_the_choice_and_ends_with_what_it_means() {
    let mut desk = desk();
    desk.quietly("poste ask boss 'One?' --id q1 --as coder");
    desk.quietly("poste ask boss 'Two?' --id q2 --as coder");
    desk.quietly("poste ask boss 'Three?' --by 10m --default deny --id q3 --as coder");
    desk.quietly("poste ask other 'Four?' --id q4 --as coder");
    desk.quietly("poste approve 1 --as boss");
    desk.quietly("poste deny 2 --as boss");
    desk.play(
        "
        # the same id asks again and waits on
        poste ask boss 'One?' --id q1 --wait --as coder
        poste ask boss 'Two?' --id q2 --wait --as coder
        poste ask boss 'Three?' --by 10m --default deny --id q3 --wait --timeout 1ms --as coder
        ",
    );
    desk.later("10m");
    desk.play(
        "
        poste ask boss 'Three?' --by 10m --default deny --id q3 --wait --as coder
        poste ask boss 'Three?' --by 10m --default deny --id q3 --wait --as coder --json
        poste retire other --as boss
        poste ask other 'Four?' --id q4 --wait --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_human_decides_for_somebody_else() {
    let mut desk = desk();
    desk.quietly("poste ask boss 'Deploy?' --as coder");
    desk.quietly("poste claim 1 --as boss");
    let answer = desk.ask("poste deny 1 --reason 'Not today' --json --as anna").json();
    assert_eq!((&answer["choice"], &answer["asker"]), (&json!("deny"), &json!("coder")));
    let shown = desk.ask("poste approvals 1 --json").json();
    assert_eq!((&shown["decided_by"], &shown["note"]), (&json!("anna"), &json!("Not today")));
    desk.play("poste inbox --as boss");
    assert_transcript!(desk);
}

#[test]
fn a_redacted_note_reads_as_redacted() {
    let mut desk = desk();
    desk.quietly("poste ask boss 'Deploy?' --as coder");
    desk.quietly("poste deny 1 --reason 'Because of the merger' --as boss");
    desk.quietly("poste redact 2 --reason 'Confidential' --as boss");
    let shown = desk.ask("poste approvals 1 --json").json();
    assert_eq!((&shown["choice"], &shown["note"]), (&json!("deny"), &json!("(redacted)")));
}

#[test]
fn whoever_waits_hears_what_is_said_and_reads_nothing_where_nothing_was_decided() {
    let mut desk = desk();
    desk.quietly("poste ask boss 'Deploy?' --as coder");
    desk.quietly("poste reply 1 'Which version?' --as boss");
    desk.quietly("poste reply 2 'The newest.' --as coder");
    let waited = desk.peek("poste approvals 1 --wait --timeout 1ms --as coder").exits(7);
    assert_eq!(waited.out(), "");
    assert!(waited.err().starts_with("#2 by boss: \"Re: Deploy?\"; see it: poste read 2\nerror: "), "{}", waited.err());
    desk.quietly("poste deny 1 --reason 'Not on a Friday' --as boss");
    let denied = desk.peek("poste approvals 1 --wait --as coder").exits(12);
    assert_eq!(denied.out(), "deny\n");
    assert!(denied.err().ends_with("question 1: deny, by boss\nnote: \"Not on a Friday\"\n"), "{}", denied.err());
    desk.quietly("poste ask boss 'And now?' --id q --as coder");
    desk.quietly("poste fail 5 --reason 'Not mine to decide' --as boss");
    let nobody = desk.peek("poste ask boss 'And now?' --id q --wait --as coder").exits(3);
    assert_eq!(nobody.out(), "");
}

#[test]
fn a_claim_says_how_what_was_claimed_comes_to_its_end() {
    let mut desk = desk();
    desk.quietly("poste ask boss 'Deploy?' --as coder");
    desk.quietly("poste send boss 'The API' --type interface_contract --as coder");
    let question = desk.peek("poste claim 1 --as boss").ok();
    assert!(question.err().contains("decide it: poste approve 1"), "{}", question.err());
    let contract = desk.peek("poste claim 2 --as boss").ok();
    assert!(contract.err().contains("if you agree: poste agree 2"), "{}", contract.err());
}

#[test]
fn the_holder_of_a_second_claim_learns_its_token() {
    let mut desk = desk();
    desk.quietly("poste send boss 'Do it' --type directive --as coder");
    desk.quietly("poste claim 1 --lease 1m --as boss");
    desk.later("2m");
    desk.quietly("poste claim 1 --as boss");
    let token = desk.peek("poste track 1 --json").json()["deliveries"][0]["token"].to_string();
    let refused = desk.peek("poste release 1 --as boss").exits(5);
    assert!(refused.err().contains(&format!("poste release 1 --token {token}")), "{}", refused.err());
    assert!(desk.peek("poste track 1").out().contains(&format!(", token {token}, lease ends")));
    let other = desk.peek("poste release 1 --as other");
    assert!(!other.err().contains("--token"), "{}", other.err());
    desk.quietly(&format!("poste release 1 --token {token} --as boss"));
}
