//! Processes that stop or die at the worst moment.

use std::io::Read;
use std::time::Duration;

use poste_core::store::{Folder, WriteLock};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{Desk, finish, until, until_all_wait};

#[test]
fn whoever_holds_the_lock_too_long_is_named_and_the_rest_recover() {
    let desk = Desk::new(&["lead", "coder"]);
    let lock = WriteLock::new(&Folder::open(&desk.office()).unwrap(), "a stuck program");
    let held = lock.acquire(Duration::from_secs(5)).unwrap();
    let args = ["send", "coder", "hello", "--lock-timeout", "200ms", "--as", "lead"];
    let refused = desk.command(&args).output().unwrap();
    let talk = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(6), "{talk}");
    assert!(talk.contains(&format!("pid {} (a stuck program)", std::process::id())), "{talk}");
    // Readers do not wait for the lock.
    desk.run(&["inbox", "--as", "coder"]);
    drop(held);
    desk.run(&args);
    desk.verify();
}

#[test]
fn a_batch_killed_at_any_moment_leaves_whole_chunks_and_can_be_sent_again() {
    let desk = Desk::new(&["lead", "coder"]);
    let lines: String =
        (0..1_500).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"line {n}\",\"id\":\"line-{n}\"}}\n")).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    let args = ["send", "--batch", "batch.jsonl", "--as", "lead"];
    for attempt in 0..5 {
        let mut batch = desk.spawn(&args);
        std::thread::sleep(Duration::from_millis(15 + 10 * attempt));
        let _ = batch.kill();
        batch.wait().unwrap();
        let records = desk.json(&["log", "verify"])["records"].as_u64().unwrap();
        assert_eq!((records - 3) % 100, 0, "a chunk is stored whole or not at all");
    }
    desk.run(&args);
    let report = desk.json(&["log", "verify"]);
    assert_eq!(report["records"], 3 + 1_500, "every line has had one effect");
    assert_eq!(report["problems"], serde_json::Value::Array(Vec::new()));
}

#[test]
fn a_stopped_writer_holds_nobody_up_for_ever_and_goes_on_when_it_is_woken() {
    let desk = Desk::new(&["lead", "coder"]);
    let lines: String = (0..5_000).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"{n}\"}}\n")).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    let mut batch = desk.spawn(&["send", "--batch", "batch.jsonl", "--as", "lead"]);
    let pid = Pid::from_child(&batch);
    let named = format!("pid {} ", batch.id());
    let holds = || std::fs::read_to_string(desk.office().join("write.lock")).is_ok_and(|text| text.starts_with(&named));
    while !holds() {
        std::thread::yield_now();
    }
    kill_process(pid, Signal::STOP).unwrap();
    // It is stopped between two chunks or inside one, so this send either succeeds or names the holder.
    let args = ["send", "coder", "beside", "--lock-timeout", "300ms", "--as", "lead"];
    let beside = desk.command(&args).output().unwrap();
    let talk = String::from_utf8_lossy(&beside.stderr).into_owned();
    match beside.status.code() {
        Some(0) => {}
        Some(6) => assert!(talk.contains(&format!("pid {}", batch.id())), "{talk}"),
        other => panic!("{other:?}: {talk}"),
    }
    kill_process(pid, Signal::CONT).unwrap();
    let mut rest = String::new();
    batch.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(finish(vec![batch])[0].status.success());
    desk.run(&["send", "coder", "after", "--as", "lead"]);
    desk.verify();
}

#[test]
fn an_office_deleted_under_a_waiter_is_noticed_and_never_made_anew() {
    let desk = Desk::new(&["lead", "coder"]);
    let waiter = desk.spawn(&["wait", "--as", "coder"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    std::fs::remove_file(desk.office().join("office.db")).unwrap();
    let told = finish(vec![waiter]).pop().unwrap();
    assert_eq!(told.status.code(), Some(5), "{}", String::from_utf8_lossy(&told.stderr));
    let refused = desk.command(&["send", "coder", "hello", "--as", "lead"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(3));
    assert!(!desk.office().join("office.db").exists());
}

#[test]
fn a_stderr_that_takes_nothing_changes_neither_what_is_done_nor_how_it_ends() {
    let desk = Desk::new(&["lead", "coder"]);
    let ends = |args: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        desk.command(args).stderr(full).output().unwrap().status.code()
    };
    assert_eq!(ends(&["send", "coder", "hello", "--as", "lead"]), Some(0));
    assert_eq!(ends(&["send", "nobody", "hello", "--as", "lead"]), Some(3));
    assert_eq!(ends(&["send", "--bad"]), Some(2));
    assert_eq!(desk.pending("coder"), 1);
}

#[test]
fn what_is_printed_into_a_full_disk_does_not_count_as_shown() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "hello", "--as", "lead"]);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let read = desk.command(&["read", "1", "--as", "coder"]).stdout(full).output().unwrap();
    assert_eq!(read.status.code(), Some(1));
    assert_eq!(desk.json(&["track", "1"])["deliveries"][0]["shown_at"], serde_json::Value::Null);
}

#[test]
fn the_nearest_office_decides_also_when_it_is_damaged() {
    let desk = Desk::new(&["lead", "coder"]);
    for damage in ["a file", "a dangling link", "an empty folder"] {
        let inner = tempfile::tempdir_in(desk.folder.path()).unwrap();
        let office = inner.path().join(".poste");
        match damage {
            "a file" => std::fs::write(&office, "").unwrap(),
            "a dangling link" => std::os::unix::fs::symlink("nowhere", &office).unwrap(),
            _ => std::fs::create_dir(&office).unwrap(),
        }
        let send = ["send", "coder", "to the wrong office", "--as", "lead"];
        let refused = desk.command(&send).current_dir(inner.path()).output().unwrap();
        assert!(matches!(refused.status.code(), Some(3 | 4)), "{damage}: {refused:?}");
    }
    assert_eq!(desk.pending("coder"), 0, "nothing was sent to the office further up");
}

#[test]
fn a_poste_toml_that_is_no_ordinary_file_is_refused_and_not_waited_for() {
    let desk = Desk::new(&["lead", "coder"]);
    let path = desk.folder.path().join("poste.toml");
    let send = ["send", "coder", "hello", "--as", "lead"];
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    assert_eq!(desk.command(&send).output().unwrap().status.code(), Some(2), "a pipe");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
    assert_eq!(desk.command(&send).output().unwrap().status.code(), Some(2), "a device");
    std::fs::remove_file(&path).unwrap();
    std::fs::File::create(&path).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(desk.command(&send).output().unwrap().status.code(), Some(2), "a gigabyte");
}

#[test]
fn a_reader_does_not_wait_for_the_lock_though_something_is_due_and_says_what_is_unconfirmed() {
    const PATIENCE: &str = "60s";
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    desk.run(&["claim", "1", "--lease", "1s", "--as", "coder"]);
    let held = WriteLock::new(&Folder::open(&desk.office()).unwrap(), "a stuck program")
        .acquire(Duration::from_secs(5))
        .unwrap();
    let started = std::time::Instant::now();
    let inbox = || desk.json(&["inbox", "--lock-timeout", PATIENCE, "--as", "coder"]);
    while inbox()["messages"][0]["unconfirmed"] != true {
        assert!(started.elapsed() < Duration::from_secs(50), "the expired lease was never noticed");
    }
    // A waiter does not wait for the lock either, whether or not the tick can be appended.
    let wait = ["wait", "--timeout", "0s", "--after", "0", "--lock-timeout", PATIENCE, "--as", "coder"];
    assert_eq!(desk.command(&wait).output().unwrap().status.code(), Some(7), "it is still claimed, unconfirmed");
    // Less than the lock timeout of a single one of these commands.
    assert!(started.elapsed() < Duration::from_secs(50), "{:?}", started.elapsed());
    drop(held);
    // A process that rings waiters may hold the lock just now.
    until("the message to be confirmed", || inbox()["messages"][0]["unconfirmed"] == false);
    desk.verify();
}
