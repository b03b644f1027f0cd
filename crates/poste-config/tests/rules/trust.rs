//! Programs in the project run as they were shown to the person who trusted them.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use poste_config::trust::{self, Candidate, Kind, Trust};
use poste_core::gates::Source;
use poste_core::text::Name;

use crate::common::Desk;

const GOOD: &str = "#!/bin/sh\nexit 0\n";
const EVIL: &str = "#!/bin/sh\nid\n";
const GATE: &str = "[[gate]]\nname = 'own'\ntype = 'draft_ready'\ncommand = ['./check.sh']\n";

/// Writes a program below the project.
fn program(desk: &Desk, path: &str, text: &str) {
    let path = project(desk).join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

fn project(desk: &Desk) -> &Path {
    desk.office.path().unwrap().parent().unwrap()
}

fn shown(desk: &Desk) -> Candidate {
    trust::candidates(&desk.office).unwrap().pop().unwrap()
}

fn is_trusted(desk: &Desk) -> bool {
    trust::is_trusted(&desk.office, Source::Office).unwrap()
}

fn trusted(desk: &Desk, file: &Candidate) -> bool {
    trust::set_trusted(&desk.office, file, "ann".to_owned()).is_ok()
}

/// The first word of what an agent runs, if it may run.
fn runs(desk: &Desk, agent: &str) -> Option<String> {
    let agent = &poste_config::runners(&desk.office).unwrap().agents[&agent.parse::<Name>().unwrap()];
    agent.trusted.then(|| agent.copy.clone().unwrap_or_else(|| agent.program().unwrap().to_owned()))
}

#[test]
fn a_program_that_changes_while_it_is_reviewed_is_not_trusted() {
    let desk = Desk::with(&["ann"]);
    fs::write(desk.config(), GATE).unwrap();
    program(&desk, "check.sh", GOOD);
    let seen = shown(&desk);
    program(&desk, "check.sh", EVIL);
    assert!(!trusted(&desk, &seen) && !is_trusted(&desk));
    assert!(!trusted(&desk, &Candidate { file: seen.file.clone(), ..seen.clone() }), "nor a copy of what was shown");
    program(&desk, "check.sh", GOOD);
    assert!(trusted(&desk, &seen) && is_trusted(&desk));
}

#[test]
fn what_was_shown_includes_the_bytes_of_programs_and_names_those_that_changed() {
    let desk = Desk::with(&["ann"]);
    fs::write(desk.config(), GATE).unwrap();
    program(&desk, "check.sh", GOOD);
    let seen = shown(&desk);
    assert_eq!(seen.commands[0].digest, Some(poste_core::Digest::of(GOOD.as_bytes())));
    assert_eq!(seen.digest(), shown(&desk).digest());
    assert!(trusted(&desk, &seen));
    program(&desk, "check.sh", EVIL);
    let now = shown(&desk);
    assert_ne!(seen.digest(), now.digest());
    let Trust::Changed(reviewed) = trust::trust(&desk.office, &now).unwrap() else { panic!("it changed") };
    assert_eq!(Vec::from_iter(reviewed.changed_programs(&now)), ["./check.sh"]);
    let lines = || trust::changed_program(&desk.office, &reviewed, &shown(&desk).commands[0]).unwrap();
    assert_eq!(lines(), ["-exit 0", "+id"]);
    fs::write(project(&desk).join("check.sh"), [0x7f, b'E', b'L', b'F']).unwrap();
    let lines = lines();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("digest")), "{lines:?}");
}

#[test]
fn a_relative_program_is_the_one_in_the_folder_it_runs_in() {
    let desk = Desk::with(&["ann"]);
    fs::write(desk.config(), "[agent.coder]\nrun = ['./tool.sh']\nfolder = 'sub'\n").unwrap();
    program(&desk, "sub/tool.sh", GOOD);
    program(&desk, "tool.sh", EVIL);
    assert!(trusted(&desk, &shown(&desk)));
    let copy = runs(&desk, "coder").expect("it is trusted");
    assert_eq!(fs::read_to_string(&copy).unwrap(), GOOD);
    program(&desk, "sub/tool.sh", EVIL);
    assert_eq!(runs(&desk, "coder"), None);
}

#[test]
fn a_relative_program_that_is_not_there_cannot_be_trusted() {
    for how in ["worktree = true", "folder = 'sub'", ""] {
        let desk = Desk::with(&["ann"]);
        fs::create_dir(project(&desk).join("sub")).unwrap();
        fs::write(desk.config(), format!("[agent.coder]\nrun = ['./tool.sh']\n{how}\n")).unwrap();
        assert!(!trusted(&desk, &shown(&desk)), "{how}");
        assert_eq!(runs(&desk, "coder"), None, "{how}");
    }
}

#[test]
fn one_word_for_two_programs_cannot_be_trusted() {
    let desk = Desk::with(&["ann"]);
    let agent = |name: &str, folder: &str| format!("[agent.{name}]\nrun = ['./tool.sh']\nfolder = '{folder}'\n");
    fs::write(desk.config(), agent("one", "a") + &agent("two", "b")).unwrap();
    program(&desk, "a/tool.sh", GOOD);
    program(&desk, "b/tool.sh", EVIL);
    assert!(!trusted(&desk, &shown(&desk)));
    program(&desk, "b/tool.sh", GOOD);
    assert!(trusted(&desk, &shown(&desk)) && runs(&desk, "one").is_some() && runs(&desk, "two").is_some());
}

#[test]
fn a_command_that_runs_in_another_worktree_has_its_program_there() {
    let desk = Desk::with(&["ann"]);
    let there = desk.folder.path().join("there");
    let command = poste_config::Command { program: Some("./check.sh".to_owned()), ..Default::default() };
    let (file, text) = ("handoff 1".to_owned(), "it".to_owned());
    let plain = Candidate { kind: Kind::Handoff, file, text, commands: vec![command] };
    let now = || trust::in_folder(&desk.office, plain.clone(), Some(&there)).unwrap();
    assert!(!trusted(&desk, &now()), "it is not there");
    fs::create_dir(&there).unwrap();
    let script = there.join("check.sh");
    fs::write(&script, GOOD).unwrap();
    fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    assert!(trusted(&desk, &now()) && trust::trust(&desk.office, &now()).unwrap().is_trusted());
    assert!(!trust::trust(&desk.office, &plain).unwrap().is_trusted(), "there is none in the project");
    fs::write(&script, EVIL).unwrap();
    assert!(!trust::trust(&desk.office, &now()).unwrap().is_trusted());
}

#[test]
fn of_programs_poste_trusts_only_the_one_that_a_person_named() {
    let desk = Desk::with(&["ann"]);
    program(&desk, "agent.sh", GOOD);
    program(&desk, "check.sh", GOOD);
    fs::write(desk.config(), GATE).unwrap();
    assert!(trusted(&desk, &shown(&desk)));
    let add = |name: &str, by: Option<&str>| {
        let agent = poste_config::NewAgent {
            name: name.parse().unwrap(),
            preset: None,
            run: vec!["./agent.sh".to_owned()],
            mode: None,
            role: None,
            prompt: None,
            worktree: false,
            resume: false,
        };
        poste_config::add_agent(&desk.office, &agent, by.map(str::to_owned)).unwrap().trusted
    };
    assert!(add("one", Some("ann")) && runs(&desk, "one").is_some());
    program(&desk, "agent.sh", EVIL);
    assert_eq!(runs(&desk, "one"), None, "it changed since");
    assert!(!add("two", Some("ann")), "what else the text starts has to be reviewed");
    program(&desk, "agent.sh", GOOD);
    assert!(!add("three", None) && runs(&desk, "one").is_none(), "nobody proved to be a person");
}

#[test]
fn poste_keeps_the_programs_that_were_reviewed() {
    let desk = Desk::with(&["ann"]);
    fs::write(desk.config(), GATE).unwrap();
    program(&desk, "check.sh", GOOD);
    assert!(trusted(&desk, &shown(&desk)));
    let set = |value: &str| {
        let key: poste_config::KeyPath = "delivery.max_attempts".parse().unwrap();
        let value = Some(poste_config::Value::Count(value.parse().unwrap()));
        poste_config::change_config(&desk.office, &key, value.as_ref(), Some("ann".to_owned())).unwrap().1.trusted
    };
    assert!(set("3") && is_trusted(&desk));
    program(&desk, "check.sh", EVIL);
    assert!(!set("4") && !is_trusted(&desk));
    program(&desk, "check.sh", GOOD);
    assert!(!set("5") && !is_trusted(&desk), "a text that Poste wrote without trust");
}

#[test]
fn poste_trusts_only_the_text_that_it_wrote() {
    let desk = Desk::with(&["ann"]);
    let key: poste_config::KeyPath = "delivery.max_attempts".parse().unwrap();
    for count in 2..12 {
        fs::write(desk.config(), GATE.replace("./check.sh", "true")).unwrap();
        assert!(trusted(&desk, &shown(&desk)));
        let (path, before) = (desk.config(), fs::read_to_string(desk.config()).unwrap());
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let attack = || {
                while !is_over.load(Ordering::Relaxed) {
                    let text = fs::read_to_string(&path).unwrap_or_default();
                    if text != before && !text.is_empty() {
                        let evil = GATE.replace("./check.sh", "id").replace("own", "evil");
                        return fs::write(&path, text + &evil).unwrap();
                    }
                }
            };
            scope.spawn(attack);
            let value = Some(poste_config::Value::Count(count));
            poste_config::change_config(&desk.office, &key, value.as_ref(), Some("ann".to_owned())).unwrap();
            is_over.store(true, Ordering::Relaxed);
        });
        let is_evil = fs::read_to_string(desk.config()).unwrap().contains("evil");
        assert!(!(is_evil && is_trusted(&desk)), "it trusted what somebody else wrote");
    }
}
