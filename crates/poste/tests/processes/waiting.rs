use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;

use crate::common::{Desk, finish, until, until_all_wait};

#[test]
fn three_hundred_waiters_are_all_woken() {
    let desk = Desk::new(&["lead", "coder"]);
    // Each of them records that it was shown the message, one after the other.
    let patience = ["--lock-timeout", "2m", "--timeout", "2m"];
    let children: Vec<Child> = (0..300)
        .map(|n| desk.spawn(&[&["wait", "--session", &format!("s{n}"), "--as", "coder"], &patience[..]].concat()))
        .collect();
    until_all_wait(&desk, &children);
    desk.run(&["send", "coder", "wake up", "--as", "lead"]);
    for output in finish(children) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(String::from_utf8_lossy(&output.stdout).contains("wake up"));
    }
    desk.verify();
}

#[test]
fn a_waiter_hears_of_mail_whose_sender_died_before_ringing_the_bell() {
    let desk = Desk::new(&["lead", "coder"]);
    let waiter = desk.spawn(&["wait", "--timeout", "30s", "--as", "coder"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    // The writer finds no waiter to ring, as if it was killed between commit and ring.
    let fifo = until_it_listens(&desk);
    std::fs::rename(&fifo, fifo.with_file_name("elsewhere")).unwrap();
    desk.run(&["send", "coder", "silent", "--as", "lead"]);
    let output = finish(vec![waiter]).pop().unwrap();
    assert!(output.status.success());
}

#[test]
fn a_waiter_wakes_when_something_falls_due_though_no_bell_rings() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["send", "coder", "in a moment", "--not-before", "700ms", "--as", "lead"]);
    let output = desk.command(&["wait", "--timeout", "30s", "--as", "coder"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let track = desk.json(&["track", "1"]);
    let history = track["deliveries"][0]["history"].as_array().unwrap();
    assert_eq!(history[0]["event"], "ready", "a tick made it available: {history:?}");
}

#[test]
fn a_waiter_hears_of_a_missing_response_the_moment_it_is_overdue_though_no_daemon_runs() {
    let desk = Desk::new(&["lead", "coder", "boss"]);
    desk.run(&["register", "coder", "--lead", "boss", "--update"]);
    desk.run(&["send", "coder", "agreed?", "--type", "question", "--respond-by", "1500ms", "--as", "lead"]);
    let waiters: Vec<Child> = ["lead", "boss"]
        .into_iter()
        .map(|name| desk.spawn(&["--json", "wait", "--timeout", "30s", "--as", name]))
        .collect();
    for output in finish(waiters) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let news: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(news["messages"][0]["notice"], "overdue");
        assert_eq!(news["messages"][0]["subject"], "#1 to coder was not answered in time");
    }
    let track = desk.json(&["track", "1"]);
    // Timestamps sort as text in the order of time.
    let (due, told) = (track["respond_by"].as_str(), track["deliveries"][0]["reminded_at"].as_str());
    assert!(told.is_some() && told >= due, "reminded {told:?}, due {due:?}");
    desk.verify();
}

#[test]
fn a_claim_waits_for_work_and_one_of_many_gets_it() {
    let desk = Desk::new(&["lead", "a", "b"]);
    let claimers: Vec<Child> =
        ["a", "b"].into_iter().map(|name| desk.spawn(&["claim", "--wait", "--timeout", "30s", "--as", name])).collect();
    until_all_wait(&desk, &claimers);
    desk.run(&["send", "role:worker", "first", "--type", "directive", "--as", "lead"]);
    desk.run(&["send", "role:worker", "second", "--type", "directive", "--as", "lead"]);
    for output in finish(claimers) {
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    desk.verify();
}

#[test]
fn replies_are_waited_for_until_all_have_answered() {
    let desk = Desk::new(&["lead", "a", "b"]);
    desk.run(&["send", "a,b", "agreed?", "--type", "question", "--as", "lead"]);
    let waiter = desk.spawn(&["--json", "wait", "--replies", "1", "--timeout", "30s"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    desk.run(&["reply", "1", "yes", "--done", "--as", "a"]);
    desk.run(&["reply", "1", "no", "--as", "b"]);
    let output = finish(vec![waiter]).pop().unwrap();
    assert!(output.status.success());
    let replies: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(replies["answered"], 2);
    assert_eq!(replies["missing"], 0);
}

#[test]
fn whoever_ends_a_question_without_a_word_is_waited_for_no_longer_and_named() {
    let desk = Desk::new(&["lead", "a", "b"]);
    desk.run(&["send", "a,b", "agreed?", "--type", "question", "--as", "lead"]);
    let waiter = desk.spawn(&["wait", "--replies", "1", "--timeout", "30s"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    desk.run(&["reply", "1", "yes", "--done", "--as", "a"]);
    desk.run(&["done", "1", "--as", "b"]);
    let output = finish(vec![waiter]).pop().unwrap();
    let talk = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{talk}");
    assert!(talk.contains("no answer will come from b"), "{talk}");
}

#[test]
fn an_agent_that_is_retired_while_it_waits_is_told() {
    let desk = Desk::new(&["lead", "coder"]);
    let waiter = desk.spawn(&["wait", "--timeout", "60s", "--as", "coder"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    desk.run(&["retire", "coder", "--as", "lead"]);
    let output = finish(vec![waiter]).pop().unwrap();
    assert_eq!(output.status.code(), Some(4), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The FIFO of the only waiter, once it has its final name.
fn until_it_listens(desk: &Desk) -> PathBuf {
    let named = || {
        let entries = std::fs::read_dir(desk.office().join("waiters")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|word| word != "new"))
    };
    until("a waiter", || named().is_some());
    named().unwrap()
}

#[test]
fn a_waiter_that_was_killed_leaves_nothing_that_stays() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut killed = desk.spawn(&["wait", "--timeout", "60s", "--as", "coder"]);
    let fifo = until_it_listens(&desk);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(fifo.exists());
    assert_eq!(desk.json(&["doctor"])["findings"], serde_json::json!([]));
    desk.run(&["send", "coder", "to nobody there", "--as", "lead"]);
    assert!(!fifo.exists());
    let output = desk.command(&["wait", "--timeout", "60s", "--as", "coder"]).output().unwrap();
    assert!(output.status.success());
    assert_eq!(std::fs::read_dir(desk.office().join("waiters")).unwrap().count(), 0);
    desk.verify();
}

#[test]
fn an_agent_that_gets_a_role_while_it_waits_hears_of_that_role_s_mail() {
    let desk = Desk::new(&["lead", "coder"]);
    let waiter = desk.spawn(&["wait", "--timeout", "60s", "--as", "coder"]);
    let fifo = until_it_listens(&desk);
    desk.run(&["register", "coder", "--role", "mason", "--update"]);
    // The waiter listens for the new role once its FIFO has another name.
    until("another name of the FIFO", || !fifo.exists());
    desk.run(&["send", "role:mason", "a wall", "--as", "lead"]);
    let output = finish(vec![waiter]).pop().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("a wall"));
}

#[test]
fn tail_follows_the_log_as_it_grows() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut tail = desk.spawn(&["tail", "--log", "--after", "3", "--for", "60s"]);
    let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
    for number in 1..=3 {
        desk.run(&["send", "coder", &format!("subject {number}"), "--as", "lead"]);
        let line = lines.next().unwrap().unwrap();
        assert!(line.ends_with(&format!("lead → coder  #{number} message: subject {number}")), "{line}");
    }
    tail.kill().unwrap();
    tail.wait().unwrap();
}

#[test]
fn a_tail_whose_reader_has_gone_ends_by_itself() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut tail =
        desk.command(&["tail", "--log", "--after", "0"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
    drop(tail.stdout.take());
    let started = std::time::Instant::now();
    while tail.try_wait().unwrap().is_none() {
        if started.elapsed() > crate::common::SOON {
            tail.kill().unwrap();
            panic!("tail still waits for the next event");
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
