//! After a redaction no file of the office folder contains the erased text.

use std::path::Path;

use crate::common::{Desk, expect_success, finish, until_all_wait};

const SECRET: &str = "hunter2-is-the-password";

/// Every file below a folder that contains the text.
fn files_with(folder: &Path, words: &str, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files_with(&path, words, found);
        // A waiter's FIFO stores nothing, and reading it would block until the next ring.
        } else if path.is_file() && contains(&std::fs::read(&path).unwrap(), words.as_bytes()) {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
}

fn contains(bytes: &[u8], words: &[u8]) -> bool {
    bytes.windows(words.len()).any(|window| window == words)
}

fn found(desk: &Desk) -> Vec<String> {
    let mut found = Vec::new();
    files_with(&desk.office(), SECRET, &mut found);
    found
}

/// An office with other mail, so that database pages are shared, split and freed.
fn busy_desk() -> Desk {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["register", "anna", "--kind", "human"]);
    let lines: String = (0..200).map(|n| format!("{{\"to\":\"coder\",\"subject\":\"line {n}\"}}\n")).collect();
    std::fs::write(desk.folder.path().join("batch.jsonl"), lines).unwrap();
    desk.run(&["send", "--batch", "batch.jsonl", "--as", "lead"]);
    desk
}

/// A message whose body is too large for a row.
fn send_large(desk: &Desk, subject: &str) {
    let body = format!("{SECRET} ").repeat(10_000);
    assert!(body.len() > 64 * 1024);
    let path = desk.folder.path().join("body.md");
    std::fs::write(&path, &body).unwrap();
    let send = ["send", "coder", subject, "-", "--conversation", "c", "--as", "lead"];
    let output = desk.command(&send).stdin(std::fs::File::open(path).unwrap()).output().unwrap();
    expect_success(&send, &output);
}

fn redact(desk: &Desk, number: &str) {
    assert_ne!(found(desk), Vec::<String>::new(), "the text is found before the redaction");
    desk.run(&["redact", number, "--results", "--reason", "a password", "--as", "anna"]);
    assert_eq!(found(desk), Vec::<String>::new());
    desk.verify();
}

#[test]
fn a_live_message_with_its_results_is_erased() {
    let desk = busy_desk();
    let payload = format!("{{\"key\":\"{SECRET}\"}}");
    let send = ["send", "coder", SECRET, SECRET, "--payload", &payload, "--context", SECRET, "--expect", SECRET];
    desk.run(&[&send[..], &["--ref", SECRET, "--type", "directive", "--as", "lead"]].concat());
    let meta = format!("key={SECRET}");
    desk.run(&["send", "coder", "meta", "--meta", &meta, "--type", "directive", "--as", "lead"]);
    desk.run(&["claim", "201", "--as", "coder"]);
    desk.run(&["ack", "201", "--note", SECRET, "--as", "coder"]);
    desk.run(&["done", "201", "--summary", SECRET, "--result", SECRET, "--recommend", SECRET, "--as", "coder"]);
    desk.run(&["redact", "202", "--reason", "a password", "--as", "lead"]);
    redact(&desk, "201");
}

#[test]
fn a_failure_and_its_notice_are_erased() {
    let desk = busy_desk();
    desk.run(&["send", "coder", "work", "--type", "directive", "--as", "lead"]);
    desk.run(&["fail", "201", "--reason", SECRET, "--as", "coder"]);
    // The notice quotes the reason and stores no copy of it.
    assert!(desk.run(&["read", "202", "--as", "lead"]).contains(SECRET));
    redact(&desk, "201");
    assert!(!desk.run(&["read", "202", "--as", "lead"]).contains(SECRET));
}

#[test]
fn a_large_body_is_erased_with_its_blob() {
    let desk = busy_desk();
    send_large(&desk, "large");
    redact(&desk, "201");
    assert_eq!(std::fs::read_dir(desk.office().join("blobs")).unwrap().count(), 0);
}

#[test]
fn an_attachment_is_erased_with_its_message_unless_another_has_it_too() {
    let desk = busy_desk();
    std::fs::write(desk.folder.path().join("keys.txt"), SECRET).unwrap();
    let attach = ["send", "coder", "the keys", "--attach", "keys.txt", "--as", "lead"];
    desk.run(&attach);
    desk.run(&attach);
    let first = desk.json(&["redact", "201", "--reason", "a password", "--as", "lead"]);
    assert_eq!(first["kept_blobs"].as_array().unwrap().len(), 1, "the other message still has it");
    desk.verify();
    redact(&desk, "202");
}

#[test]
fn an_archived_message_is_erased_with_all_that_was_said_of_it() {
    let desk = busy_desk();
    send_large(&desk, SECRET);
    desk.run(&["send", "coder", SECRET, SECRET, "--conversation", "c", "--type", "directive", "--as", "lead"]);
    desk.run(&["done", "201", "--as", "coder"]);
    desk.run(&["done", "202", "--summary", SECRET, "--as", "coder"]);
    std::thread::sleep(std::time::Duration::from_millis(5));
    let archived = desk.json(&["archive", "--older", "0s", "--as", "lead"]);
    assert_eq!(archived["messages"], 2);
    let files = found(&desk);
    assert!(
        files.iter().any(|file| file.ends_with(".jsonl")),
        "there is no archive file among those with the text: {files:?}"
    );
    desk.run(&["redact", "202", "--results", "--reason", "a password", "--as", "anna"]);
    assert!(!desk.run(&["read", "202"]).contains(SECRET));
    assert!(desk.run(&["read", "201"]).contains(SECRET));
    redact(&desk, "201");
}

/// Redaction waits for a process that reads old pages, then erases them.
#[test]
fn a_waiter_does_not_keep_the_words_alive() {
    let desk = busy_desk();
    let waiter = desk.spawn(&["wait", "--timeout", "60s", "--as", "lead"]);
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    desk.run(&["send", "coder", SECRET, "--as", "lead"]);
    redact(&desk, "201");
    desk.run(&["send", "lead", "go on", "--as", "coder"]);
    let waited = finish(vec![waiter]).remove(0);
    assert!(waited.status.success(), "{}", String::from_utf8_lossy(&waited.stderr));
}
