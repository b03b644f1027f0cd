//! Dropping dead letters.

use poste_core::fold::Code;
use poste_core::log::{Drop, Intent};
use poste_core::store::tables::{Event, State};
use poste_core::{MessageNo, Timestamp};

use crate::common::*;

/// lead's message to bob has failed.
fn failed() -> (Desk, MessageNo) {
    let mut desk = Desk::with(&["lead", "bob", "cy"]);
    desk.register("ann", human());
    let number = desk.send("lead", "bob", "directive");
    accepted(desk.claim("bob", number));
    accepted(desk.fail("bob", number));
    (desk, number)
}

fn dropped_at(desk: &Desk, number: MessageNo) -> Option<Timestamp> {
    desk.delivery(number).dropped_at
}

#[test]
fn the_sender_or_a_human_may_drop_and_nobody_else() {
    for who in ["lead", "ann"] {
        let (mut desk, number) = failed();
        assert_eq!(accepted(desk.drop_bad(who, number)), 1);
        assert_eq!(dropped_at(&desk, number), Some(desk.now()));
        assert_eq!(desk.state(number), State::Failed, "its state is kept");
    }
    let (mut desk, number) = failed();
    for who in ["bob", "cy"] {
        says(&refused(desk.drop_bad(who, number), Code::NotAllowed), "only lead or a human may drop");
    }
    refused(desk.drop_bad("ghost", number), Code::UnknownAgent);
    refused(desk.drop_bad("lead", MessageNo(99)), Code::UnknownMessage);
}

#[test]
fn every_bad_end_can_be_dropped() {
    let mut desk = Desk::with(&["lead", "bob", "cy"]);
    let dead = desk.send("lead", "bob", "directive");
    desk.fail_until("bob", dead, 0);
    let mut brief = letter("bob", "directive");
    brief.expires = after(SECOND);
    let expired = accepted(desk.post("lead", brief)).number;
    desk.pass(MINUTE);
    let returned = desk.send("lead", "cy", "directive");
    accepted(desk.retire("lead", "cy"));
    for (number, state) in [(dead, State::Dead), (expired, State::Expired), (returned, State::Returned)] {
        assert_eq!(desk.state(number), state);
        assert_eq!(accepted(desk.drop_bad("lead", number)), 1);
        assert_eq!(desk.history(number).last(), Some(&Event::Dropped));
    }
}

#[test]
fn what_did_not_end_badly_cannot_be_dropped() {
    let mut desk = Desk::with(&["lead", "bob"]);
    let number = desk.send("lead", "bob", "directive");
    refused(desk.drop_bad("lead", number), Code::NothingToDo);
    accepted(desk.claim("bob", number));
    refused(desk.drop_bad("lead", number), Code::NothingToDo);
    accepted(desk.done("bob", number));
    refused(desk.drop_bad("lead", number), Code::NothingToDo);
}

#[test]
fn dropping_twice_is_refused() {
    let (mut desk, number) = failed();
    accepted(desk.drop_bad("lead", number));
    says(&refused(desk.drop_bad("ann", number), Code::NothingToDo), "already dropped");
}

#[test]
fn what_was_dropped_can_be_retried_and_dropped_again_when_it_ends_badly_again() {
    let (mut desk, number) = failed();
    accepted(desk.drop_bad("lead", number));
    accepted(desk.retry("lead", number));
    assert_eq!(dropped_at(&desk, number), None, "a retry undoes the drop");
    let token = accepted(desk.claim("bob", number));
    let fail =
        Intent::Fail(poste_core::log::Fail { message: number, token: Some(token), retry: false, delay_ms: None });
    accepted(desk.say("bob", fail, Some(text("again"))));
    assert_eq!(dropped_at(&desk, number), None);
    assert_eq!(accepted(desk.drop_bad("lead", number)), 1);
    let drops = desk.history(number).into_iter().filter(|event| *event == Event::Dropped).count();
    assert_eq!(drops, 2);
}

#[test]
fn one_recipient_is_dropped_and_the_others_stay() {
    let mut desk = Desk::with(&["lead", "bob", "cy"]);
    let number = desk.send("lead", "bob cy", "directive");
    for who in ["bob", "cy"] {
        accepted(desk.claim(who, number));
        accepted(desk.fail(who, number));
    }
    let drop_for =
        |address: &str| Intent::Drop(Drop { message: number, recipient: Some(address.parse().expect("an address")) });
    refused(desk.ask("lead", drop_for("lead")), Code::NothingToDo);
    accepted(desk.ask("lead", drop_for("cy")));
    let dropped = |desk: &Desk| desk.deliveries(number).iter().map(|one| one.dropped_at.is_some()).collect::<Vec<_>>();
    assert_eq!(dropped(&desk), [false, true]);
    assert_eq!(accepted(desk.drop_bad("lead", number)), 1, "the rest");
    assert_eq!(dropped(&desk), [true, true]);
}
