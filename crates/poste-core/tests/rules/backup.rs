//! Snapshots and restores: complete or not at all, and nothing in a snapshot is trusted.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use poste_core::backup::{Manifest, Restored, restore, take};
use poste_core::limits::CONTENT_INLINE_BYTES_MAX;
use poste_core::log::{Artifact, ArtifactState, Body, Content, Intent, Send};
use poste_core::office::{Place, Rules};
use poste_core::store::table_digest::digest;
use poste_core::store::{Folder, WriteLock};
use poste_core::{Digest, Error, MessageNo, views};
use rusqlite::Connection;

use crate::common::*;

/// An office with everything that a snapshot has to contain.
fn furnished() -> Desk {
    let mut desk = Desk::with(&["ann", "bob"]);
    let content = Content { body: Body(vec![b'x'; CONTENT_INLINE_BYTES_MAX + 1]), ..Content::default() };
    accepted(desk.say("ann", Intent::Send(letter("bob", "message")), Some(content)));
    let plan = desk.office.store().blobs().unwrap().put(b"plan").unwrap();
    let artifact = Artifact {
        path: "plan.md".to_owned(),
        worktree: None,
        state: ArtifactState::Attached,
        size: Some(plan.size),
        digest: Some(plan.digest),
    };
    accepted(desk.ask("ann", Intent::Send(Send { artifacts: vec![artifact], ..letter("bob", "message") })));
    desk.send_and_ack("ann", "bob", text("over"));
    desk.archive("ann");
    // An archive that no record names: its writer died, or its record is still to come.
    fs::write(desk.archive_path("2027-01-15-999.jsonl"), "{}\n").unwrap();
    desk
}

fn beside(desk: &Desk, name: &str) -> PathBuf {
    desk.config().with_file_name(name)
}

fn snapshot(desk: &Desk) -> Result<(PathBuf, Manifest), Error> {
    let into = beside(desk, "copy");
    take(&desk.office, &into, &mut |_| {}).map(|manifest| (into, manifest))
}

fn place_at(desk: &Desk, path: PathBuf) -> Place {
    Place { path, ..desk.place.clone() }
}

fn restore_at(desk: &Desk, from: &Path, to: &Path, replace: bool) -> Result<Restored, Error> {
    restore(from, &place_at(desk, to.to_owned()), replace, &mut |_| {}, &mut |_| Ok(()))
}

/// Everything below a folder, by name and content.
fn contents(folder: &Path) -> Vec<(PathBuf, Option<Digest>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(contents(&entry.path())),
            false => found.push((entry.path(), fs::read(entry.path()).ok().map(|bytes| Digest::of(&bytes)))),
        }
    }
    found.sort();
    found
}

/// No temporary files are left.
fn assert_no_leftovers(desk: &Desk) {
    let names: Vec<String> = fs::read_dir(beside(desk, "."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("unfinished") || name.contains("restoring"))
        .collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_restored_office_is_the_one_that_was_copied_on_a_machine_of_its_own() {
    let mut desk = furnished();
    let (copy, manifest) = snapshot(&desk).unwrap();
    let at_snapshot = desk.tables();
    assert_eq!((manifest.position, manifest.tables), (at_snapshot.head, at_snapshot.digest));
    let paths: Vec<&str> = manifest.files.iter().map(|file| file.path.split('/').next().unwrap()).collect();
    assert_eq!(paths, ["office.db", "blobs", "blobs", "archive"]);
    desk.send("ann", "bob", "message");

    let path = beside(&desk, "elsewhere");
    let restored = restore_at(&desk, &copy, &path, false).unwrap();
    assert_eq!((restored.kept, restored.kept_position), (None, None));
    let mut office = place_at(&desk, path.clone()).open().unwrap();
    assert_eq!(digest(office.store().conn()).unwrap(), manifest.tables);
    let report = views::verify(office.store(), |_| {}).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
    assert_eq!((report.position, report.chain), (manifest.position, manifest.chain));
    assert_eq!(fs::read_dir(path.join("archive")).unwrap().count(), 1);
    let view = views::message(office.store(), MessageNo(1)).unwrap().unwrap();
    assert_eq!(view.body.len(), CONTENT_INLINE_BYTES_MAX + 1);
    assert_ne!(office.store().machine().unwrap(), desk.office.store().machine().unwrap());
    let mode: String = office.store().conn().pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");

    // The next record follows the snapshot's last one.
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    assert_eq!(office.propose(&proposal, &Rules::none()).unwrap().position, Some(manifest.position.next()));
    let findings =
        poste_core::doctor::examine(&place_at(&desk, path), Default::default(), &mut |_| {}).unwrap().findings;
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn snapshots_and_offices_made_from_them_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    let path = beside(&desk, "elsewhere");
    restore_at(&desk, &copy, &path, false).unwrap();
    for folder in [copy, path] {
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        for (file, _) in contents(&folder).iter().filter(|(file, _)| !file.ends_with(".gitignore")) {
            assert_eq!(fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
        }
    }
}

#[test]
fn a_snapshot_goes_where_nothing_is_and_never_into_its_own_office() {
    let desk = furnished();
    let try_at = |into: &Path| take(&desk.office, into, &mut |_| {});
    fs::create_dir(beside(&desk, "taken")).unwrap();
    assert!(matches!(try_at(&beside(&desk, "taken")), Err(Error::Occupied(_))));
    assert!(matches!(try_at(&desk.place.path.join("copy")), Err(Error::Snapshot { .. })));
    assert!(matches!(try_at(&desk.place.path.join("blobs/copy")), Err(Error::Snapshot { .. })));
    std::os::unix::fs::symlink(desk.place.path.join("blobs"), beside(&desk, "link")).unwrap();
    assert!(matches!(try_at(&beside(&desk, "link/copy")), Err(Error::Snapshot { .. })));
    assert!(matches!(try_at(&beside(&desk, "missing/copy")), Err(Error::Snapshot { .. })));
    assert!(matches!(try_at(Path::new("/")), Err(Error::Snapshot { .. })));
    assert_no_leftovers(&desk);
}

#[test]
fn no_snapshot_is_made_of_a_damaged_office() {
    let mut desk = furnished();
    desk.leave_unverified();
    let blob = fs::read_dir(desk.place.path.join("blobs")).unwrap().next().unwrap().unwrap().path();
    let whole = fs::read(&blob).unwrap();
    fs::write(&blob, "tampered").unwrap();
    assert!(matches!(snapshot(&desk), Err(Error::Damaged(_))));
    fs::remove_file(&blob).unwrap();
    assert!(matches!(snapshot(&desk), Err(Error::Damaged(_))));
    fs::write(&blob, whole).unwrap();
    Connection::open(desk.place.path.join("office.db"))
        .unwrap()
        .execute_batch("UPDATE agents SET registered_at = 1 WHERE name = 'bob'")
        .unwrap();
    let error = snapshot(&desk).unwrap_err();
    assert!(error.to_string().contains("table agents"), "{error}");
    assert!(!beside(&desk, "copy").exists());
    assert_no_leftovers(&desk);
}

#[test]
fn a_damaged_snapshot_is_refused_and_nothing_changes() {
    let desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    let before = desk.tables();
    let refused = |what: &str| {
        let error = restore_at(&desk, &copy, &desk.place.path, true).expect_err(what);
        assert!(matches!(error, Error::Snapshot { .. }), "{what}: {error}");
        assert_no_leftovers(&desk);
        let here = fs::read_dir(beside(&desk, ".")).unwrap().count();
        assert_eq!(here, 2, "{what}: the office and the copy");
    };
    for (file, _) in contents(&copy) {
        let whole = fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        let middle = flipped.len() / 2;
        flipped[middle] ^= 1;
        fs::write(&file, flipped).unwrap();
        // The manifest's time is informational, so a changed digit in it is harmless.
        if !file.ends_with("snapshot.json") {
            refused(&format!("a flipped bit in {}", file.display()));
        }
        fs::write(&file, &whole[..whole.len() - 1]).unwrap();
        if !file.ends_with("snapshot.json") {
            refused(&format!("{} cut off", file.display()));
        }
        fs::remove_file(&file).unwrap();
        refused(&format!("{} missing", file.display()));
        fs::write(&file, whole).unwrap();
    }
    assert_eq!(desk.tables(), before);
    restore_at(&desk, &copy, &beside(&desk, "whole"), false).unwrap();
}

/// Changes the manifest of a snapshot.
fn edit(copy: &Path, change: impl FnOnce(&mut serde_json::Value)) {
    let path = copy.join("snapshot.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(&path, manifest.to_string()).unwrap();
}

#[test]
fn a_manifest_is_not_believed() {
    let desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    let manifest = fs::read(copy.join("snapshot.json")).unwrap();
    let other = "00000000-0000-4000-8000-000000000000";
    let tries: [(&str, serde_json::Value); 6] = [
        ("/position", 2.into()),
        ("/chain", Digest::of(b"x").to_string().into()),
        ("/tables", Digest::of(b"x").to_string().into()),
        ("/office", other.into()),
        ("/format", "tar".into()),
        ("/files/1/path", "../escaped".into()),
    ];
    for (what, value) in tries {
        edit(&copy, |manifest| *manifest.pointer_mut(what).unwrap() = value);
        let error = restore_at(&desk, &copy, &beside(&desk, "new"), false).expect_err(what);
        assert!(matches!(error, Error::Snapshot { .. }), "{what}: {error}");
        fs::write(copy.join("snapshot.json"), &manifest).unwrap();
    }
    edit(&copy, |manifest| manifest["version"] = 2.into());
    assert!(matches!(
        restore_at(&desk, &copy, &beside(&desk, "new"), false),
        Err(Error::NeedsUpgrade { what: "restore", .. })
    ));
    assert!(!beside(&desk, "new").exists() && !beside(&desk, "escaped").exists());
}

#[test]
fn tables_that_were_changed_together_with_their_digest_are_refused() {
    let desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    let database = copy.join("office.db");
    Connection::open(&database).unwrap().execute_batch("UPDATE agents SET kind = 1 WHERE name = 'bob'").unwrap();
    let bytes = fs::read(&database).unwrap();
    edit(&copy, |manifest| {
        manifest["files"][0]["digest"] = Digest::of(&bytes).to_string().into();
        manifest["files"][0]["bytes"] = bytes.len().into();
    });
    let error = restore_at(&desk, &copy, &beside(&desk, "new"), false).unwrap_err();
    assert!(error.to_string().contains("table agents"), "{error}");
}

#[test]
fn a_snapshot_that_brings_a_trigger_is_refused() {
    let desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    let database = copy.join("office.db");
    let trigger = "CREATE TRIGGER quiet AFTER INSERT ON messages BEGIN DELETE FROM deliveries; END";
    Connection::open(&database).unwrap().execute_batch(trigger).unwrap();
    let bytes = fs::read(&database).unwrap();
    edit(&copy, |manifest| {
        manifest["files"][0]["digest"] = Digest::of(&bytes).to_string().into();
        manifest["files"][0]["bytes"] = bytes.len().into();
    });
    let path = beside(&desk, "elsewhere");
    let error = restore_at(&desk, &copy, &path, false).unwrap_err().to_string();
    assert!(error.contains("the trigger \"quiet\" is not part of an office"), "{error}");
    assert!(!path.exists());
    assert_no_leftovers(&desk);
}

#[test]
fn an_office_that_is_there_stays_or_is_kept_whole() {
    let mut desk = furnished();
    let (copy, manifest) = snapshot(&desk).unwrap();
    let number = desk.send("ann", "bob", "directive");
    assert!(matches!(restore_at(&desk, &copy, &desk.place.path, false), Err(Error::Occupied(_))));
    let before = desk.tables();

    desk.leave_unverified();
    let restored = restore_at(&desk, &copy, &desk.place.path, true).unwrap();
    let kept = restored.kept.unwrap();
    assert_eq!(kept, beside(&desk, ".poste.before-restore-20270115T080000Z"));
    assert_eq!(restored.kept_position, Some(before.head));
    // A process that had the office open notices before its next write, and writes into neither office.
    let proposal = desk.proposal("ann", Intent::Send(letter("bob", "message")), None);
    assert!(matches!(desk.office.propose(&proposal, &Rules::none()), Err(Error::Replaced(_))));
    assert_eq!(desk.place.open().unwrap().store().tables().unwrap().cursor.head.position, manifest.position);
    let old = place_at(&desk, kept).open().unwrap();
    assert_eq!(digest(old.store().conn()).unwrap(), before.digest);
    assert!(views::message(old.store(), number).unwrap().is_some());
    drop(old);

    // A second restore within the same second gets another name.
    let again = restore_at(&desk, &copy, &desk.place.path, true).unwrap();
    assert_eq!(again.kept, Some(beside(&desk, ".poste.before-restore-20270115T080000Z-2")));
}

#[test]
fn an_office_somebody_writes_to_is_not_replaced() {
    let mut desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    desk.place.options.lock_timeout = Duration::from_millis(50);
    let held = WriteLock::new(&Folder::open(&desk.place.path).unwrap(), "a writer").acquire(Duration::ZERO).unwrap();
    let files = contents(&desk.place.path);
    let error = restore_at(&desk, &copy, &desk.place.path, true).unwrap_err();
    assert!(matches!(&error, Error::Busy { holder, .. } if holder.contains("a writer")), "{error}");
    assert_eq!(contents(&desk.place.path), files);
    assert_no_leftovers(&desk);
    drop(held);
}

#[test]
fn what_is_no_office_is_kept_as_well() {
    let mut desk = furnished();
    let (copy, _) = snapshot(&desk).unwrap();
    desk.leave_unverified();
    fs::remove_dir_all(&desk.place.path).unwrap();
    for what in ["a file", "an empty folder", "a damaged office", "a dangling link"] {
        match what {
            "a file" => fs::write(&desk.place.path, what).unwrap(),
            "a dangling link" => std::os::unix::fs::symlink("nowhere", &desk.place.path).unwrap(),
            _ => fs::create_dir(&desk.place.path).unwrap(),
        }
        if what == "a damaged office" {
            fs::write(desk.place.path.join("office.db"), what).unwrap();
        }
        let restored = restore_at(&desk, &copy, &desk.place.path, true).expect(what);
        assert!(restored.kept.unwrap().symlink_metadata().is_ok(), "{what}");
        desk.place.open().expect(what);
        fs::remove_dir_all(&desk.place.path).unwrap();
    }
}
