//! Which machine a record came from, and by which surface.

use std::fs;
use std::path::PathBuf;

use poste_core::log::{Intent, Proposal, Via};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::{Position, views};

use crate::common::{Desk, letter, text};

fn place(desk: &Desk, path: PathBuf) -> Place {
    Place { path, ..desk.place.clone() }
}

#[test]
fn an_office_keeps_its_machine_id() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let machine = desk.office.machine().unwrap().clone();
    desk.send("ann", "bob", "message");
    let moved = desk.folder.path().join("moved");
    assert_eq!(desk.place.open().unwrap().machine().unwrap(), &machine);
    for (position, actor) in [(1, "poste"), (2, "ann"), (4, "ann")] {
        let record = views::record(desk.office.store(), Position(position)).unwrap().unwrap();
        assert_eq!((record.actor.as_str(), &record.origin.machine), (actor, &machine));
    }
    desk.leave_unverified();
    fs::rename(&desk.place.path, &moved).unwrap();
    assert_eq!(place(&desk, moved).open().unwrap().machine().unwrap(), &machine, "it is the same folder still");
}

#[test]
fn the_same_folder_under_another_system_is_another_machine() {
    let desk = Desk::new();
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert_ne!(other.machine().unwrap(), desk.office.machine().unwrap());
}

#[test]
fn a_repeat_by_another_way_is_the_same_proposal() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let first = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(text("once")));
    desk.office.propose(&first, &Rules::none()).unwrap();
    let again = desk.office.propose(&Proposal { via: Via::Mcp, ..first.clone() }, &Rules::none()).unwrap();
    assert!(again.repeat);
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let mut other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert!(other.propose(&first, &Rules::none()).unwrap().repeat);
    let track =
        views::track(desk.office.store(), poste_core::MessageNo(1), desk.office.now().unwrap()).unwrap().unwrap();
    let origin = track.origin.unwrap();
    assert_eq!((origin.via, &origin.machine), (Via::Cli, desk.office.machine().unwrap()));
    assert_eq!(origin.told(), "", "people are not told of what goes without saying");
}
