//! The same id twice has one effect; the same id for something else is a conflict.

use poste_core::fold::{Code, Effect, Verdict};
use poste_core::log::{Intent, Proposal, Register, Send, Shown};
use poste_core::office::Rules;
use poste_core::store::tables::State;
use poste_core::views;

use crate::common::*;

const ID: &str = "0198c0de-0000-7000-8000-000000000001";

fn letter_to_bob(desk: &Desk) -> Proposal {
    proposal(ID, "ann", desk.now(), Intent::Send(letter("bob", "directive")), Some(text("once")))
}

#[test]
fn the_same_proposal_twice_has_one_effect_and_is_called_a_repeat() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let proposal = letter_to_bob(&desk);
    let first = desk.outcome(&proposal);
    assert!(!first.repeat);
    let before = desk.tables();
    desk.clock.pass(HOUR);
    let again = desk.outcome(&Proposal { sent_at: desk.now(), session: Some("other".parse().unwrap()), ..proposal });
    assert!(again.repeat);
    assert_eq!((again.position, &again.verdict), (first.position, &first.verdict), "and gets the same answer");
    assert_eq!(desk.tables(), before);
}

#[test]
fn two_equal_proposals_in_one_submission_have_one_effect() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let proposal = letter_to_bob(&desk);
    let outcomes = desk.office.submit(&[proposal.clone(), proposal], &Rules::none()).unwrap();
    assert_eq!([outcomes[0].repeat, outcomes[1].repeat], [false, true]);
    assert_eq!(outcomes[0].verdict, outcomes[1].verdict);
    assert_eq!(desk.last_message().0, 1);
}

#[test]
fn a_repeat_is_known_for_ever_whatever_became_of_the_message() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let proposal = letter_to_bob(&desk);
    let first = desk.outcome(&proposal);
    accepted(desk.done("bob", poste_core::MessageNo(1)));
    accepted(desk.retire("bob", "ann"));
    desk.office = desk.place.open().unwrap();
    let again = desk.outcome(&proposal);
    assert!(again.repeat, "also from another process, and after ann has retired");
    assert_eq!(again.verdict, first.verdict);
}

#[test]
fn the_same_id_with_another_body_recipient_actor_or_kind_is_a_conflict() {
    let mut desk = Desk::with(&["ann", "bob", "cid"]);
    let original = letter_to_bob(&desk);
    let position = desk.outcome(&original).position.unwrap();
    let to_cid = Intent::Send(letter("cid", "directive"));
    let register = Intent::Register(Register { update: true, ..agent() });
    for other in [
        Proposal { content: Some(text("twice")), ..original.clone() },
        Proposal { content: None, ..original.clone() },
        Proposal { intent: to_cid, ..original.clone() },
        Proposal { actor: "cid".parse().unwrap(), ..original.clone() },
        Proposal { intent: register, content: None, ..original.clone() },
    ] {
        let outcome = desk.outcome(&other);
        assert_eq!((outcome.position, outcome.repeat), (None, false));
        let why = refused(outcome.verdict.accepted(), Code::IdConflict);
        assert!(why.contains(&format!("record {position}")), "{why}");
    }
    assert!(desk.outcome(&original).repeat, "the id still stands for the first one");
}

#[test]
fn relative_times_under_the_same_id_are_a_repeat() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let timed = Send {
        expires: after(DAY),
        not_before: after(HOUR),
        respond_by: after(2 * HOUR),
        ..letter("bob", "directive")
    };
    let first = proposal(ID, "ann", desk.now(), Intent::Send(timed.clone()), None);
    accepted(desk.outcome(&first).verdict.accepted());
    let expires = desk.delivery(poste_core::MessageNo(1)).expires_at;
    desk.clock.pass(7 * MINUTE);
    let again = proposal(ID, "ann", desk.now(), Intent::Send(timed), None);
    assert!(desk.outcome(&again).repeat);
    assert_eq!(desk.delivery(poste_core::MessageNo(1)).expires_at, expires);
}

#[test]
fn a_refused_proposal_is_not_kept_and_is_decided_anew() {
    let mut desk = Desk::with(&["ann"]);
    let proposal = letter_to_bob(&desk);
    let refusal = desk.outcome(&proposal);
    assert_eq!((refusal.position, refusal.repeat), (None, false));
    refused(refusal.verdict.accepted(), Code::UnknownAgent);
    assert_eq!(views::why_id(desk.office.store(), &proposal.id).unwrap().state, "absent");
    desk.register("bob", agent());
    let outcome = desk.outcome(&proposal);
    assert!(!outcome.repeat);
    accepted(outcome.verdict.accepted());
    let answer = views::why_id(desk.office.store(), &proposal.id).unwrap();
    assert_eq!((answer.state.as_str(), answer.position), ("committed", outcome.position));
}

#[test]
fn a_repeated_claim_is_told_what_it_won_and_still_holds() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let other = desk.send("ann", "bob", "directive");
    let claim = Intent::Claim(poste_core::log::Claim { message: None, max: 1, lease_ms: None, types: Vec::new() });
    let claim = proposal(ID, "bob", desk.now(), claim, None);
    let first = desk.outcome(&claim);
    let again = desk.outcome(&claim);
    assert!(again.repeat);
    assert_eq!(again.verdict, first.verdict);
    assert_eq!(desk.state(other), State::Pending, "a repeat claims nothing more");

    accepted(desk.release("bob", number, None));
    let after_release = desk.outcome(&claim);
    assert!(after_release.repeat);
    assert!(claimed(accepted(after_release.verdict.accepted())).items.is_empty());
}

#[test]
fn a_repeated_late_result_is_told_that_it_was_late() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let token = accepted(desk.claim("bob", number));
    desk.pass(HOUR);
    let done = poste_core::log::Done { message: number, token: Some(token), artifacts: Vec::new() };
    let done = proposal(ID, "bob", desk.now(), Intent::Done(done), Some(text("finally")));
    let first = desk.outcome(&done);
    late(first.verdict.clone().accepted());
    let again = desk.outcome(&done);
    assert!(again.repeat);
    assert_eq!(again.verdict, first.verdict, "the repeated result is still late");
    assert_eq!(desk.track(number).late.len(), 1);
}

#[test]
fn every_kind_of_proposal_is_idempotent() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let shown = Intent::Shown(Shown { messages: vec![number] });
    let retire = Intent::Retire(poste_core::log::Retire { name: "bob".parse().unwrap() });
    let subscribe = poste_core::log::Subscribe { topic: "News".parse().unwrap(), from: None };
    for (index, (who, intent)) in [
        ("bob", shown),
        ("bob", Intent::Ack(poste_core::log::Ack { message: number })),
        ("bob", Intent::Subscribe(subscribe)),
        ("bob", Intent::Fail(poste_core::log::Fail { message: number, token: None, retry: false, delay_ms: None })),
        ("ann", Intent::Retry(poste_core::log::Retry { message: number, recipient: None })),
        ("ann", retire),
        ("cid", Intent::Register(agent())),
    ]
    .into_iter()
    .enumerate()
    {
        let proposal = proposal(&format!("{ID}/{index}"), who, desk.now(), intent, None);
        assert!(!desk.outcome(&proposal).repeat);
        let again = desk.outcome(&proposal);
        assert!(again.repeat, "{:?}", proposal.intent);
        assert!(matches!(again.verdict, Verdict::Accepted(Effect::Noted | Effect::Touched(_))));
    }
}
