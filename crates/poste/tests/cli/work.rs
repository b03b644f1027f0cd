//! Work: claiming, finishing, releasing, forwarding, as `track` and `log why` show it.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn work_is_claimed_and_done_with_a_result() {
    let mut desk = Desk::staffed();
    desk.file("src/login.rs", "fn login() {}\n");
    desk.play("poste send coder 'Fix the login' 'It fails.' --type directive --as lead");
    desk.later("2m");
    desk.play("poste claim --as coder --session run-1");
    desk.later("3m");
    desk.play(
        "
        poste track 1
        poste agents
        poste done 1 --summary 'Login fixed' --result 'Two lines changed.' --file src/login.rs --recommend 'Deploy it' --as coder --session run-1
        poste track 1
        poste track 1 --history
        poste log why 1
        poste inbox --as coder
        poste claim --as coder
        poste claim 1 --as coder
        poste track 1 --json
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn done_without_a_claim_claims_and_finishes_in_one_step() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Fix the login' --type directive --as lead
        poste done 1 --summary 'Was easy' --as coder --json
        poste track 1 --history
        poste log why 1
        # only its recipient may, and only once
        poste send coder 'Another' --type directive --as lead
        poste done 2 --as reviewer
        poste fail 2 --reason 'Not mine' --as lead
        poste done 1 --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn several_are_claimed_at_once_best_first_under_one_token() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Low' --priority low --as lead");
    desk.quietly("poste send coder 'Normal' --as lead");
    desk.quietly("poste send coder 'Urgent' --priority urgent --as lead");
    desk.play(
        "
        poste claim --max 2 --lease 1h --as coder
        poste claim --max 2 --as coder --for-model
        poste claim --as coder
        poste claim --max 2 --as coder --json
        poste claim --wait --timeout 0s --as coder
        poste claim --max 0 --as coder
        poste claim 1 --lease 25h --as reviewer
        poste claim 1 --lease 0s --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_claim_under_an_id_tells_again_what_it_won() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'One' --type directive --as lead");
    desk.quietly("poste send coder 'Two' --type directive --as lead");
    desk.play(
        "
        poste claim --id my-claim --as coder --json
        poste claim --id my-claim --as coder
        poste inbox --as coder
        poste extend 1 --lease 1h --id more-time --as coder
        poste extend 1 --lease 1h --id more-time --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_failure_is_final_and_its_sender_is_told_and_may_retry() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Migrate the database' --type directive --as lead
        poste claim 1 --as coder
        poste fail 1 --reason 'No access to the database' --as coder
        poste track 1
        poste log why 1
        poste inbox --as lead
        poste read 2 --as lead
        # neither a stranger nor the one who failed may retry; the sender may, and a person
        poste retry 1 --as reviewer
        poste retry 1 --as coder
        poste retry 1 --to reviewer --as lead
        poste retry 1 --to coder --as lead
        poste retry 1 --as lead
        poste track 1
        poste done 1 --as coder
        poste claim 1 --as coder
        poste fail 1 --reason 'Still none' --token 13 --as coder
        poste fail 1 --reason 'Still none' --token 12 --as coder
        poste retry 1 --as anna --json
        poste log why 1
        poste fail 1 --as coder
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_failed_attempt_comes_back_later_and_later_and_then_is_dead() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Call the service' --type directive --as lead
        poste fail 1 --reason 'Network down' --retry --as coder
        poste track 1
        poste claim 1 --as coder
        poste inbox --as coder
        ",
    );
    for (wait, reason) in [("10s", "Still down"), ("20s", "And down"), ("40s", "Down"), ("80s", "I give up")] {
        desk.later(wait);
        let token = desk.peek("poste claim 1 --as coder --json").json()["token"].clone();
        desk.note(&format!("coder claims it again, with token {token}"));
        desk.play(&format!("poste fail 1 --reason '{reason}' --retry --token {token} --as coder"));
        desk.play("poste track 1");
    }
    desk.play(
        "
        poste log why 1
        poste inbox --as lead
        poste read 2 --as lead
        poste claim 1 --as coder
        poste retry 1 --as lead
        poste track 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn released_work_is_pending_again_and_counts_no_attempt() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send can:rust 'Who takes it?' --type directive --as lead
        poste release 1 --as coder
        poste claim 1 --as coder
        poste release 1 --as reviewer
        poste release 1 --as coder
        poste track 1
        poste claim 1 --as reviewer
        poste log why 1
        # coder's first claim is over
        poste done 1 --as coder
        poste done 1 --token 7 --as coder
        poste track 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_lease_is_extended_from_now() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'A long job' --type directive --as lead
        poste extend 1 --as coder
        poste claim 1 --lease 10m --as coder
        ",
    );
    desk.later("9m");
    desk.play(
        "
        poste extend 1 --lease 30m --as coder
        poste extend 1 --lease 30m --as reviewer
        poste extend 1 --as coder --json
        poste extend 1 --lease 2d --as coder
        poste track 1
        poste log why 1
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn a_reply_answers_and_with_done_it_also_finishes() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send reviewer,coder 'RS256 or ES256?' --type question --respond-by 1h --as lead
        poste reply 1 'Looking into it' --as reviewer
        poste track 1
        poste reply 1 'RS256' --done --payload '{\"choice\":\"RS256\"}' --as reviewer
        poste track 1
        poste read 3 --as lead
        poste log why 1
        # an answer to an answer is in the same conversation
        poste reply 3 'Thanks' --subject 'Good' --as lead
        poste read 4 --as reviewer
        poste reply 1 'Me too' --as anna
        poste reply 1 'Too late' --done --as reviewer
        poste reply 99 'What?' --as lead
        poste reply 1 'A token without --done' --token 3 --as coder
        poste inbox --as lead
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn an_ack_ends_what_asks_for_no_work_and_only_marks_what_does() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'The minutes' --as lead
        poste send coder 'Fix the login' --type directive --as lead
        poste ack 1 --as coder
        poste ack 2 --note 'Will do' --as coder
        poste track 1
        poste track 2
        poste log why 1
        poste log why 2
        poste inbox --as coder
        poste ack 2 --as coder
        poste ack 1 --as coder
        poste ack 2 --as reviewer
        poste done 2 --summary Fixed --as coder
        poste log why 2
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn forwarded_work_is_done_here_and_begins_there() {
    let mut desk = Desk::staffed();
    desk.play(
        "
        poste send coder 'Approve the budget' 'It is due **today**.' --type question --context 'Quarter 2' --meta cost=high --as reviewer
        poste claim 1 --as coder
        poste forward 1 lead --note 'Above my pay grade' --priority urgent --as coder
        poste track 1
        poste log why 1
        poste read 2 --as lead
        poste forward 1 lead --as coder
        poste forward 2 nobody --as lead
        poste forward 2 anna,coder --as lead
        poste read 3 --as anna
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn forwarded_work_keeps_its_artifacts() {
    let mut desk = Desk::staffed();
    desk.file("plan.md", "# Plan\n");
    desk.quietly("poste send coder 'Review the plan' --type question --artifact plan.md --as lead");
    desk.quietly("poste forward 1 reviewer --as coder");
    assert_eq!(desk.peek("poste read 2 --json").json()["artifacts"][0]["path"], "plan.md");
}

#[test]
fn forwarded_work_keeps_its_bytes() {
    let mut desk = Desk::staffed();
    let _ = desk.call(&["send", "coder", "A picture", "-", "--as", "lead"], b"\x89PNG\xff").ok();
    desk.quietly("poste forward 1 reviewer --as coder");
    assert!(desk.peek("poste read 2 --json").json()["body_base64"].is_string());
}

#[test]
fn a_repeated_send_does_not_call_pending_what_is_done() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --id fix-1 --as lead");
    desk.quietly("poste done 1 --as coder");
    let again = desk.peek("poste send coder 'Fix it' --id fix-1 --as lead").ok();
    assert!(!again.err().contains("pending"), "{}", again.err());
}

#[test]
fn a_worker_claims_only_what_it_can_do() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'For your information' --priority urgent --as lead");
    desk.quietly("poste send coder 'Fix the login' --type directive --as lead");
    desk.quietly("poste send coder 'When is it done?' --type question --as lead");
    desk.play(
        "
        poste claim --type question --type directive --max 5 --as coder
        poste claim --type question --as coder
        poste claim --type question --wait --timeout 1s --as coder
        poste claim --type qestion --as coder
        poste claim 1 --type question --as coder
        poste inbox --as coder
        ",
    );
    assert_transcript!(desk);
}
