//! Shared contexts under many processes: no update is lost, and no lock outlives its time.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Desk, expect_success, finish};

#[test]
fn two_hundred_processes_append_to_one_context_and_lose_nothing() {
    const WRITERS: usize = 200;
    let desk = Desk::new(&["lead", "coder", "reviewer"]);
    desk.run(&["context", "create", "plan", "# Plan", "--as", "lead"]);
    desk.run(&["subscribe", "context.plan", "--as", "reviewer"]);
    let sections: Vec<String> = (0..WRITERS).map(|writer| format!("section number {writer} ends here")).collect();
    let writers = sections.iter().enumerate().map(|(writer, section)| {
        let agent = ["lead", "coder"][writer % 2];
        desk.spawn(&["context", "append", "plan", section, "--as", agent, "--lock-timeout", "120s", "--json"])
    });
    let outputs = finish(writers.collect());
    let mut versions = BTreeSet::new();
    for output in &outputs {
        expect_success(&["context", "append"], output);
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        versions.insert(answer["version"].as_u64().unwrap());
    }
    assert_eq!(versions, (2..=WRITERS as u64 + 1).collect::<BTreeSet<u64>>(), "each append has its own version");

    let shown = desk.json(&["context", "show", "plan"]);
    let text = shown["text"].as_str().unwrap();
    for section in &sections {
        assert_eq!(text.matches(section.as_str()).count(), 1, "{section}");
    }
    assert_eq!(shown["version"], WRITERS + 1);
    assert_eq!(desk.pending("reviewer"), WRITERS as u64, "the subscriber got each update once");
    // The mirror equals the newest version, whichever process wrote it last.
    let mirror = std::fs::read_to_string(desk.office().join("contexts/plan.md")).unwrap();
    assert_eq!(mirror, desk.run(&["context", "show", "plan"]));
    let left = std::fs::read_dir(desk.office().join("contexts")).unwrap();
    let left: BTreeSet<String> = left.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(left, [".lock", ".plan.json", "plan.md"].map(str::to_owned).into());
    desk.verify();
}

#[test]
fn of_many_who_replace_one_version_one_wins_and_merging_loses_nothing() {
    const WRITERS: usize = 16;
    let desk = Desk::new(&["lead"]);
    let lines: String = (0..WRITERS * 4).map(|line| format!("line {line}\n")).collect();
    desk.run(&["context", "create", "plan", &lines, "--as", "lead"]);
    let edited = |writer: usize| lines.replace(&format!("line {}\n", writer * 4), &format!("changed by {writer}\n"));
    let replace = |writer: usize, more: &[&str]| {
        let text = edited(writer);
        let args = ["context", "replace", "plan", &text, "--if-version", "1", "--as", "lead", "--lock-timeout", "60s"];
        desk.spawn(&[&args, more].concat())
    };
    let outputs = finish((0..WRITERS).map(|writer| replace(writer, &[])).collect());
    let codes: Vec<Option<i32>> = outputs.iter().map(|output| output.status.code()).collect();
    assert_eq!(codes.iter().filter(|code| **code == Some(0)).count(), 1, "{codes:?}");
    assert_eq!(codes.iter().filter(|code| **code == Some(5)).count(), WRITERS - 1, "{codes:?}");

    for output in &finish((0..WRITERS).map(|writer| replace(writer, &["--merge"])).collect()) {
        expect_success(&["context", "replace", "--merge"], output);
    }
    let text = desk.run(&["context", "show", "plan", "--text"]);
    for writer in 0..WRITERS {
        assert!(text.contains(&format!("changed by {writer}\n")), "{writer} is missing in {text}");
    }
    assert_eq!(text.lines().count(), lines.lines().count());
    desk.verify();
}

#[test]
fn a_lock_holder_that_is_killed_frees_the_context_within_its_lease() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["context", "create", "plan", "# Plan", "--as", "lead"]);
    // The holder takes the lock, keeps running, and is killed before it can release it.
    let program = env!("CARGO_BIN_EXE_poste");
    let since = Instant::now();
    let mut holder = Command::new("/bin/sh")
        .args(["-c", "\"$0\" context lock plan --for 6s --as lead && exec sleep 600", program])
        .current_dir(desk.folder.path())
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", desk.folder.path().join("home"))
        .env("XDG_STATE_HOME", poste_testkit::state::home())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut locked = String::new();
    let mut out = std::io::BufReader::new(holder.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut out, &mut locked).unwrap();
    assert!(locked.contains("plan is locked until"), "{locked}");
    holder.kill().unwrap();
    holder.wait().unwrap();

    let refused = desk.command(&["context", "append", "plan", "now", "--wait", "0", "--as", "coder"]).output().unwrap();
    let talk = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(5), "{talk}");
    assert!(talk.contains("locked by lead until"), "{talk}");
    let late =
        desk.command(&["context", "append", "plan", "now", "--wait", "200ms", "--as", "coder"]).output().unwrap();
    assert_eq!(late.status.code(), Some(7), "{}", String::from_utf8_lossy(&late.stderr));

    let waiters = (0..8).map(|waiter| {
        let section = format!("waited {waiter}");
        desk.spawn(&["context", "append", "plan", &section, "--as", "coder"])
    });
    for output in &finish(waiters.collect()) {
        expect_success(&["context", "append"], output);
    }
    let waited = since.elapsed();
    assert!(waited >= Duration::from_secs(6), "a waiter wrote before the lease ended: {waited:?}");
    assert_eq!(desk.json(&["context", "show", "plan"])["version"], 9);
    desk.verify();
}

#[test]
fn whoever_lets_go_wakes_whoever_waits() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["context", "create", "plan", "# Plan", "--as", "lead"]);
    desk.run(&["context", "lock", "plan", "--for", "10m", "--as", "lead"]);
    let waiter = desk.spawn(&["context", "append", "plan", "waited", "--wait", "60s", "--as", "coder"]);
    crate::common::until_all_wait(&desk, std::slice::from_ref(&waiter));
    std::thread::sleep(Duration::from_millis(100));
    desk.run(&["context", "unlock", "plan", "--as", "lead"]);
    // Otherwise the waiter would have timed out.
    expect_success(&["context", "append"], &finish(vec![waiter])[0]);
    desk.verify();
}

#[test]
fn an_appender_killed_at_any_moment_leaves_a_file_that_heals() {
    let desk = Desk::new(&["lead"]);
    desk.run(&["context", "create", "plan", "# Plan", "--as", "lead"]);
    for attempt in 0..30 {
        let mut writer = desk.spawn(&["context", "append", "plan", &format!("attempt {attempt}"), "--as", "lead"]);
        std::thread::sleep(Duration::from_millis(attempt * 2));
        let _ = writer.kill();
        writer.wait().unwrap();
    }
    let shown = desk.command(&["context", "show", "plan"]).output().unwrap();
    expect_success(&["context", "show"], &shown);
    assert!(shown.stderr.is_empty(), "the mirror was not edited: {}", String::from_utf8_lossy(&shown.stderr));
    let mirror = std::fs::read(desk.office().join("contexts/plan.md")).unwrap();
    assert_eq!(String::from_utf8(mirror), String::from_utf8(shown.stdout));
    desk.verify();
}
