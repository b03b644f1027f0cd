//! Which machine a record came from, and by which surface.

use std::fs;
use std::path::{Path, PathBuf};

use poste_core::log::{Intent, Proposal, RunStart, SessionStart, Via};
use poste_core::office::Place;
use poste_core::store::Options;
use poste_core::store::processes::{self, Presence};
use poste_core::{Position, views};

use crate::common::{Desk, accepted, letter, text};

/// A plain copy of the folder, as a person or a backup makes one.
fn copied(desk: &Desk, name: &str) -> PathBuf {
    let to = desk.folder.path().join(name).join(".poste");
    copy(&desk.place.path, &to);
    to
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

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
fn a_copied_folder_is_another_machine() {
    let mut desk = Desk::with(&["ann", "bob"]);
    fs::write(desk.config(), "[delivery]\nmax_attempts = 2\n").unwrap();
    desk.office.sync_policy().unwrap();
    let path = copied(&desk, "copy");
    let mut copy = place(&desk, path.clone()).open().unwrap();
    let machine = copy.machine().unwrap().clone();
    assert_ne!(&machine, desk.office.machine().unwrap());

    // It goes on by itself: its file stands on the policy of the machine it is a copy of.
    fs::write(path.with_file_name("poste.toml"), "[delivery]\nmax_attempts = 3\n").unwrap();
    copy.sync_policy().unwrap();
    let policy = copy.store().tables().unwrap().policy().unwrap();
    assert_eq!((policy.version, policy.machine.as_str()), (2, machine.as_str()));
    let head = copy.head().unwrap().position;
    assert_eq!(views::record(copy.store(), head).unwrap().unwrap().origin.machine, machine);
}

#[test]
fn sessions_and_runs_are_of_the_machine_they_were_started_on() {
    let mut desk = Desk::with(&["ann"]);
    let process = processes::written_down(std::process::id());
    let start = SessionStart {
        id: "s1".parse().unwrap(),
        parent: None,
        process: Some(process.clone()),
        host: "here".to_owned(),
        program: "codex".to_owned(),
        worktree: None,
        takes_over: None,
        resumes: false,
    };
    accepted(desk.ask("ann", Intent::SessionStart(start)));
    let run = RunStart {
        run: "r1".parse().unwrap(),
        messages: Vec::new(),
        lease_ms: None,
        limit: None,
        runner: "codex".to_owned(),
        host: "here".to_owned(),
        supervisor: process.clone(),
    };
    let started = desk.proposal("ann", Intent::RunStart(run), None);
    desk.office
        .propose(&Proposal { session: Some("r1".parse().unwrap()), ..started })
        .unwrap()
        .verdict
        .accepted()
        .unwrap();
    let copy = place(&desk, copied(&desk, "copy")).open().unwrap();
    for (office, presence) in [(&desk.office, Presence::Running), (&copy, Presence::Unknown)] {
        let store = office.store();
        assert_eq!(views::session(store, &"s1".parse().unwrap()).unwrap().unwrap().process, presence);
        assert_eq!(views::all_running(store).unwrap()[0].presence(store).unwrap(), presence);
        let sleeper = views::sleeper(store, &"ann".parse().unwrap()).unwrap();
        assert_eq!(sleeper.session.unwrap().presence, presence);
        let found = views::session_of_process(store, std::slice::from_ref(&process)).unwrap();
        assert_eq!(found.is_some(), presence == Presence::Running);
    }
}

#[test]
fn the_same_folder_under_another_system_is_another_machine() {
    let desk = Desk::new();
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert_ne!(other.machine().unwrap(), desk.office.machine().unwrap());
}

#[test]
fn what_was_trusted_here_is_not_trusted_under_another_system() {
    let mut desk = Desk::with(&["ann"]);
    let file = "[delivery]\nmax_attempts = 2\n";
    fs::write(desk.config(), file).unwrap();
    let seen = desk.office.trust().unwrap().digest.unwrap();
    desk.office.trust_config(&seen, "ann".parse().unwrap()).unwrap();
    assert!(desk.office.is_trusted(file).unwrap());
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert!(!other.is_trusted(file).unwrap());
}

#[test]
fn a_repeat_by_another_way_is_the_same_proposal() {
    let mut desk = Desk::with(&["ann", "bob"]);
    let first = desk.proposal("ann", Intent::Send(letter("bob", "message")), Some(text("once")));
    desk.office.propose(&first).unwrap();
    let again = desk.office.propose(&Proposal { via: Via::Mcp, ..first.clone() }).unwrap();
    assert!(again.repeat);
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let mut other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert!(other.propose(&first).unwrap().repeat);
    let track =
        views::track(desk.office.store(), poste_core::MessageNo(1), desk.office.now().unwrap()).unwrap().unwrap();
    let origin = track.origin.unwrap();
    assert_eq!((origin.via, &origin.machine), (Via::Cli, desk.office.machine().unwrap()));
    assert_eq!(origin.told(), "", "people are not told of what goes without saying");
}
