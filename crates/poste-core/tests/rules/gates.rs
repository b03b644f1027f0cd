//! Gates: their results are recorded under the claim for which they ran, or not at all.

use poste_core::fold::{Code, Effect, Verdict};
use poste_core::limits;
use poste_core::log::{Artifact, ArtifactState, GateResult, GateVerdict, Intent, Send};
use poste_core::store::tables::{EndReason, Event, State};
use poste_core::views;
use poste_core::{MessageNo, Position};

use crate::common::*;

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
    assert_eq!(after.since, before.since, "the time of the claim is kept");
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
    says(&refused(desk.done_with("bob", number, Some(token)), Code::Ended), "is already returned");
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
    // The result of a released claim.
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
