//! Gates with real commands: the lease is kept while they run, and no process outlives them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::common::{Desk, until};

/// Less than the timeout of the gate itself.
const SOON: Duration = Duration::from_secs(45);

/// A writer, an editor, and a gate in this machine's own file.
fn newsroom(gate: &str) -> Desk {
    let desk = Desk::new(&["writer", "editor"]);
    let gate = format!("[[gate]]\nname = \"it\"\ntype = \"draft_ready\"\n{gate}\n");
    fs::write(desk.office().join("local.toml"), gate).expect("written");
    desk.trust();
    desk
}

fn send(desk: &Desk, name: &str, text: &str) {
    fs::write(desk.folder.path().join(name), text).expect("written");
    desk.run(&["send", "editor", name, "--type", "draft_ready", "--artifact", name, "--as", "writer"]);
}

fn events(desk: &Desk, number: &str) -> Vec<String> {
    let track = desk.json(&["track", number]);
    let history = track["deliveries"][0]["history"].as_array().expect("a history").clone();
    history.iter().map(|step| step["event"].as_str().expect("a word").to_owned()).collect()
}

/// The process whose pid is in this file.
fn noted(path: &Path) -> Pid {
    until("the gate to start", || fs::read_to_string(path).is_ok_and(|text| text.ends_with('\n')));
    let text = fs::read_to_string(path).expect("there");
    Pid::from_raw(text.trim().parse().expect("a number")).expect("positive")
}

#[test]
fn the_lease_is_extended_while_its_gate_runs() {
    let desk = newsroom("shell = \"sleep 9\"");
    send(&desk, "a.md", "a");
    desk.run(&["claim", "1", "--lease", "4s", "--as", "editor"]);
    let events = events(&desk, "1");
    assert_eq!(events.first().map(String::as_str), Some("claimed"));
    assert!(events.iter().filter(|event| *event == "extended").count() >= 2, "{events:?}");
    assert!(events.contains(&"gate_passed".to_owned()) && !events.contains(&"lease_expired".to_owned()), "{events:?}");
    desk.verify();
}

#[test]
fn the_office_is_free_while_a_gate_runs() {
    let desk = newsroom("shell = \"echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done\"");
    send(&desk, "a.md", "a");
    let claim = desk.spawn(&["claim", "1", "--as", "editor"]);
    noted(&desk.folder.path().join("pid"));
    desk.run(&["send", "writer", "Meanwhile", "--as", "editor", "--lock-timeout", "1s"]);
    let second = desk.command(&["claim", "1", "--as", "editor"]).output().expect("runs");
    assert_eq!(second.status.code(), Some(5), "it is claimed already");
    let early = desk.command(&["done", "1", "--as", "editor"]).output().expect("runs");
    assert_eq!(early.status.code(), Some(4), "its gates have not finished");
    fs::write(desk.folder.path().join("go"), "").expect("written");
    assert!(claim.wait_with_output().expect("ends").status.success());
    desk.run(&["done", "1", "--as", "editor"]);
    desk.verify();
}

#[test]
fn whoever_waits_for_work_goes_on_waiting_when_a_gate_fails() {
    let desk = newsroom("shell = 'grep -q good \"$POSTE_ARTIFACT\"'");
    let waiter = desk.spawn(&["claim", "--wait", "--timeout", "30s", "--json", "--as", "editor"]);
    send(&desk, "bad.md", "bad");
    until("the bad draft to be returned", || desk.json(&["track", "1"])["deliveries"][0]["state"] == "returned");
    send(&desk, "fine.md", "good");
    let output = waiter.wait_with_output().expect("ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(answer["claims"][0]["message"]["subject"], "fine.md");
    assert_eq!(answer["returned"][0]["number"], 1);
    let patient = desk.command(&["claim", "--wait", "--timeout", "300ms", "--as", "editor"]).output().expect("runs");
    assert_eq!(patient.status.code(), Some(7));
}

#[test]
fn a_lost_lease_ends_the_gate_and_its_result_does_not_count() {
    let desk = newsroom("shell = \"echo $$ > pid; exec sleep 60\"\ntimeout = \"50s\"");
    send(&desk, "a.md", "a");
    let began = Instant::now();
    let claim = desk.spawn(&["claim", "1", "--lease", "2s", "--as", "editor"]);
    let gate = noted(&desk.folder.path().join("pid"));
    desk.run(&["retire", "editor", "--as", "writer"]);
    let output = claim.wait_with_output().expect("ends");
    assert!(matches!(output.status.code(), Some(4 | 5)), "{output:?}");
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    until("the gate to end", || test_kill_process(gate).is_err());
    assert!(!events(&desk, "1").iter().any(|event| event.starts_with("gate_")), "{:?}", events(&desk, "1"));
    desk.verify();
}

#[test]
fn an_interrupted_claim_leaves_no_gate_running_and_nothing_claimed_for_ever() {
    let desk = newsroom("shell = \"echo $$ > pid; exec sleep 60\"");
    send(&desk, "a.md", "a");
    for signal in [Signal::INT, Signal::TERM] {
        let _ = fs::remove_file(desk.folder.path().join("pid"));
        let mut claim = desk.spawn(&["claim", "1", "--lease", "1m", "--as", "editor"]);
        let gate = noted(&desk.folder.path().join("pid"));
        kill_process(Pid::from_child(&claim), signal).expect("ours");
        assert!(!claim.wait().expect("ends").success());
        until("the gate to end", || test_kill_process(gate).is_err());
        // Work whose gate never passed cannot be finished.
        let done = desk.command(&["done", "1", "--as", "editor"]).output().expect("runs");
        assert_eq!(done.status.code(), Some(4), "{done:?}");
        let token = desk.json(&["track", "1"])["deliveries"][0]["token"].to_string();
        desk.run(&["release", "1", "--token", &token, "--as", "editor"]);
    }
    desk.verify();
}

/// The checks that a recipient of a file makes by hand, each as a gate: the file exists, is not empty, and passes a
/// script.
#[test]
fn an_empty_draft_is_returned_and_the_writer_is_told() {
    let desk = Desk::new(&["blog-writer", "main"]);
    let at = |name: &str| desk.folder.path().join(name);
    desk.run(&["register", "anna", "--kind", "human"]);
    let gates = "[[gate]]\nname = \"draft\"\ntype = \"draft_ready\"\nexists = true\nnot_empty = true\n\n\
                 [[gate]]\nname = \"quality\"\ntype = \"draft_ready\"\nname_matches = \"*.md\"\n\
                 command = [\"./quality-gate.sh\", \"{artifact}\"]\ntimeout = \"10s\"\n";
    fs::write(at("poste.toml"), gates).expect("written");
    fs::write(
        at("quality-gate.sh"),
        "#!/bin/sh\nhead -n 1 \"$1\" | grep -q '^# ' || { echo 'no headline'; exit 1; }\n",
    )
    .expect("written");
    fs::set_permissions(at("quality-gate.sh"), fs::Permissions::from_mode(0o755)).expect("executable");
    desk.trust();

    // The message is sent before the file is complete.
    let announce =
        ["send", "main", "Draft", "--type", "draft_ready", "--artifact-later", "post.md", "--as", "blog-writer"];
    desk.run(&announce);
    fs::write(at("post.md"), "").expect("written");
    let claim = |number: &str| {
        desk.command(&["claim", number, "--as", "main"]).env("PATH", "/usr/bin:/bin").output().expect("runs")
    };
    assert_eq!(claim("1").status.code(), Some(4));
    let delivery = desk.json(&["track", "1"])["deliveries"][0].clone();
    assert_eq!((&delivery["state"], &delivery["reason"]), (&"returned".into(), &"gate_failed".into()));
    let told = desk.json(&["inbox", "--as", "blog-writer"]);
    let notice = told["messages"][0]["number"].as_u64().expect("a notice").to_string();
    let body = desk.json(&["read", &notice, "--as", "blog-writer"])["body"].as_str().expect("a text").to_owned();
    assert!(body.contains("not_empty of post.md: it is empty (0 bytes)"), "{body}");

    // First a text that the script rejects, then one that passes.
    fs::write(at("post.md"), "words\n").expect("written");
    desk.run(&["retry", "1", "--as", "blog-writer"]);
    assert_eq!(claim("1").status.code(), Some(4));
    let result = desk.json(&["track", "1"])["deliveries"][0]["result"].clone();
    assert!(result["text"].as_str().expect("a text").contains("| no headline"), "{result}");
    fs::write(at("post.md"), "# A headline\n").expect("written");
    desk.run(&["retry", "1", "--as", "blog-writer"]);
    let passed = claim("1");
    assert!(passed.status.success(), "{}", String::from_utf8_lossy(&passed.stderr));
    let token = desk.json(&["track", "1"])["deliveries"][0]["token"].to_string();
    desk.run(&["done", "1", "--token", &token, "--summary", "Published", "--as", "main"]);
    let expected = ["gate_failed", "returned", "retried"].repeat(2);
    let mut seen = events(&desk, "1");
    seen.retain(|event| event.starts_with("gate_") || event == "returned" || event == "retried");
    assert_eq!(seen, [expected, vec!["gate_passed"]].concat());
    desk.verify();
}
