//! Files of one machine, and copies of a folder on other machines.

use std::fs;

use poste_config::trust::{self, Trust};
use poste_core::backup::{restore, take};
use poste_core::gates::Program;
use poste_core::office::Place;
use poste_core::store::Options;
use poste_core::text::Name;
use poste_core::{Position, views};

use crate::common::{Desk, copied, place};

#[test]
fn a_copied_folder_is_another_machine() {
    let mut desk = Desk::with(&["ann", "bob"]);
    fs::write(desk.config(), "[delivery]\nmax_attempts = 2\n").unwrap();
    poste_config::sync_policy(&mut desk.office).unwrap();
    let path = copied(&desk, "copy");
    let mut copy = place(&desk, path.clone()).open().unwrap();
    let machine = copy.machine().unwrap().clone();
    assert_ne!(&machine, desk.office.machine().unwrap());
    for (office, told) in [(&desk.office, String::new()), (&copy, format!(" on {}", desk.office.machine().unwrap()))] {
        for position in [1, 2] {
            let record = views::record(office.store(), Position(position)).unwrap().unwrap();
            assert_eq!(record.origin.text(), told, "record {position}");
        }
    }

    // The copy is independent: its file replaces the policy of the machine it was copied from.
    fs::write(path.with_file_name("poste.toml"), "[delivery]\nmax_attempts = 3\n").unwrap();
    poste_config::sync_policy(&mut copy).unwrap();
    let policy = copy.store().tables().unwrap().policy().unwrap();
    assert_eq!((policy.version, policy.machine.as_str()), (2, machine.as_str()));
    let head = copy.head().unwrap().position;
    assert_eq!(views::record(copy.store(), head).unwrap().unwrap().origin.machine, machine);
}

#[test]
fn what_was_trusted_here_is_not_trusted_elsewhere_or_after_a_change() {
    let desk = Desk::with(&["ann"]);
    fs::write(desk.config(), "[wake]\ncommand = ['notify']\n").unwrap();
    let file = trust::candidates(&desk.office).unwrap().pop().unwrap();
    assert_eq!(trust::trust(&desk.office, &file).unwrap(), Trust::Never);
    assert!(poste_config::wake_config(&desk.office).unwrap().untrusted);
    trust::set_trusted(&desk.office, &file, "ann".to_owned()).unwrap();
    assert!(trust::trust(&desk.office, &file).unwrap().is_trusted());
    assert!(poste_config::wake_config(&desk.office).unwrap().command.is_some());
    // A copy of the folder is another one, and another user has a store of their own.
    let copy = place(&desk, copied(&desk, "copy")).open().unwrap();
    assert_eq!(trust::trust(&copy, &file).unwrap(), Trust::Never);
    let elsewhere = Options { state: Some(desk.folder.path().join("other/poste")), ..Options::default() };
    let other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert_eq!(trust::trust(&other, &file).unwrap(), Trust::Never);

    let changed = trust::Candidate { text: file.text.replace("notify", "notify2"), ..file.clone() };
    let Trust::Changed(reviewed) = trust::trust(&desk.office, &changed).unwrap() else { panic!("it changed") };
    let lines = trust::changed_lines(&reviewed, &changed.text, 10);
    assert_eq!(lines, ["-command = ['notify']", "+command = ['notify2']"]);
    let as_workflow = trust::Candidate { kind: trust::Kind::Workflow, ..file.clone() };
    assert_eq!(trust::trust(&desk.office, &as_workflow).unwrap(), Trust::Never, "it was not reviewed as a workflow");
    assert_eq!(trust::revoke_trust(&desk.office, |file| file.is_named("poste")).unwrap(), []);
    let revoked = trust::revoke_trust(&desk.office, |file| file.is_named("poste.toml")).unwrap();
    assert_eq!(revoked.len(), 1);
    assert!(!trust::trust(&desk.office, &file).unwrap().is_trusted());
}

#[test]
fn a_program_in_the_project_runs_as_it_was_reviewed() {
    let desk = Desk::with(&["ann"]);
    let script = desk.folder.path().join("check.sh");
    let write = |text: &str| {
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    };
    write("#!/bin/sh\nexit 0\n");
    fs::write(desk.config(), "[[gate]]\nname = 'own'\ntype = 'draft_ready'\ncommand = ['./check.sh', 'x']\n").unwrap();
    let file = trust::candidates(&desk.office).unwrap().pop().unwrap();
    trust::set_trusted(&desk.office, &file, "ann".to_owned()).unwrap();
    let words = |desk: &Desk| match poste_config::gates(&desk.office).unwrap() {
        gates if gates.trusted.is_empty() => None,
        gates => match gates.gates[0].program.clone() {
            Some(Program::Words(words)) => Some(words),
            other => panic!("{other:?}"),
        },
    };
    let runs = words(&desk).expect("it is trusted");
    assert!(!runs[0].ends_with("check.sh") && runs[1] == "x", "{runs:?}");
    assert_eq!(fs::read_to_string(&runs[0]).unwrap(), "#!/bin/sh\nexit 0\n");
    write("#!/bin/sh\nexit 1\n");
    assert_eq!(words(&desk), None, "the program changed");
    fs::remove_file(&script).unwrap();
    assert_eq!(words(&desk), None, "the program is gone");
    write("#!/bin/sh\nexit 0\n");
    assert!(words(&desk).is_some());
}

#[test]
fn poste_renews_only_what_a_person_had_reviewed() {
    let desk = Desk::with(&["ann"]);
    let agent = |name: &str| poste_config::NewAgent {
        name: name.parse().unwrap(),
        preset: None,
        run: vec!["true".to_owned()],
        mode: None,
        role: None,
        prompt: None,
        worktree: false,
        resume: false,
    };
    let person = || Some("ann".to_owned());
    let add = |name: &str, by: Option<String>| poste_config::add_agent(&desk.office, &agent(name), by).unwrap().trusted;
    let runs = |name: &str| poste_config::runners(&desk.office).unwrap().agents[&name.parse::<Name>().unwrap()].trusted;
    assert!(add("one", person()) && runs("one"), "there was nothing before");
    assert!(add("two", person()) && runs("one") && runs("two"));
    assert!(!add("three", None) && !runs("three") && !runs("one"), "nobody reviewed this");
    assert!(!add("four", person()) && !runs("four"), "what was there before is still not reviewed");
    let mode =
        std::os::unix::fs::MetadataExt::mode(&fs::metadata(desk.office.path().unwrap().join("local.toml")).unwrap());
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_copy_may_change_its_policy_and_says_which_machine_it_is() {
    let mut desk = Desk::with(&["ann", "bob"]);
    fs::write(desk.config(), "[delivery]\nmax_attempts = 2\n").unwrap();
    poste_config::sync_policy(&mut desk.office).unwrap();
    let copy = desk.folder.path().join("copy");
    take(&desk.office, &copy, &mut |_| {}).unwrap();
    let other = desk.folder.path().join("other");
    fs::create_dir(&other).unwrap();
    let place = place(&desk, other.join(".poste"));
    restore(&copy, &place, false, &mut |_| {}, &mut |_| Ok(())).unwrap();
    fs::write(other.join("poste.toml"), "[delivery]\nmax_attempts = 3\n").unwrap();
    let mut office = place.open().unwrap();
    poste_config::sync_policy(&mut office).unwrap();
    let policy = office.store().tables().unwrap().policy().unwrap();
    assert_eq!((policy.version, policy.settings.max_attempts), (2, Some(3)));
    assert_ne!(policy.machine, desk.office.store().machine().unwrap().to_string());
}
