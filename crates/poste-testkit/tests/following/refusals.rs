//! Refusals stay in a log that is ordered elsewhere, and every reader of that log counts them.

use poste_core::backup;
use poste_core::fold::Code;
use poste_core::log::{Ack, Intent};
use poste_core::store::Store;
use poste_core::store::table_digest::{digest, refold_to_look_at};
use poste_core::{MessageNo, views};

use crate::world::{World, accepted, refused, tables};

#[test]
fn a_followed_log_with_a_refusal_verifies_and_replays() {
    let (mut world, mut one, mut two) = World::with(&["ann", "bob"]);
    accepted(world.send(&mut one, "ann", "bob", "hello"));
    let stray = world.propose(&mut one, "bob", Intent::Ack(Ack { message: MessageNo(77) }));
    assert_eq!(refused(&stray), Code::UnknownMessage);
    let until = stray.position.expect("this log keeps refusals");
    accepted(world.send(&mut one, "bob", "ann", "hello again"));

    let store = one.store();
    assert_eq!(views::verify(store, |_| {}).unwrap().problems, []);
    assert!(views::diff_with_fold(store, |_| {}).unwrap().equal);
    let past = refold_to_look_at(store, until, |_| {}).unwrap();
    assert!(past.tables().unwrap().refusal(until).unwrap().is_some());
    assert_eq!(views::verify(&past, |_| {}).unwrap().tables, digest(past.conn()).unwrap());

    two.follow().unwrap();
    assert_eq!(tables(&one), tables(&two));
    accepted(world.send(&mut two, "ann", "bob", "from the other machine"));
    let ahead = Store::open_other(&world.path("two")).unwrap();
    assert!(views::diff_with_other(store, &ahead, |_| {}).unwrap().equal, "the one ahead is folded up to this one");
}

#[test]
fn a_snapshot_of_a_followed_log_with_a_refusal_is_taken() {
    let (mut world, mut one, _) = World::with(&["ann"]);
    refused(&world.propose(&mut one, "ann", Intent::Ack(Ack { message: MessageNo(77) })));
    let manifest = backup::take(&one, &world.folder.path().join("snapshot"), &mut |_| {}).unwrap();
    assert_eq!(manifest.tables, tables(&one));
}
