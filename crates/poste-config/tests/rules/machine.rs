//! Files of one machine, and copies of a folder on other machines.

use std::fs;

use poste_core::backup::{restore, take};
use poste_core::office::Place;
use poste_core::store::Options;
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
fn what_was_trusted_here_is_not_trusted_under_another_system() {
    let desk = Desk::with(&["ann"]);
    let file = "[delivery]\nmax_attempts = 2\n";
    fs::write(desk.config(), file).unwrap();
    let seen = poste_config::trust(&desk.office).unwrap().digest.unwrap();
    poste_config::trust_config(&desk.office, &seen, "ann".parse().unwrap()).unwrap();
    assert!(poste_config::is_trusted(&desk.office, file).unwrap());
    let elsewhere = Options { machine_mark: "another system".to_owned(), ..Options::default() };
    let other = Place { options: elsewhere, ..desk.place.clone() }.open().unwrap();
    assert!(!poste_config::is_trusted(&other, file).unwrap());
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
    restore(&copy, &place, false, &mut |_| {}).unwrap();
    fs::write(other.join("poste.toml"), "[delivery]\nmax_attempts = 3\n").unwrap();
    let mut office = place.open().unwrap();
    poste_config::sync_policy(&mut office).unwrap();
    let policy = office.store().tables().unwrap().policy().unwrap();
    assert_eq!((policy.version, policy.settings.max_attempts), (2, Some(3)));
    assert_ne!(policy.machine, desk.office.store().machine().unwrap().to_string());
}
