//! The office as it was, and digests that say where two states part.

use poste_core::Position;
use poste_core::fold::Refusals;
use poste_core::store::table_digest::{digest, refold_until};
use poste_core::views;

use crate::common::*;

#[test]
fn a_replay_up_to_any_record_is_the_office_at_that_moment() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let mut was = Vec::new();
    let mut note = |desk: &Desk| was.push((desk.head(), digest(desk.office.store().conn()).unwrap()));
    let number = desk.send("ann", "bob", "directive");
    note(&desk);
    desk.claim("bob", number).unwrap();
    note(&desk);
    desk.pass(3_600_000);
    desk.settle();
    note(&desk);
    desk.reply("bob", number).unwrap();
    note(&desk);
    for (head, then) in was {
        let past = refold_until(desk.office.store(), head, Refusals::Dropped, |_| {}).unwrap();
        assert_eq!(digest(past.conn()).unwrap(), then, "after record {head}");
        assert_eq!(views::past_office(&past).unwrap().position, head);
    }
    let nothing = refold_until(desk.office.store(), Position(0), Refusals::Dropped, |_| {}).unwrap();
    assert_eq!(views::past_office(&nothing).unwrap().messages, 0);
}

#[test]
fn tables_that_are_not_what_the_log_folds_to_are_named() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let different = |desk: &Desk| {
        let diff = views::diff_with_fold(desk.office.store(), Refusals::Dropped, |_| {}).unwrap();
        let names = diff.tables.into_iter().filter(|table| !table.equal).map(|table| table.table);
        names.collect::<Vec<String>>()
    };
    assert_eq!(different(&desk), Vec::<String>::new());
    desk.office.store().conn().execute("UPDATE agents SET role = 'king' WHERE name = 'bob'", []).unwrap();
    assert_eq!(different(&desk), ["agents"]);
}

#[test]
fn a_record_changed_behind_the_back_of_the_chain_is_where_two_logs_part() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    desk.send("ann", "bob", "message");
    let other = desk.place.open().unwrap();
    assert_eq!(views::first_difference(desk.office.store(), other.store(), |_| {}).unwrap(), None);
    let copy = tempfile::tempdir().unwrap();
    let file = copy.path().join("copy.db");
    poste_core::log::Log::snapshot(desk.office.log(), &file).unwrap();
    desk.office.store().conn().execute("UPDATE log SET at = at + 1 WHERE position = 3", []).unwrap();
    let copy = poste_core::store::Store::open_other(&file).unwrap();
    assert_eq!(views::first_difference(desk.office.store(), &copy, |_| {}).unwrap(), Some(Position(3)));
}
