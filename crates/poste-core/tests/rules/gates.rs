//! Gates: what they say is recorded under the claim they were run under, or not at all.

use poste_core::fold::{Code, Effect, Verdict};
use poste_core::limits;
use poste_core::log::{
    ApprovalAnswer, ApprovalAsk, Artifact, ArtifactState, Done, GateResult, GateVerdict, Intent, Send,
};
use poste_core::store::tables::{EndReason, Event, State};
use poste_core::views;
use poste_core::{MessageNo, Position};

use crate::common::*;
use crate::endings::says;

/// A draft that bob has claimed.
fn claimed_draft() -> (Desk, MessageNo, Position) {
    let mut desk = Desk::with(&["writer", "bob", "cy"]);
    let number = desk.send("writer", "bob", "draft_ready");
    let token = accepted(desk.claim("bob", number));
    (desk, number, token)
}

fn verdicts(passed: &[bool]) -> Vec<GateVerdict> {
    let named = passed.iter().enumerate();
    named
        .map(|(index, passed)| GateVerdict { name: format!("gate-{index}").parse().expect("a label"), passed: *passed })
        .collect()
}

fn result(message: MessageNo, token: Position, passed: &[bool]) -> Intent {
    let gates = verdicts(passed);
    Intent::GateResult(GateResult { message, token, passed: passed.iter().all(|passed| *passed), gates })
}

fn say(desk: &mut Desk, who: &str, intent: Intent) -> Answer {
    desk.say(who, intent, Some(text("quality: no headline")))
}

#[test]
fn a_passed_gate_is_a_step_and_the_claim_goes_on() {
    let (mut desk, number, token) = claimed_draft();
    let before = desk.track(number);
    accepted(say(&mut desk, "bob", result(number, token, &[true, true])));
    assert_eq!(desk.history(number), [Event::Claimed, Event::GatePassed]);
    let after = desk.track(number);
    assert_eq!((after.state, after.lease_until, after.token), (State::Claimed, before.lease_until, Some(token)));
    assert_eq!(after.since, before.since, "it has been claimed since it was claimed");
    accepted(desk.done_with("bob", number, Some(token)));
}

#[test]
fn a_failed_gate_sends_it_back_and_tells_the_sender_why() {
    let (mut desk, number, token) = claimed_draft();
    accepted(say(&mut desk, "bob", result(number, token, &[true, false])));
    assert_eq!(desk.history(number), [Event::Claimed, Event::GateFailed, Event::Returned]);
    let track = desk.track(number);
    assert_eq!((track.state, track.reason), (State::Returned, Some(EndReason::GateFailed)));
    assert_eq!(track.result.map(|result| result.text).as_deref(), Some("quality: no headline"));
    let notice = views::message(desk.office.store(), MessageNo(number.0 + 1)).unwrap().expect("a notice");
    assert_eq!((notice.to, notice.reply_to), (vec!["writer".to_owned()], Some(number)));
    assert!(notice.body.contains("> quality: no headline"), "{}", notice.body);
    let dead = views::dead_letters(desk.office.store(), &views::DeadQuery { limit: 9, ..Default::default() }).unwrap();
    assert_eq!(dead.letters[0].said.as_deref(), Some("quality: no headline"));
    let why = views::why_message(desk.office.store(), number).unwrap().expect("it is there");
    assert!(why.lines.iter().any(|line| line.what == "stopped by its gates, run by bob: quality: no headline"));
    assert!(why.lines.iter().any(|line| line.what == "returned to its sender: a gate failed"));
}

#[test]
fn the_sender_may_retry_and_it_is_gated_anew() {
    let (mut desk, number, first) = claimed_draft();
    accepted(say(&mut desk, "bob", result(number, first, &[false])));
    refused(desk.retry("cy", number), Code::NotAllowed);
    accepted(desk.retry("writer", number));
    let second = accepted(desk.claim("bob", number));
    says(&refused(say(&mut desk, "bob", result(number, first, &[true])), Code::LeaseLost), "lease on message 1");
    accepted(say(&mut desk, "bob", result(number, second, &[true])));
}

#[test]
fn who_was_stopped_by_its_gates_has_not_lost_a_lease() {
    let (mut desk, number, token) = claimed_draft();
    accepted(say(&mut desk, "bob", result(number, token, &[false])));
    says(&refused(desk.done_with("bob", number, Some(token)), Code::Ended), "is returned already");
    refused(say(&mut desk, "bob", result(number, token, &[true])), Code::Ended);
}

#[test]
fn only_whoever_holds_the_claim_says_what_its_gates_said() {
    let (mut desk, number, token) = claimed_draft();
    refused(say(&mut desk, "cy", result(number, token, &[true])), Code::NotRecipient);
    refused(say(&mut desk, "writer", result(number, token, &[false])), Code::NotRecipient);
    refused(say(&mut desk, "bob", result(number, Position(token.0 + 1), &[true])), Code::NotClaimed);
    refused(say(&mut desk, "bob", result(MessageNo(99), token, &[true])), Code::UnknownMessage);
    refused(say(&mut desk, "ghost", result(number, token, &[true])), Code::UnknownAgent);
    let unclaimed = desk.send("writer", "bob", "draft_ready");
    refused(say(&mut desk, "bob", result(unclaimed, token, &[true])), Code::NotClaimed);
}

#[test]
fn a_result_after_the_lease_is_refused() {
    let (mut desk, number, token) = claimed_draft();
    desk.pass(limits::LEASE_MS_DEFAULT + 1);
    for passed in [true, false] {
        refused(say(&mut desk, "bob", result(number, token, &[passed])), Code::LeaseLost);
    }
    assert_eq!(desk.history(number).last(), Some(&Event::LeaseExpired));
    // And one of a claim that was given back.
    let token = {
        desk.pass(HOUR);
        accepted(desk.claim("bob", number))
    };
    accepted(desk.release("bob", number, Some(token)));
    refused(say(&mut desk, "bob", result(number, token, &[true])), Code::LeaseLost);
}

#[test]
fn gates_are_passed_when_every_one_of_them_is_and_once() {
    let (mut desk, number, token) = claimed_draft();
    let lie = |passed, gates: &[bool]| {
        Intent::GateResult(GateResult { message: number, token, passed, gates: verdicts(gates) })
    };
    refused(say(&mut desk, "bob", lie(true, &[true, false])), Code::Malformed);
    refused(say(&mut desk, "bob", lie(false, &[true])), Code::Malformed);
    refused(say(&mut desk, "bob", lie(true, &[])), Code::Malformed);
    refused(say(&mut desk, "bob", lie(true, &[true; limits::GATES_MAX + 1])), Code::Malformed);
    accepted(say(&mut desk, "bob", lie(true, &[true; limits::GATES_MAX])));
    refused(say(&mut desk, "bob", lie(true, &[true])), Code::NothingToDo);
    refused(say(&mut desk, "bob", lie(false, &[false])), Code::NothingToDo);
}

#[test]
fn the_same_id_again_gets_the_same_answer() {
    let (mut desk, number, token) = claimed_draft();
    let proposal = desk.proposal("bob", result(number, token, &[false]), Some(text("too short")));
    assert_eq!(desk.outcome(&proposal).verdict, Verdict::Accepted(Effect::Noted));
    let again = desk.outcome(&proposal);
    assert!(again.repeat);
    assert_eq!(again.verdict, Verdict::Accepted(Effect::Noted));
    assert_eq!(desk.history(number), [Event::Claimed, Event::GateFailed, Event::Returned]);
}

#[test]
fn one_of_several_claimed_together_goes_back_alone() {
    let mut desk = Desk::with(&["writer", "bob"]);
    let numbers = [desk.send("writer", "bob", "draft_ready"), desk.send("writer", "bob", "draft_ready")];
    assert_eq!(accepted(desk.claim_best("bob", 2)), numbers);
    let token = desk.delivery(numbers[0]).token.expect("claimed");
    accepted(say(&mut desk, "bob", result(numbers[0], token, &[false])));
    accepted(say(&mut desk, "bob", result(numbers[1], token, &[true])));
    assert_eq!(numbers.map(|number| desk.state(number)), [State::Returned, State::Claimed]);
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
    desk.office.sync_policy().expect("the policy is taken");
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
    accepted(say(&mut desk, "bob", result(number, token, &[true])));
    accepted(desk.post("bob", reply));
    // What is refused anyway is refused for its own reason.
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
    accepted(say(&mut desk, "bob", result(number, first, &[true])));
    accepted(desk.release("bob", number, Some(first)));
    let second = accepted(desk.claim("bob", number));
    refused(desk.done_with("bob", number, Some(second)), Code::GateNotPassed);
    accepted(say(&mut desk, "bob", result(number, second, &[true])));
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
        says(&refused(say(&mut desk, "ann", answer(choice)), Code::GateNotPassed), "whoever it was sent to");
    }
    let token = accepted(desk.claim("bob", number));
    says(&refused(say(&mut desk, "bob", answer("approve")), Code::GateNotPassed), "under this claim");
    refused(say(&mut desk, "ann", answer("approve")), Code::GateNotPassed);
    accepted(say(&mut desk, "bob", result(number, token, &[true])));
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
    assert_eq!(desk.office.gates().expect("they fit").gates.len(), limits::GATES_MAX);
    std::fs::write(&local, gates("b", 2)).unwrap();
    assert!(desk.office.gates().expect_err("one too many").to_string().contains("more than 64 gates"));
}

#[test]
fn a_worktree_that_is_no_absolute_path_is_refused() {
    let mut desk = Desk::with(&["writer", "bob"]);
    let mut with = |worktree: &str| {
        let artifact = Artifact {
            path: "a.md".to_owned(),
            worktree: Some(worktree.to_owned()),
            state: ArtifactState::Later,
            size: None,
            digest: None,
        };
        desk.post("writer", Send { artifacts: vec![artifact], ..letter("bob", "draft_ready") })
    };
    refused(with("--upload"), Code::Malformed);
    refused(with("elsewhere"), Code::Malformed);
    accepted(with("/project"));
}
