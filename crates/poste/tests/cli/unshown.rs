//! Answers that cannot be printed: stderr names what was stored, and the exit code says so.

use std::fs::OpenOptions;
use std::process::{Output, Stdio};

use crate::common::Desk;

fn full(desk: &mut Desk, arguments: &[&str]) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is there");
    desk.command(arguments).stdin(Stdio::null()).stdout(full).output().expect("the program runs")
}

/// Runs a command whose stdout is a closed pipe.
fn closed(desk: &mut Desk, arguments: &[&str]) -> Output {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    desk.command(arguments).stdin(Stdio::null()).stdout(writer).output().expect("the program runs")
}

#[track_caller]
fn is_stored(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(8), "{text}");
    for word in ["stored, but the answer could not be shown"].iter().chain(words) {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
}

#[test]
fn what_is_stored_and_cannot_be_shown_is_named_on_stderr() {
    let mut desk = Desk::staffed();
    is_stored(
        &full(&mut desk, &["send", "coder", "Fix it", "--type", "directive", "--as", "lead", "--id", "s1"]),
        &["message #1, id s1", "poste log why --id s1"],
    );
    is_stored(&full(&mut desk, &["claim", "1", "--as", "coder"]), &["the claim of #1 with token"]);
    is_stored(&full(&mut desk, &["done", "1", "--summary", "It is fixed", "--as", "coder"]), &["delivery.done"]);
    is_stored(&full(&mut desk, &["register", "tester"]), &["agent.register"]);
    is_stored(&full(&mut desk, &["config", "set", "delivery.lease", "20m"]), &["delivery.lease in "]);
    is_stored(&closed(&mut desk, &["send", "coder", "Again", "--as", "lead"]), &["message #2"]);
    is_stored(&closed(&mut desk, &["claim", "2", "--as", "coder", "--json"]), &["unknown_outcome", "token"]);
    desk.quietly("poste send coder More --as lead");
    is_stored(&closed(&mut desk, &["claim", "--wait", "--max", "3", "--id", "w1", "--as", "coder"]), &["id w1"]);
}

#[test]
fn a_look_that_cannot_be_shown_stored_nothing() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    assert_eq!(full(&mut desk, &["inbox", "--as", "coder"]).status.code(), Some(1));
    assert_eq!(closed(&mut desk, &["inbox", "--as", "coder"]).status.code(), Some(0));
}

#[test]
fn what_was_shown_and_could_not_be_marked_is_an_answer_with_a_warning() {
    let mut desk = Desk::staffed();
    desk.quietly("poste send coder 'Fix it' --as lead");
    desk.quietly("poste context create plan Plan --as lead");
    // While the lock is held, reads succeed and writes do not.
    let lock = OpenOptions::new().write(true).open(desk.path(".poste/write.lock")).unwrap();
    lock.lock().unwrap();
    for arguments in [["read", "1", "--json"], ["context", "show", "plan"]] {
        let mut command = desk.command(&arguments);
        let output = command.args(["--as", "coder", "--lock-timeout", "50ms"]).output().unwrap();
        let warning = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{warning}");
        assert!(!output.stdout.is_empty() && warning.contains("not marked as shown: "), "{warning}");
    }
    lock.unlock().unwrap();
    let marked = desk.command(&["read", "1", "--as", "coder"]).output().unwrap();
    assert!(marked.stderr.is_empty(), "{}", String::from_utf8_lossy(&marked.stderr));
}
