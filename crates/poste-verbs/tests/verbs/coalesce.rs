//! Rings for one agent in quick succession are merged into one.

use poste_core::log::{MessageNo, WakeWay};
use poste_core::text::Name;
use poste_core::vocabulary::Urgency;
use poste_verbs::wake::coalesce::{self, Turn, WINDOW, next, turn};

#[test]
fn a_ring_covers_what_it_was_for_and_holds_up_the_rest_for_a_while() {
    let office = tempfile::tempdir().expect("a folder");
    let agent: Name = "coder".parse().expect("a name");
    let one = [MessageNo(1)];
    let both = [MessageNo(1), MessageNo(2)];
    let turn = |numbers: &[MessageNo], urgency| turn(office.path(), &agent, numbers, urgency, true).expect("asked");
    let Turn::Now(bell) = turn(&one, Urgency::Turn) else { panic!("there was no ring yet") };
    drop(bell); // nothing was tried, so nothing is recorded
    let Turn::Now(bell) = turn(&one, Urgency::Turn) else { panic!("there was no ring yet") };
    bell.rang(Some(WakeWay::Tmux), &one, Urgency::Turn).expect("noted");
    assert!(matches!(turn(&one, Urgency::Turn), Turn::Covered { how: Some(WakeWay::Tmux), .. }));
    assert!(matches!(turn(&both, Urgency::Turn), Turn::Wait(left) if left <= WINDOW));
    let Turn::Now(bell) = turn(&both, Urgency::Now) else { panic!("an urgent ring does not wait") };
    bell.rang(Some(WakeWay::Tmux), &both, Urgency::Now).expect("noted");
    assert!(matches!(turn(&[MessageNo(3)], Urgency::Now), Turn::Wait(_)));
    let other: Name = "other".parse().expect("a name");
    assert!(matches!(coalesce::turn(office.path(), &other, &one, Urgency::Now, false), Ok(Turn::Now(_))));
}

#[test]
fn a_ring_that_failed_counts_unless_somebody_asks_by_hand() {
    let office = tempfile::tempdir().expect("a folder");
    let agent: Name = "coder".parse().expect("a name");
    let turn =
        |number: u64, by_hand| turn(office.path(), &agent, &[MessageNo(number)], Urgency::Now, by_hand).expect("asked");
    let Turn::Now(bell) = turn(1, false) else { panic!("there was no ring yet") };
    bell.rang(None, &[MessageNo(1)], Urgency::Now).expect("noted");
    assert!(matches!(turn(1, false), Turn::Covered { how: None, .. }));
    assert!(matches!(turn(2, false), Turn::Wait(_)));
    assert!(matches!(turn(1, true), Turn::Now(_)));
}

#[test]
fn one_waits_to_ring_next_and_no_more() {
    let office = tempfile::tempdir().expect("a folder");
    let agent: Name = "coder".parse().expect("a name");
    let first = next(office.path(), &agent).expect("asked").expect("no other process waits");
    assert!(next(office.path(), &agent).expect("asked").is_none());
    assert!(next(office.path(), &"other".parse().expect("a name")).expect("asked").is_some());
    drop(first);
    assert!(next(office.path(), &agent).expect("asked").is_some());
}
