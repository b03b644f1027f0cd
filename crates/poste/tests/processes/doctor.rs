//! The doctor with real processes: lock holders and long readers.

use poste_core::store::{Folder, WriteLock};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{Desk, Reaped, until};

/// The doctor's report, with or without findings.
fn examined(desk: &Desk) -> Value {
    let output = desk.command(&["--json", "doctor", "--quick"]).output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 11)), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_locked(desk: &Desk) -> bool {
    let file = std::fs::File::open(desk.office().join("write.lock")).unwrap();
    flock(&file, FlockOperation::NonBlockingLockShared).is_err()
}

/// The last holder of the lock. The process that rings the recipients of the batch takes the lock, too.
fn holder(desk: &Desk) -> String {
    std::fs::read_to_string(desk.office().join("write.lock")).unwrap()
}

/// On a busy machine a signal takes time to reach every thread.
fn is_stopped(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    threads.flatten().all(|thread| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('T'))
    })
}

#[test]
fn a_stopped_process_that_holds_the_lock_is_named_with_the_command_that_wakes_it() {
    let desk = Desk::new(&["lead", "coder"]);
    let lines: String = (0..20_000).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"{n}\"}}\n")).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    let mut batch = desk.command(&["send", "--batch", "batch.jsonl", "--as", "lead"]);
    let mut batch = Reaped(batch.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let (pid, id) = (Pid::from_child(&batch.0), batch.0.id());
    // Stop it again and again until it holds the lock when it is stopped.
    loop {
        std::thread::sleep(Duration::from_millis(3));
        kill_process(pid, Signal::STOP).expect("the batch is still running");
        until("the process to stop", || is_stopped(id));
        if is_locked(&desk) && holder(&desk).starts_with(&format!("pid {id} ")) {
            break;
        }
        kill_process(pid, Signal::CONT).unwrap();
    }
    let report = examined(&desk);
    let finding = &report["findings"][0];
    assert_eq!((&finding["severity"], &finding["check"]), (&"problem".into(), &"lock".into()), "{report:#}");
    let what = finding["what"].as_str().unwrap();
    assert!(what.contains(&format!("pid {id} (poste send)")) && what.contains("is stopped"), "{what}");
    // The command it names works.
    let command = finding["command"].as_str().unwrap();
    assert_eq!(command, format!("kill -CONT {id}"));
    assert!(std::process::Command::new("sh").args(["-c", command]).status().unwrap().success());
    assert!(batch.finish().0.success());
    assert_eq!(examined(&desk)["findings"], Value::Array(Vec::new()));
    desk.verify();
}

#[test]
fn fixing_beside_a_held_lock_tells_who_holds_it_and_mends_the_rest() {
    let desk = Desk::new(&["lead"]);
    let held =
        WriteLock::new(&Folder::open(&desk.office()).unwrap(), "a stuck program").acquire(Duration::ZERO).unwrap();
    let leftover = desk.office().join("before-schema-2.tmp");
    std::fs::write(&leftover, "half").unwrap();
    // Readable by others, whatever the umask.
    std::fs::set_permissions(&leftover, std::fs::Permissions::from_mode(0o644)).unwrap();
    let args = ["--json", "--lock-timeout", "100ms", "doctor", "--fix", "--quick"];
    let output = desk.command(&args).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let mended = report["mended"].as_array().unwrap();
    let failed: Vec<&str> = mended.iter().filter_map(|mended| mended["failed"].as_str()).collect();
    assert_eq!((mended.len(), failed.len()), (2, 1), "{report:#}");
    assert!(failed[0].contains("a stuck program"), "{failed:?}");
    drop(held);
    desk.run(&["doctor", "--fix"]);
    assert!(!leftover.exists());
}

#[test]
fn a_reader_that_does_not_end_is_named_with_its_age() {
    let desk = Desk::new(&["lead", "coder"]);
    // A real reader in another process: it opens the office and then does nothing while the log grows.
    let tail = desk.spawn(&["tail", "--log", "--for", "60s"]);
    crate::common::until_all_wait(&desk, std::slice::from_ref(&tail));
    let reader = rusqlite_reader(&desk);
    let body = "x".repeat(48 * 1024);
    let lines: String =
        (0..150).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"{n}\",\"body\":\"{body}\"}}\n")).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "batch.jsonl", "--as", "lead"]);
    let report = examined(&desk);
    let finding = report["findings"].as_array().unwrap().iter().find(|finding| finding["check"] == "wal");
    let finding = finding.unwrap_or_else(|| panic!("{report:#}"));
    let meaning = finding["meaning"].as_str().unwrap();
    for pid in [tail.id(), std::process::id()] {
        assert!(meaning.contains(&format!("pid {pid} (")), "{meaning}");
    }
    drop(reader);
    desk.run(&["doctor", "--fix"]);
    assert_eq!(examined(&desk)["findings"], Value::Array(Vec::new()));
    let mut tail = tail;
    tail.kill().unwrap();
    tail.wait().unwrap();
}

/// A read transaction of this process, held open.
fn rusqlite_reader(desk: &Desk) -> impl Drop {
    let store = poste_core::store::Store::open(&desk.office(), poste_testkit::state::options()).unwrap();
    store.conn().execute_batch("BEGIN; SELECT count(*) FROM log").unwrap();
    Held(Some(store))
}

struct Held(Option<poste_core::store::Store>);

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}
