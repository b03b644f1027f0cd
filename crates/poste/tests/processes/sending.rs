use std::collections::BTreeSet;
use std::io::Write;
use std::process::Stdio;

use serde_json::Value;

use crate::common::{Desk, expect_success, finish};

#[test]
fn a_hundred_processes_send_at_once_and_nothing_is_lost() {
    let desk = Desk::new(&["lead", "coder"]);
    let subjects: Vec<String> = (0..100).map(|number| format!("message {number}")).collect();
    let children =
        subjects.iter().map(|subject| desk.spawn(&["--json", "send", "coder", subject, "--as", "lead"])).collect();
    let mut numbers = BTreeSet::new();
    for output in finish(children) {
        expect_success(&["send"], &output);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        numbers.insert(answer["number"].as_u64().unwrap());
    }
    assert_eq!(numbers, (1..=100).collect(), "each message has its own number, without a gap");
    let inbox = desk.json(&["inbox", "--as", "coder", "--limit", "200"]);
    let stored: BTreeSet<&str> =
        inbox["messages"].as_array().unwrap().iter().map(|line| line["subject"].as_str().unwrap()).collect();
    assert_eq!(stored, subjects.iter().map(String::as_str).collect());
    desk.verify();
}

#[test]
fn one_id_sent_by_fifty_processes_at_once_has_one_effect() {
    let desk = Desk::new(&["lead", "coder"]);
    let args = ["--json", "send", "coder", "only once", "--id", "the-one", "--as", "lead"];
    let outputs = finish((0..50).map(|_| desk.spawn(&args)).collect());
    let mut firsts = 0;
    for output in &outputs {
        expect_success(&args, output);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["number"], 1);
        firsts += u32::from(answer["repeat"] == false);
    }
    assert_eq!(firsts, 1);
    assert_eq!(desk.pending("coder"), 1);
    desk.verify();
}

#[test]
fn batches_and_single_sends_mix() {
    let desk = Desk::new(&["lead", "coder"]);
    let lines: String = (0..250).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"batch {n}\"}}\n")).collect();
    let mut batches: Vec<_> = (0..4)
        .map(|_| {
            let mut command = desk.command(&["send", "--batch", "-", "--as", "lead"]);
            command.stdin(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let singles: Vec<_> = (0..20).map(|_| desk.spawn(&["send", "coder", "single", "--as", "lead"])).collect();
    for batch in &mut batches {
        batch.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    }
    for output in finish(batches).iter().chain(&finish(singles)) {
        expect_success(&["send"], output);
    }
    let report = desk.json(&["log", "verify"]);
    assert_eq!(report["records"], 3 + 4 * 250 + 20);
    assert_eq!(report["problems"], Value::Array(Vec::new()));
}

#[test]
fn processes_that_meet_right_after_poste_toml_changed_do_not_stand_in_each_others_way() {
    let desk = Desk::new(&["lead", "coder"]);
    for attempts in 2..=5 {
        let policy = format!("[delivery]\nmax_attempts = {attempts}\n");
        std::fs::write(desk.folder.path().join("poste.toml"), policy).unwrap();
        let senders = (0..20).map(|_| desk.spawn(&["send", "coder", "hello", "--as", "lead"])).collect();
        for output in finish(senders) {
            expect_success(&["send"], &output);
        }
    }
    assert_eq!(desk.pending("coder"), 80);
    desk.verify();
}
