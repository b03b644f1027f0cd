//! Replaying an office as it was, and digests that show where two states differ.

use poste_core::Position;
use poste_core::store::Store;
use poste_core::store::table_digest::{digest, refold, refold_for_reading, refold_until};
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
    desk.pass(3_600_000);
    desk.claim("bob/2", number).unwrap();
    desk.done("bob/2", number).unwrap();
    note(&desk);
    for (head, then) in was {
        let past = refold_until(desk.office.store(), head, |_| {}).unwrap();
        assert_eq!(digest(past.conn()).unwrap(), then, "after record {head}");
        assert_eq!(views::past_office(&past).unwrap().position, head);
    }
    let nothing = refold_until(desk.office.store(), Position(0), |_| {}).unwrap();
    assert_eq!(views::past_office(&nothing).unwrap().messages, 0);
}

#[test]
fn a_replay_for_its_digests_has_the_indexes_it_needed_and_one_to_look_at_has_all() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let indexes = |store: &Store| -> Vec<String> {
        let mut names =
            store.conn().prepare("SELECT name FROM sqlite_schema WHERE type = 'index' ORDER BY name").unwrap();
        names.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let lacks = |desk: &Desk| {
        let fresh = indexes(&refold(desk.office.store(), |_| {}).unwrap());
        let all = indexes(desk.office.store());
        all.into_iter().filter(|name| !fresh.contains(name)).collect::<Vec<String>>()
    };
    let number = desk.send("ann", "bob", "directive");
    assert_eq!(lacks(&desk), ["deliveries_inbox", "deliveries_message", "events_position", "messages_conversation"]);
    desk.done("bob", number).unwrap();
    assert_eq!(lacks(&desk), ["deliveries_inbox", "events_position", "messages_conversation"]);
    let past = refold_for_reading(desk.office.store(), desk.head(), |_| {}).unwrap();
    assert_eq!(indexes(&past), indexes(desk.office.store()));
}

#[test]
fn tables_that_are_not_what_the_log_folds_to_are_named() {
    let mut desk = Desk::with(&["ann", "bob"]);
    desk.leave_unverified();
    let different = |desk: &Desk| {
        let diff = views::diff_with_fold(desk.office.store(), |_| {}).unwrap();
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
    desk.office.snapshot(&file).unwrap();
    desk.office.store().conn().execute("UPDATE log SET at = at + 1 WHERE position = 3", []).unwrap();
    let copy = poste_core::store::Store::open_other(&file).unwrap();
    assert_eq!(views::first_difference(desk.office.store(), &copy, |_| {}).unwrap(), Some(Position(3)));
}
