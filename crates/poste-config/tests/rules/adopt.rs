//! Offices are used only where their user has adopted them.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;

use poste_config::trust::{self, Trust};
use poste_config::{adopt, look, open};
use poste_core::Error;
use poste_core::log::{Author, Intent, Register, Via};
use poste_core::office::{Place, Settled};

use crate::common::{Desk, copied, place};

/// An office that was made as surfaces make it.
fn adopted() -> (tempfile::TempDir, Place) {
    let desk = Desk::new();
    let folder = tempfile::tempdir().unwrap();
    let project = folder.path().join("project");
    fs::create_dir(&project).unwrap();
    let mut made = place(&desk, project.join(".poste"));
    made.options.state = Some(folder.path().join("state/poste"));
    assert!(adopt::create(&made).unwrap());
    (folder, made)
}

fn is_refused(place: &Place) -> bool {
    matches!(open(place), Err(Error::NotAdopted { .. }))
}

#[test]
fn what_is_made_is_adopted_and_a_copy_is_not() {
    let (folder, made) = adopted();
    open(&made).unwrap();
    assert!(!adopt::create(&made).unwrap(), "it is there");
    let desk = Desk::new();
    let foreign = Place { path: copied(&desk, "copy"), ..made };
    assert!(is_refused(&foreign));
    assert!(!adopt::create(&foreign).unwrap() && is_refused(&foreign), "what is there is not made");
    let office = look(&foreign).unwrap();
    adopt::adopt(&office).unwrap();
    open(&foreign).unwrap();
    drop(folder);
}

#[test]
fn a_renamed_office_keeps_what_was_decided_about_it() {
    let (folder, made) = adopted();
    let renamed = folder.path().join("renamed");
    fs::write(folder.path().join("project/poste.toml"), "[wake]\ncommand = ['notify']\n").unwrap();
    let office = open(&made).unwrap();
    let file = trust::candidates(&office).unwrap().pop().unwrap();
    trust::set_trusted(&office, &file, "ann".to_owned()).unwrap();
    drop(office);
    fs::rename(folder.path().join("project"), &renamed).unwrap();
    let there = Place { path: renamed.join(".poste"), ..made };
    for _ in 0..2 {
        let office = open(&there).unwrap();
        assert!(trust::trust(&office, &file).unwrap().is_trusted());
    }
    assert_eq!(fs::read_dir(folder.path().join("state/poste/offices")).unwrap().count(), 1);
}

#[test]
fn another_office_at_the_same_path_inherits_nothing() {
    let (folder, made) = adopted();
    fs::write(folder.path().join("project/poste.toml"), "[wake]\ncommand = ['notify']\n").unwrap();
    let office = open(&made).unwrap();
    let file = trust::candidates(&office).unwrap().pop().unwrap();
    trust::set_trusted(&office, &file, "ann".to_owned()).unwrap();
    drop(office);
    // The new folder may well get the inode of the old one.
    let desk = Desk::new();
    fs::remove_dir_all(&made.path).unwrap();
    fs::DirBuilder::new().mode(0o700).create(&made.path).unwrap();
    for entry in fs::read_dir(desk.office.path().unwrap()).unwrap().flatten() {
        if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), made.path.join(entry.file_name())).unwrap();
        }
    }
    assert!(is_refused(&made));
    adopt::adopt(&look(&made).unwrap()).unwrap();
    let office = open(&made).unwrap();
    assert_eq!(trust::trust(&office, &file).unwrap(), Trust::Never);
}

#[test]
fn whoever_looks_at_a_foreign_office_changes_nothing() {
    let (_folder, made) = adopted();
    let desk = Desk::with(&["ann"]);
    let foreign = Place { path: copied(&desk, "copy"), ..made };
    let mut office = look(&foreign).unwrap();
    let before = office.head().unwrap().position;
    let author = Author::new("ben".parse().unwrap(), Via::Cli);
    let proposal = office.proposal(&author, Intent::Register(Register::default()), None);
    assert!(matches!(poste_config::propose(&mut office, &proposal), Err(Error::ReadOnly(_))));
    let _: Settled = office.settle().unwrap();
    assert_eq!(office.head().unwrap().position, before);
}
