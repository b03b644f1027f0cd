//! Decisions and sessions across processes: waiters are woken, a killed waiter can resume, and one of many wins.

use std::process::Child;

use crate::common::{Desk, expect_success, finish, until_all_wait};

#[test]
fn whoever_waits_for_a_decision_is_woken_by_it() {
    let desk = Desk::new(&["lead", "coder"]);
    let waiters: Vec<Child> = ["a", "b"]
        .into_iter()
        .map(|id| desk.spawn(&["ask", "lead", "Deploy?", "--id", id, "--wait", "--timeout", "60s", "--as", "coder"]))
        .collect();
    until_all_wait(&desk, &waiters);
    let open = || desk.json(&["approvals", "--mine", "--as", "lead"])["approvals"].as_array().unwrap().len();
    while open() < 2 {
        std::thread::yield_now();
    }
    let of = |id: &str| desk.json(&["log", "why", "--id", id])["number"].to_string();
    desk.run(&["approve", &of("a"), "--as", "lead"]);
    desk.run(&["deny", &of("b"), "--as", "lead"]);
    let outputs = finish(waiters);
    assert_eq!((outputs[0].status.code(), outputs[0].stdout.as_slice()), (Some(0), b"approve\n".as_slice()));
    assert_eq!((outputs[1].status.code(), outputs[1].stdout.as_slice()), (Some(12), b"deny\n".as_slice()));
    desk.verify();
}

#[test]
fn a_waiter_that_was_killed_waits_on_under_the_same_id_and_the_default_comes_without_a_daemon() {
    let desk = Desk::new(&["lead", "coder"]);
    let ask = |timeout: &str| {
        let question = ["ask", "lead", "Deploy?", "--by", "3s", "--default", "deny", "--id", "q-1", "--wait"];
        desk.command(&[&question[..], &["--timeout", timeout, "--as", "coder"]].concat())
    };
    let mut killed = ask("60s").spawn().unwrap();
    until_all_wait(&desk, std::slice::from_ref(&killed));
    while desk.json(&["approvals", "--asked", "--as", "coder"])["approvals"].as_array().unwrap().is_empty() {
        std::thread::yield_now();
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let output = ask("60s").output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(13), b"deny\n".as_slice()));
    assert_eq!(desk.json(&["approvals", "1"])["state"], "defaulted");
    let asked = desk.json(&["approvals", "--all"]);
    assert_eq!(asked["approvals"].as_array().unwrap().len(), 1, "it was asked once");
    desk.verify();
}

#[test]
fn of_many_that_start_a_session_of_one_name_one_wins_and_the_others_get_names_of_their_own() {
    let desk = Desk::new(&["coder"]);
    let racers: Vec<Child> = (0..12)
        .map(|_| desk.spawn(&["--json", "session", "start", "--pid", "0", "--own-name", "--as", "coder"]))
        .collect();
    let mut agents = std::collections::BTreeSet::new();
    for output in finish(racers) {
        expect_success(&["session", "start"], &output);
        let session: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(agents.insert(session["agent"].as_str().unwrap().to_owned()), "{agents:?} and {session}");
    }
    assert_eq!(agents.len(), 12, "{agents:?}");
    assert!(agents.contains("coder"), "{agents:?}");
    let live = desk.json(&["session", "list"]);
    assert_eq!(live["sessions"].as_array().unwrap().len(), agents.len());
    desk.verify();
}
