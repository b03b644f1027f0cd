//! The machine and the surface that a record came from.

use std::fs;

use poste_core::log::{Intent, Proposal, RunStart, SessionStart, Via};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::processes::{self, Presence};
use poste_core::{MessageNo, Position, views};

use crate::common::{Desk, accepted, copied, letter, place, text};

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
    assert_eq!(place(&desk, moved).open().unwrap().machine().unwrap(), &machine, "it is still the same folder");
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
        .propose(&Proposal { session: Some("r1".parse().unwrap()), ..started }, &Rules::none())
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
fn each_machine_rings_its_own_sessions() {
    let mut desk = Desk::with(&["lead", "ann", "bob"]);
    let session = |name: &str| SessionStart {
        id: format!("s-{name}").parse().unwrap(),
        parent: None,
        process: None,
        host: "here".to_owned(),
        program: "codex".to_owned(),
        worktree: None,
        takes_over: None,
        resumes: false,
    };
    accepted(desk.ask("ann", Intent::SessionStart(session("ann"))));
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let mut other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    let start = desk.proposal("bob", Intent::SessionStart(session("bob")), None);
    other.propose(&start, &Rules::none()).unwrap().verdict.accepted().unwrap();
    for name in ["ann", "bob"] {
        desk.send("lead", name, "alert");
    }
    for (office, own) in [(&desk.office, "ann"), (&other, "bob")] {
        let store = office.store();
        let owed = views::owed_rings(store, desk.now()).unwrap();
        assert_eq!(owed.iter().map(|(sleeper, _)| sleeper.agent.as_str()).collect::<Vec<_>>(), [own]);
        let to_ring =
            |number: u64, name: &str| views::to_ring(store, MessageNo(number), &name.parse().unwrap()).unwrap().len();
        assert_eq!([to_ring(1, "ann"), to_ring(2, "bob")], [usize::from(own == "ann"), usize::from(own == "bob")]);
        let session = |name: &str| views::sleeper(store, &name.parse().unwrap()).unwrap().session.unwrap();
        assert_eq!([session("ann").elsewhere, session("bob").elsewhere], [own != "ann", own != "bob"]);
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
    assert_eq!(origin.text(), "", "the default origin is not printed");
}
