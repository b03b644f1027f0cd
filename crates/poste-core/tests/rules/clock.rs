//! Time in the log never goes back, and a clock leap ends no lease.

use poste_core::Error;
use poste_core::fold::Code;
use poste_core::log::{Clock, Intent, Send};
use poste_core::office::Settled;
use poste_core::store::clock::Clock as _;
use poste_core::store::tables::{Event, State};

use crate::common::*;

/// A send at this moment; the time of its record.
fn stamp(desk: &mut Desk) -> i64 {
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    desk.outcome(&proposal).at.ms()
}

#[test]
fn time_goes_on_by_the_boot_clock_when_the_wall_clock_is_set_back() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let first = stamp(&mut desk);
    desk.clock.set_wall(-3 * HOUR);
    assert_eq!(stamp(&mut desk), first);
    desk.clock.pass(5 * SECOND);
    assert_eq!(stamp(&mut desk), first + 5 * SECOND);
    desk.clock.set_wall(3 * HOUR);
    assert_eq!(stamp(&mut desk), first + 5 * SECOND, "corrected again: no leap");
    assert!(!desk.kinds_after(poste_core::Position(0)).contains(&"clock".to_owned()));

    let times: Vec<i64> = desk.records_after(poste_core::Position(0)).iter().map(|record| record.at.ms()).collect();
    assert!(times.is_sorted(), "{times:?}");
}

#[test]
fn leases_run_out_by_the_boot_clock_when_the_wall_clock_is_set_back() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    desk.clock.set_wall(-DAY);
    desk.pass(LEASE - 1);
    assert_eq!(desk.state(number), State::Claimed);
    desk.pass(1);
    assert_eq!(desk.state(number), State::Pending);
}

#[test]
fn a_small_difference_between_the_clocks_is_no_leap() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let first = stamp(&mut desk);
    desk.clock.set_wall(10 * MINUTE);
    let before = desk.head();
    assert_eq!(stamp(&mut desk), first + 10 * MINUTE);
    assert_eq!(desk.kinds_after(before), ["message.send"]);
}

#[test]
fn a_leap_of_three_hours_is_taken_and_moves_open_leases() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    let token = accepted(desk.claim("bob", number));
    let until = desk.delivery(number).lease_until.unwrap();
    let before = desk.head();
    desk.clock.set_wall(3 * HOUR);
    let at = stamp(&mut desk);

    assert_eq!(at, MORNING + 3 * HOUR);
    assert_eq!(desk.kinds_after(before), ["clock", "message.send"]);
    let delivery = desk.delivery(number);
    assert_eq!(delivery.state, State::Claimed, "a clock leap ends no lease");
    assert_eq!(delivery.lease_until, Some(until.plus_ms(3 * HOUR)));
    assert_eq!(desk.history(number), [Event::Claimed, Event::LeaseMoved]);

    desk.pass(LEASE - 1);
    accepted(desk.done_with("bob", number, Some(token)));
    assert_eq!(desk.state(number), State::Done);
}

#[test]
fn a_leap_stays_in_the_log_even_if_the_proposal_after_it_is_refused() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    let before = desk.head();
    desk.clock.set_wall(3 * HOUR);
    refused(desk.claim("bob", number), Code::AlreadyClaimed);
    assert_eq!(desk.kinds_after(before), ["clock"]);
    assert_eq!(desk.state(number), State::Claimed);
}

#[test]
fn views_do_not_believe_a_leap_before_it_is_in_the_log() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    let before = desk.tables();
    desk.clock.set_wall(3 * HOUR);
    desk.settle();
    assert_eq!(desk.now().ms(), MORNING);
    assert!(!desk.track(number).unconfirmed);
    assert_eq!(desk.tables(), before, "nothing is due, so nothing is written");
}

#[test]
fn a_leap_of_more_than_a_day_is_refused_until_somebody_accepts_it() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = desk.send("ann", "bob", "directive");
    accepted(desk.claim("bob", number));
    let until = desk.delivery(number).lease_until.unwrap();
    let leap = DAY + MINUTE;
    desk.clock.set_wall(leap);
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    for _ in 0..2 {
        let error = desk.try_outcome(&proposal).expect_err("too far");
        assert!(matches!(error, Error::ClockLeap { leap_ms } if leap_ms == leap), "{error}");
    }
    assert_eq!(desk.state(number), State::Claimed);

    let before = desk.head();
    assert_eq!(desk.office.accept_clock(&speaker("ann").0).unwrap(), Some(leap));
    let records = desk.records_after(before);
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].name.as_str(), records[0].actor.as_str()), ("clock", "ann"), "the actor accepted the leap");
    assert_eq!(records[0].at.ms(), MORNING + leap);
    assert_eq!(desk.delivery(number).lease_until, Some(until.plus_ms(leap)));
    accepted(desk.outcome(&proposal).verdict.accepted());
    assert_eq!(desk.office.accept_clock(&speaker("ann").0).unwrap(), None, "there is nothing left to accept");
}

#[test]
fn exactly_a_day_is_still_taken() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.clock.set_wall(DAY);
    assert_eq!(stamp(&mut desk), MORNING + DAY);
}

#[test]
fn while_a_leap_is_refused_views_show_what_is_due_as_unconfirmed() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let number = accepted(desk.post("ann", Send { not_before: after(HOUR), ..letter("bob", "message") })).number;
    desk.clock.pass(HOUR);
    desk.clock.set_wall(2 * DAY);
    assert_eq!(desk.office.settle().unwrap(), Settled::No);
    let track = desk.track(number);
    assert!(track.unconfirmed && !track.ready);
    assert_eq!(desk.now().ms(), MORNING + HOUR, "until then views use the boot clock");
    desk.office.accept_clock(&speaker("ann").0).unwrap();
    desk.settle();
    assert!(desk.delivery(number).ready);
}

#[test]
fn time_the_machine_was_off_or_asleep_is_no_leap() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.clock.reboot_after(30 * DAY);
    assert_eq!(stamp(&mut desk), MORNING + 30 * DAY);
    desk.clock.pass(5 * DAY);
    assert_eq!(stamp(&mut desk), MORNING + 35 * DAY);
    desk.clock.reboot_after(-DAY);
    assert_eq!(stamp(&mut desk), MORNING + 35 * DAY, "and never back, also after a reboot");
    assert!(!desk.kinds_after(poste_core::Position(0)).contains(&"clock".to_owned()));
}

#[test]
fn the_callers_clock_is_information_only() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let elsewhere = desk.clock.wall().plus_ms(-400 * DAY);
    let proposal = proposal("from afar", "ann", elsewhere, Intent::Send(letter("bob", "message")), None);
    let outcome = desk.outcome(&proposal);
    assert_eq!(outcome.at.ms(), MORNING);
    assert_eq!(desk.records_after(poste_core::Position(outcome.position.unwrap().0 - 1))[0].sent_at, elsewhere);
}

#[test]
fn a_clock_record_leaps_ahead_or_not_at_all() {
    let mut desk = Desk::with(&["ann"]);
    for leap_ms in [0, -1, i64::MIN] {
        refused(desk.ask("poste", Intent::Clock(Clock { leap_ms })), Code::TimeOutOfRange);
    }
    refused(desk.ask("poste", Intent::Clock(Clock { leap_ms: DAY + 1 })), Code::NotAllowed);
}

#[test]
fn a_stranger_cannot_move_the_clock() {
    let mut desk = Desk::with(&["ann"]);
    let leap = Intent::Clock(poste_core::log::Clock { leap_ms: 5 * DAY });
    refused(desk.ask("nobody", leap), Code::UnknownAgent);
}
