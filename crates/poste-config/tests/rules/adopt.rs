//! Offices are used only where their user has adopted them.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};
use std::path::Path;

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

/// A place for an office in a new project, with a store of its own.
fn unmade() -> (tempfile::TempDir, Place) {
    let folder = tempfile::tempdir().unwrap();
    let mut place = place(&Desk::new(), folder.path().join(".poste"));
    place.options.state = Some(folder.path().join("state"));
    (folder, place)
}

fn private_folder(path: &Path) {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(path).unwrap();
}

/// Puts the database of another office into a folder, as an archive that is unpacked over it does.
fn unpack(foreign: &Desk, office: &Path) {
    for name in ["office.db-wal", "office.db-shm"] {
        let _ = fs::remove_file(office.join(name));
    }
    let database = office.join("office.db");
    let _ = fs::remove_file(&database);
    foreign.office.snapshot(&database).unwrap();
    fs::set_permissions(&database, fs::Permissions::from_mode(0o600)).unwrap();
}

fn entries(place: &Place) -> usize {
    let folder = place.options.state.as_ref().unwrap().join("offices");
    fs::read_dir(folder).map_or(0, Iterator::count)
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

#[test]
fn another_office_in_the_same_folder_is_not_opened() {
    let (_folder, made) = adopted();
    let foreign = Desk::with(&["ann"]);
    unpack(&foreign, &made.path);
    let why = |result: Result<(), Error>| match result {
        Err(Error::NotAdopted { why, .. }) => why,
        other => panic!("{other:?}"),
    };
    assert_eq!(why(open(&made).map(drop)), "another office lies here now");
    assert_eq!(why(adopt::check(&made)), "another office lies here now");
    assert!(!adopt::create(&made).unwrap() && is_refused(&made), "to make it again adopts nothing");
    let office = look(&made).unwrap();
    assert!(office.store().options().read_only);
    adopt::adopt(&office).unwrap();
    open(&made).unwrap();
    adopt::check(&made).unwrap();
}

#[test]
fn what_could_not_be_made_is_not_adopted() {
    let (_folder, place) = unmade();
    private_folder(&place.path);
    for (name, text) in [("office.db", ""), ("office.db-wal", "mail")] {
        fs::write(place.path.join(name), text).unwrap();
        fs::set_permissions(place.path.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert!(matches!(adopt::create(&place), Err(Error::Emptied { .. })));
    assert_eq!(entries(&place), 0);
    unpack(&Desk::with(&["ann"]), &place.path);
    assert!(is_refused(&place));
}

#[test]
fn an_office_is_made_in_a_folder_only_if_nobody_wrote_anything_there() {
    for (name, text) in
        [("local.toml", "[types.alert]"), ("live/a", "x"), ("runs/1/a", ""), ("blobs/a", "x"), ("notes", "x")]
    {
        let (_folder, place) = unmade();
        let planted = place.path.join(name);
        private_folder(planted.parent().unwrap());
        fs::write(planted, text).unwrap();
        assert!(matches!(adopt::create(&place), Err(Error::NotEmpty(_))), "{name}");
        assert_eq!(entries(&place), 0, "{name}");
    }
    let (_folder, place) = unmade();
    private_folder(&place.path.join("blobs"));
    for name in ["office.db", "bell", "write.lock"] {
        fs::write(place.path.join(name), "").unwrap();
        fs::set_permissions(place.path.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    assert!(adopt::create(&place).unwrap(), "leftovers of a creation that was interrupted");
    open(&place).unwrap();
}

#[test]
fn no_office_is_made_through_a_link() {
    let (folder, place) = unmade();
    let other = folder.path().join("elsewhere");
    private_folder(&other);
    symlink(&other, &place.path).unwrap();
    assert!(matches!(adopt::create(&place), Err(Error::Unsafe { .. })));
    assert_eq!((entries(&place), fs::read_dir(&other).unwrap().count()), (0, 0));
}

/// Takes the id from the entry, as if its process had died just before it knew the id.
fn interrupt(place: &Place) {
    let folder = place.options.state.as_ref().unwrap().join("offices");
    let entry = fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    let text = fs::read_to_string(&entry).unwrap();
    let id = open(place).unwrap().store().office_id().unwrap();
    fs::write(entry, text.replace(&format!("\"{id}\""), "null")).unwrap();
}

#[test]
fn only_an_empty_office_is_taken_for_the_one_whose_making_was_interrupted() {
    let (_folder, made) = adopted();
    interrupt(&made);
    assert!(is_refused(&made), "it may be any office");
    assert!(!adopt::create(&made).unwrap());
    open(&made).unwrap();
    interrupt(&made);
    unpack(&Desk::with(&["ann"]), &made.path);
    assert!(!adopt::create(&made).unwrap());
    assert!(is_refused(&made));
}
