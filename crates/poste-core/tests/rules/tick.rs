//! Due items are settled by ticks, and idle offices write nothing.

use poste_core::fold::Code;
use poste_core::log::{Barrier, Intent, Send, Tick};
use poste_core::office::{Rules, Settled};
use poste_core::store::Interest;
use poste_core::store::tables::{DueItem, Event, State};
use poste_core::{MessageNo, views};

use crate::common::*;

#[test]
fn mail_that_must_wait_is_ready_only_after_a_tick() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "directive") })).number;
    assert!(!desk.delivery(number).ready);
    refused(desk.claim("bob", number), Code::NotReady);
    refused(desk.done("bob", number), Code::NotReady);
    refused(desk.claim_best("bob", 1), Code::NothingToClaim);
    assert_eq!(desk.news("bob"), []);

    desk.clock.pass(HOUR);
    assert!(!desk.delivery(number).ready, "time alone changes no table");
    assert_eq!(desk.news("bob"), []);
    assert!(desk.track(number).unconfirmed, "but views show that something is due");

    let before = desk.head();
    desk.settle();
    assert_eq!(desk.kinds_after(before), ["tick"]);
    assert!(desk.delivery(number).ready);
    assert!(!desk.track(number).unconfirmed);
    assert_eq!(desk.history(number), [Event::Ready]);
    assert_eq!(desk.news("bob"), [number]);
    accepted(desk.claim("bob", number));
}

#[test]
fn what_is_due_is_settled_by_a_tick_before_the_proposal_it_decides() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "directive") })).number;
    desk.clock.pass(HOUR);
    let before = desk.head();
    accepted(desk.claim("bob", number));
    assert_eq!(desk.kinds_after(before), ["tick", "delivery.claim"]);
}

#[test]
fn a_tick_stays_even_if_the_proposal_after_it_is_refused() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { expires: after(HOUR), ..letter("bob", "directive") })).number;
    desk.clock.pass(HOUR);
    let before = desk.head();
    refused(desk.claim("bob", number), Code::Ended);
    assert_eq!(desk.kinds_after(before), ["tick"]);
    assert_eq!(desk.state(number), State::Expired);
    assert_eq!(desk.notices().len(), 1, "and so does what it told people");
}

#[test]
fn one_tick_settles_at_most_a_thousand_items() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let waiting = Send { not_before: after(MINUTE), ..letter("bob", "message") };
    let proposals: Vec<_> = (0..2_001).map(|_| desk.proposal("ann", Intent::Send(waiting.clone()), None)).collect();
    assert_eq!(desk.office.submit(&proposals, &Rules::none()).unwrap().len(), 2_001);

    desk.clock.pass(MINUTE);
    let before = desk.head();
    desk.settle();
    assert_eq!(desk.kinds_after(before), ["tick", "tick", "tick"]);
    let mut settled: Vec<usize> = Vec::new();
    for tick in desk.records_after(before) {
        let sql = "SELECT count(*) FROM events WHERE position = ?1";
        settled.push(desk.office.store().conn().query_row(sql, [tick.position], |row| row.get(0)).unwrap());
    }
    assert_eq!(settled, [1_000, 1_000, 1]);
}

#[test]
fn what_one_tick_makes_due_the_next_one_settles_in_the_same_write() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { expires: after(MINUTE), ..letter("bob", "directive") })).number;
    accepted(desk.claim("bob", number));
    desk.clock.pass(LEASE);
    let before = desk.head();
    desk.settle();
    assert_eq!(desk.kinds_after(before), ["tick", "tick"], "the lease ended first, then the delivery expired");
    assert_eq!(desk.state(number), State::Expired);
}

#[test]
fn an_idle_office_writes_nothing() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { not_before: after(DAY), ..letter("bob", "directive") })).number;
    let claimed = desk.send("ann", "bob", "directive");
    accepted(desk.claim_for("bob", claimed, Some(DAY)));
    let before = desk.tables();
    for _ in 0..3 {
        desk.clock.pass(HOUR);
        desk.settle();
        desk.track(number);
        desk.news("bob");
        views::roster(desk.office.store()).unwrap();
        desk.verify();
    }
    assert_eq!(desk.tables(), before);
}

#[test]
fn an_empty_submission_with_nothing_due_writes_nothing() {
    let mut desk = Desk::with(&["ann"]);
    let before = desk.tables();
    assert!(desk.office.submit(&[], &Rules::none()).unwrap().is_empty());
    assert_eq!(desk.tables(), before);
}

#[test]
fn a_waiter_is_given_what_fell_due_without_a_bell() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "message") })).number;
    desk.clock.pass(HOUR);
    let bob = speaker("bob").0;
    let found = desk.office.wait_for(&Interest::everything(), Some(std::time::Duration::ZERO), |office| {
        let bob = office.agent(&bob)?.expect("bob is registered");
        let query = views::NewsQuery { limit: 10, ..Default::default() };
        Ok(views::news(office.store(), &bob, &query)?.messages.pop())
    });
    assert_eq!(found.unwrap().expect("the wait looked after settling").number, number);
}

#[test]
fn ticks_and_barriers_are_the_offices_own_records() {
    let mut desk = Desk::with(&["ann"]);
    refused(desk.ask("ann", Intent::Tick(Tick {})), Code::NotAllowed);
    let barrier = Barrier { fold_version: 1, reason: "mine".to_owned() };
    refused(desk.ask("ann", Intent::Barrier(barrier)), Code::NotAllowed);
    refused(desk.ask("poste", Intent::Tick(Tick {})), Code::NothingToDo);
}

#[test]
fn no_id_a_caller_chooses_can_stand_in_the_way_of_a_tick() {
    let mut desk = Desk::with(&["ann", "bob"]);
    accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "message") }));
    let due = "SELECT at, what, subject FROM due";
    let due = desk
        .office
        .store()
        .conn()
        .query_row(due, [], |row| Ok(DueItem { at: row.get(0)?, what: row.get(1)?, subject: row.get(2)? }));
    let id = desk.office.store().tables().unwrap().tick_id(due.unwrap()).unwrap();
    let squatter = proposal(id.as_str(), "ann", desk.now(), Intent::Send(letter("bob", "message")), None);
    refused(desk.outcome(&squatter).verdict.accepted(), Code::ReservedId);
    desk.clock.pass(HOUR);
    assert_eq!(desk.office.settle().expect("the office still settles"), Settled::Yes);
    assert!(desk.delivery(MessageNo(1)).ready);
    let tick = views::record(desk.office.store(), desk.head()).unwrap().unwrap();
    assert_eq!((tick.name.as_str(), tick.id.as_str()), ("tick", id.as_str()), "it was the id of the tick");
}

#[test]
fn a_retry_delay_counts_from_the_end_of_the_lease_however_late_somebody_looks() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    desk.clock.pass(LEASE + HOUR);
    desk.settle();
    assert!(desk.delivery(number).ready, "its delay of ten seconds has long passed");
}

#[test]
fn a_due_row_that_fits_no_delivery_is_damage_and_no_endless_ticking() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "message");
    accepted(desk.ack("bob", number));
    let stale = "INSERT INTO due (at, what, subject) VALUES (1, 0, 1)";
    desk.office.store().conn().execute(stale, []).unwrap();
    let error = desk.office.settle().expect_err("the row would be due for ever");
    assert!(matches!(error, poste_core::Error::Damaged(_)), "{error}");
    desk.leave_unverified();
}
