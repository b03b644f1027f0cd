//! Snapshots and restores while others write, and killed at any moment.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::common::{Desk, expect_success, finish, until_all_wait};

/// An office with enough mail and blobs that a copy can be killed midway.
fn furnished() -> Desk {
    let desk = Desk::new(&["lead", "coder"]);
    let lines: String = (0..3_000).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"line {n}\"}}\n")).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "batch.jsonl", "--as", "lead"]);
    for number in 0..20 {
        let name = format!("file-{number}");
        std::fs::write(desk.folder.path().join(&name), vec![number; 100_000]).unwrap();
        desk.run(&["send", "coder", "with a file", "--attach", &name, "--as", "lead"]);
    }
    desk
}

/// The entries next to the office whose names start with this prefix.
fn beside(desk: &Desk, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(desk.folder.path()).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(prefix)).collect()
}

fn verified(desk: &Desk, office: &Path) -> serde_json::Value {
    let report = desk.json(&["--office", office.to_str().unwrap(), "log", "verify"]);
    assert_eq!(report["problems"], serde_json::json!([]), "{}", office.display());
    report
}

#[test]
fn a_snapshot_beside_four_senders_has_everything_that_was_answered_before_it_began() {
    let desk = Desk::new(&["lead", "coder"]);
    let stop = AtomicBool::new(false);
    for round in 0..3 {
        stop.store(false, Ordering::SeqCst);
        let name = format!("copy-{round}");
        let answered = std::sync::Mutex::new(BTreeSet::new());
        let before = std::thread::scope(|scope| {
            for sender in 0..4 {
                let (desk, stop, answered) = (&desk, &stop, &answered);
                scope.spawn(move || {
                    for number in 0.. {
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                        let subject = format!("{round}-{sender}-{number}");
                        let sent = desk.json(&["send", "coder", &subject, "--as", "lead"]);
                        answered.lock().unwrap().insert(sent["number"].as_u64().unwrap());
                    }
                });
            }
            // Nothing here may panic before `stop` is set, or the senders never end.
            let begun = std::time::Instant::now();
            while answered.lock().unwrap().len() < 40 && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
            let before = answered.lock().unwrap().clone();
            let copied = desk.command(&["snapshot", &name]).output();
            stop.store(true, Ordering::SeqCst);
            expect_success(&["snapshot"], &copied.expect("the program runs"));
            before
        });
        assert!(answered.lock().unwrap().len() > before.len(), "no message was sent during the snapshot");
        let place = desk.folder.path().join(format!("restored-{round}"));
        std::fs::create_dir(&place).unwrap();
        let restored = desk.json(&["restore", &name, "--in", place.to_str().unwrap()]);
        let office = place.join(".poste");
        let report = verified(&desk, &office);
        assert_eq!(report["tables"], restored["tables"], "the restored office matches its manifest");
        let there = desk.json(&["--office", office.to_str().unwrap(), "inbox", "--limit", "1000", "--as", "coder"]);
        let there: BTreeSet<u64> =
            there["messages"].as_array().unwrap().iter().map(|line| line["number"].as_u64().unwrap()).collect();
        assert!(there.is_superset(&before), "missing: {:?}", before.difference(&there).collect::<Vec<_>>());
    }
    desk.verify();
}

#[test]
fn a_snapshot_killed_at_any_moment_is_absent_or_whole() {
    let desk = furnished();
    let report = verified(&desk, &desk.office());
    let (mut whole, mut absent) = (0, 0);
    for attempt in 0..40 {
        let mut child = desk.spawn(&["snapshot", "copy"]);
        std::thread::sleep(Duration::from_millis(attempt * 8));
        let _ = child.kill();
        child.wait().unwrap();
        if !desk.folder.path().join("copy").exists() {
            absent += 1;
            continue;
        }
        whole += 1;
        let place = tempfile::tempdir_in(desk.folder.path()).unwrap();
        desk.run(&["restore", "copy", "--in", place.path().to_str().unwrap()]);
        assert_eq!(verified(&desk, &place.path().join(".poste"))["tables"], report["tables"]);
        std::fs::remove_dir_all(desk.folder.path().join("copy")).unwrap();
    }
    assert!(absent > 2, "it was never killed midway: {whole} whole, {absent} absent");
    assert_eq!(verified(&desk, &desk.office()), report, "the office itself is unchanged");
    desk.run(&["snapshot", "copy"]);
    assert!(beside(&desk, ".copy.unfinished-").is_empty(), "the next snapshot removes leftovers");
}

#[test]
fn a_restore_killed_at_any_moment_leaves_a_whole_office_and_loses_none() {
    let desk = furnished();
    desk.run(&["snapshot", "copy"]);
    desk.run(&["send", "coder", "after the snapshot", "--as", "lead"]);
    let old = verified(&desk, &desk.office());
    let mut new = old.clone();
    let (mut replaced, mut stayed) = (0, 0);
    for attempt in 0..40 {
        let mut child = desk.spawn(&["restore", "copy", "--replace"]);
        std::thread::sleep(Duration::from_millis(attempt * 8));
        let _ = child.kill();
        child.wait().unwrap();
        // In every case there is an office, either the old one or the restored one.
        let here = verified(&desk, &desk.office());
        if here == old {
            stayed += 1;
            continue;
        }
        replaced += 1;
        new = here;
        let kept: Vec<_> = beside(&desk, ".poste.before-restore-");
        let kept = kept.iter().find(|path| verified(&desk, path) == old).expect("the old office is kept whole");
        std::fs::rename(desk.office(), desk.folder.path().join(format!("restored-{attempt}"))).unwrap();
        std::fs::rename(kept, desk.office()).unwrap();
    }
    assert!(stayed > 2, "it was never killed midway: {replaced} replaced, {stayed} stayed");
    desk.run(&["restore", "copy", "--replace"]);
    let restored = verified(&desk, &desk.office());
    assert_ne!(restored, old);
    assert!(new == old || new == restored, "every restore has the same result");
    assert!(beside(&desk, ".poste.restoring-").is_empty(), "the next restore removes leftovers");
}

#[test]
fn whoever_waits_in_an_office_that_is_replaced_is_told() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["snapshot", "copy"]);
    let waiter = desk.spawn(&["wait", "--as", "coder", "--timeout", "60s"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    desk.run(&["restore", "copy", "--replace"]);
    let told = finish(vec![waiter]).pop().unwrap();
    assert_eq!(told.status.code(), Some(5), "{}", String::from_utf8_lossy(&told.stderr));
    desk.run(&["send", "coder", "hello", "--as", "lead"]);
    assert_eq!(desk.pending("coder"), 1);
}

#[test]
fn senders_beside_a_restore_are_stored_in_one_of_the_two_offices_or_told() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["snapshot", "copy"]);
    let senders: Vec<_> = (0..40)
        .map(|number| {
            if number == 10 {
                desk.run(&["restore", "copy", "--replace"]);
            }
            let id = format!("id-{number}");
            (id.clone(), desk.spawn(&["send", "coder", "hello", "--id", &id, "--as", "lead"]))
        })
        .collect();
    let kept = beside(&desk, ".poste.before-restore-").pop().expect("the old office is kept");
    for (id, sender) in senders {
        let output = sender.wait_with_output().unwrap();
        let stored = |office: &Path| {
            let answer = desk.json(&["--office", office.to_str().unwrap(), "log", "why", "--id", &id]);
            answer["state"] == "committed"
        };
        let stored = [desk.office(), kept.clone()].iter().filter(|office| stored(office)).count();
        match output.status.code() {
            Some(0) => assert_eq!(stored, 1, "{id} was answered as stored"),
            Some(3 | 5) => assert_eq!(stored, 0, "{id} failed because the office was replaced"),
            other => panic!("{id}: {other:?}: {}", String::from_utf8_lossy(&output.stderr)),
        }
    }
}
