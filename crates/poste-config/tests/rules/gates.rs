//! Gates from files: a message passes them only under a claim.

use poste_core::fold::{Code, Verdict};
use poste_core::limits;
use poste_core::log::{ApprovalAnswer, ApprovalAsk, Done, GateResult, GateVerdict, Intent, Send};
use poste_core::{MessageNo, Position};

use crate::common::*;

/// A gate result that passes a claimed message.
fn passed(message: MessageNo, token: Position) -> Intent {
    let gates = vec![GateVerdict { name: "gate-0".parse().expect("a label"), passed: true }];
    Intent::GateResult(GateResult { message, token, passed: true, gates })
}

fn say(desk: &mut Desk, who: &str, intent: Intent) -> Answer {
    desk.say(who, intent, Some(text("quality: no headline")))
}

/// An office whose `poste.toml` has a gate for drafts.
fn gated_desk() -> Desk {
    let desk = Desk::with(&["writer", "bob"]);
    let gate = "[types.news]\nwork = false\n[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\nexists = true\n\
                [[gate]]\nname = \"news\"\ntype = \"news\"\nexists = true\n";
    std::fs::write(desk.config(), gate).expect("written");
    desk
}

#[test]
fn no_surface_ends_a_gated_message_that_has_not_passed() {
    let mut desk = gated_desk();
    poste_config::sync_policy(&mut desk.office).expect("the policy is taken");
    let number = desk.send("writer", "bob", "draft_ready");
    let news = desk.send("writer", "bob", "news");
    says(&refused(desk.done("bob", number), Code::GateNotPassed), "has gates to pass (draft)");
    let reply = answer_and_finish(number);
    refused(desk.post("bob", reply.clone()), Code::GateNotPassed);
    refused(desk.ack("bob", news), Code::GateNotPassed);
    accepted(desk.ack("bob", number));
    let token = accepted(desk.claim("bob", number));
    says(&refused(desk.done("bob", number), Code::GateNotPassed), "under this claim");
    refused(desk.done_with("bob", number, Some(token)), Code::GateNotPassed);
    refused(desk.post("bob", answer_and_finish(number)), Code::GateNotPassed);
    accepted(say(&mut desk, "bob", passed(number, token)));
    accepted(desk.post("bob", reply));
    // A command that is refused anyway keeps its own reason.
    refused(desk.done("bob", number), Code::Ended);
    refused(desk.done("writer", news), Code::NotRecipient);
    refused(desk.done("bob", MessageNo(99)), Code::UnknownMessage);
    accepted(desk.fail("bob", news));
}

#[test]
fn a_result_of_an_older_claim_opens_nothing() {
    let mut desk = gated_desk();
    let number = desk.send("writer", "bob", "draft_ready");
    let first = accepted(desk.claim("bob", number));
    accepted(say(&mut desk, "bob", passed(number, first)));
    accepted(desk.release("bob", number, Some(first)));
    let second = accepted(desk.claim("bob", number));
    refused(desk.done_with("bob", number, Some(second)), Code::GateNotPassed);
    accepted(say(&mut desk, "bob", passed(number, second)));
    accepted(desk.done_with("bob", number, Some(second)));
}

#[test]
fn what_was_done_before_there_was_a_gate_is_still_a_repeat() {
    let mut desk = Desk::with(&["writer", "bob"]);
    let number = desk.send("writer", "bob", "draft_ready");
    let done = desk.proposal("bob", Intent::Done(Done { message: number, token: None, artifacts: Vec::new() }), None);
    assert!(!desk.outcome(&done).repeat);
    std::fs::write(desk.config(), "[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\nexists = true\n").unwrap();
    let again = desk.outcome(&done);
    assert!(again.repeat && matches!(again.verdict, Verdict::Accepted(_)), "{again:?}");
}

#[test]
fn nobody_decides_a_gated_question_past_its_gates() {
    let mut desk = Desk::with(&["writer", "bob"]);
    desk.register("ann", human());
    std::fs::write(desk.config(), "[[gate]]\nname = \"asked\"\ntype = \"question\"\nexists = true\n").unwrap();
    let choices = || vec!["approve".parse().unwrap(), "deny".parse().unwrap()];
    let ask = ApprovalAsk { mail: letter("bob", "question"), choices: choices(), default: None, deadline: None };
    accepted(say(&mut desk, "writer", Intent::ApprovalAsk(ask)));
    let number = desk.last_message();
    let answer = |choice: &str| {
        let mail = Send { reply_to: Some(number), ..Send::plain("response".parse().unwrap(), Vec::new()) };
        Intent::ApprovalAnswer(ApprovalAnswer { mail, choice: choice.parse().unwrap() })
    };
    for choice in ["approve", "deny"] {
        says(&refused(say(&mut desk, "bob", answer(choice)), Code::GateNotPassed), "run when it is claimed");
        says(&refused(say(&mut desk, "ann", answer(choice)), Code::GateNotPassed), "when its recipient claims it");
    }
    let token = accepted(desk.claim("bob", number));
    says(&refused(say(&mut desk, "bob", answer("approve")), Code::GateNotPassed), "under this claim");
    refused(say(&mut desk, "ann", answer("approve")), Code::GateNotPassed);
    accepted(say(&mut desk, "bob", passed(number, token)));
    accepted(say(&mut desk, "ann", answer("deny")));
    refused(say(&mut desk, "bob", answer("approve")), Code::Ended);
}

#[test]
fn both_files_together_hold_no_more_gates_than_one_record_of_results() {
    let desk = Desk::with(&["bob"]);
    let gates = |prefix: &str, count: usize| -> String {
        (0..count)
            .map(|n| format!("[[gate]]\nname = \"{prefix}{n}\"\ntype = \"draft_ready\"\nexists = true\n"))
            .collect()
    };
    let local = desk.office.store().path().expect("a folder").join("local.toml");
    std::fs::write(desk.config(), gates("a", limits::GATES_MAX - 1)).unwrap();
    std::fs::write(&local, gates("b", 1)).unwrap();
    assert_eq!(poste_config::gates(&desk.office).expect("they fit").gates.len(), limits::GATES_MAX);
    std::fs::write(&local, gates("b", 2)).unwrap();
    assert!(poste_config::gates(&desk.office).expect_err("one too many").to_string().contains("more than 64 gates"));
}
