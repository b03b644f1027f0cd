//! The mail that a session is told about while it runs, and the mail it must not leave unhandled.

use poste_core::log::Send;
use poste_core::views::{self, Heard};
use poste_core::vocabulary::Priority;
use poste_core::{MessageNo, Position};

use crate::common::*;

fn unreported(desk: &Desk, who: &str, heard: &Heard) -> Vec<MessageNo> {
    let (name, session) = who.split_once('/').expect("a session");
    let agent = desk.office.agent(&name.parse().expect("a name")).expect("read").expect("registered");
    let session = session.parse().expect("a session");
    let mail = views::unreported(desk.office.store(), &agent, &session, heard, 10).expect("read");
    mail.messages.into_iter().map(|message| message.number).collect()
}

fn unhandled(desk: &Desk, who: &str) -> Vec<MessageNo> {
    let agent = desk.office.agent(&who.parse().expect("a name")).expect("read").expect("registered");
    let lines = views::unhandled(desk.office.store(), &agent, 10, desk.now()).expect("read");
    lines.into_iter().map(|line| line.number).collect()
}

fn heard(numbers: &[MessageNo]) -> Heard {
    Heard { numbers: numbers.iter().copied().collect(), ..Heard::default() }
}

#[test]
fn a_session_hears_of_what_does_not_wait_and_it_was_not_told_of() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let [now, turn, _] = ["alert", "directive", "progress_update"].map(|kind| desk.send("ann", "bob", kind));
    assert_eq!(unreported(&desk, "bob/1", &Heard::default()), [now, turn]);
    assert_eq!(unreported(&desk, "bob/1", &heard(&[now])), [turn], "it was told about one");
    accepted(desk.shown("bob/1", turn));
    assert_eq!(unreported(&desk, "bob/1", &heard(&[now])), [], "and was shown the other");
    assert_eq!(unreported(&desk, "bob/2", &Heard::default()), [now, turn], "another session was not");
    let looked = Heard { looked_until: Some(desk.head()), ..Heard::default() };
    assert_eq!(unreported(&desk, "bob/2", &looked), []);
    accepted(desk.done("bob", now));
    assert_eq!(unreported(&desk, "bob/2", &Heard::default()), [turn]);
    let none = Heard { looked_until: Some(Position(0)), ..Heard::default() };
    assert_eq!(unreported(&desk, "bob/2", &none), [turn]);
}

#[test]
fn what_presses_is_neglected_until_somebody_took_note_of_it() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.send("ann", "bob", "directive");
    let urgent = Send { priority: Some(Priority::Urgent), ..letter("bob", "message") };
    let urgent = accepted(desk.post("ann", urgent)).number;
    let alert = desk.send("ann", "bob", "alert");
    let later = Send { not_before: after(60_000), ..letter("bob", "alert") };
    accepted(desk.post("ann", later));
    assert_eq!(unhandled(&desk, "bob"), [urgent, alert]);
    accepted(desk.shown("bob/1", urgent));
    assert_eq!(unhandled(&desk, "bob"), [urgent, alert], "shown is not handled");
    accepted(desk.ack("bob", urgent));
    assert_eq!(unhandled(&desk, "bob"), [alert]);
    accepted(desk.claim("bob", alert));
    assert_eq!(unhandled(&desk, "bob"), []);
}

#[test]
fn a_groups_mail_is_neglected_by_every_member_until_one_takes_it() {
    let mut desk = Desk::with(&["ann"]);
    for name in ["bob", "cid"] {
        desk.register(name, with_role("dev"));
    }
    desk.register("dan", with_role("ops"));
    let [acked, claimed] = [(); 2].map(|()| desk.send("ann", "role:dev", "alert"));
    let own = desk.send("bob", "role:dev", "alert");
    assert_eq!(unhandled(&desk, "bob"), [acked, claimed], "a sender is not its own recipient");
    assert_eq!(unhandled(&desk, "cid"), [acked, claimed, own]);
    assert_eq!(unhandled(&desk, "dan"), []);
    accepted(desk.ack("cid", acked));
    accepted(desk.claim("cid", claimed));
    assert_eq!(unhandled(&desk, "bob"), []);
    assert_eq!(unhandled(&desk, "cid"), [own]);
}

#[test]
fn a_session_holds_what_it_claimed_and_what_was_claimed_in_none() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let numbers = [(); 3].map(|()| desk.send("ann", "bob", "directive"));
    for (who, number) in ["bob/1", "bob/2", "bob"].into_iter().zip(numbers) {
        accepted(desk.claim(who, number));
    }
    let held = |session: Option<&str>| -> Vec<MessageNo> {
        let session = session.map(|session| session.parse().expect("a session"));
        let held = views::held_in(desk.office.store(), &"bob".parse().expect("a name"), session.as_ref());
        held.expect("read").into_iter().map(|held| held.message).collect()
    };
    assert_eq!(held(Some("1")), [numbers[0], numbers[2]]);
    assert_eq!(held(Some("2")), [numbers[1], numbers[2]]);
    assert_eq!(held(None), [numbers[2]]);
}
