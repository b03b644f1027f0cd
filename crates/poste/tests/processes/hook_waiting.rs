//! The background waiter of an idle session: it wakes the session for new mail, once per burst, and for nothing else.

use std::fs::File;
use std::process::{Child, Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use poste_verbs::live;
use poste_verbs::wake::Place;
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use crate::common::{Desk, finish, until_all_wait};
use crate::hooking::{Session, desk};

const WAKES: i32 = 2;
/// How long a waiter waits for more mail before it wakes the session.
const BURST_PAUSE: Duration = Duration::from_millis(400);

/// An idle session and its waiter.
fn idle<'d>(desk: &'d Desk) -> (Session<'d>, Child) {
    let session = Session::new(desk, "run-1", "claude-code");
    session.hook("session-start");
    let waiter = session.start("wait", &json!({}));
    until_all_wait(desk, std::slice::from_ref(&waiter));
    (session, waiter)
}

fn send(desk: &Desk, subject: &str) {
    desk.run(&["send", "coder", subject, "--type", "question", "--as", "lead"]);
}

/// The output of the waiter if it ends within this time.
fn ends_within(mut waiter: Child, time: Duration) -> Result<Output, Child> {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if waiter.try_wait().unwrap().is_some() {
            return Ok(finish(vec![waiter]).remove(0));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Err(waiter)
}

/// The output of a waiter that is rung. Otherwise it would look only after twenty seconds.
fn end_of(waiter: Child) -> Output {
    ends_within(waiter, Duration::from_secs(15)).expect("it ends")
}

/// While this lock is held, the waiter does not wake its session, since it records what it announces first.
fn hold(desk: &Desk) -> File {
    let path = live::path(&desk.office(), &"run-1".parse().unwrap()).with_extension("lock");
    let lock = File::open(path).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    lock
}

fn stop(mut waiter: Child) {
    waiter.kill().unwrap();
    waiter.wait().unwrap();
}

#[test]
fn new_mail_wakes_an_idle_session() {
    let desk = desk();
    let (session, waiter) = idle(&desk);
    let began = Instant::now();
    send(&desk, "Which port?");
    let woken = end_of(waiter);
    assert!(began.elapsed() >= BURST_PAUSE, "the waiter waits for more mail");
    assert_eq!(woken.status.code(), Some(WAKES));
    assert!(woken.stdout.is_empty());
    let text = String::from_utf8(woken.stderr).unwrap();
    assert!(text.contains("1 new message") && text.contains("#1 question from lead: \"Which port?\""), "{text}");
    // The session was notified, so the next waiter waits for other mail.
    let waiter = ends_within(session.start("wait", &json!({})), Duration::from_secs(2)).expect_err("it keeps waiting");
    stop(waiter);
    assert_eq!(session.hook("tool"), None, "no hook repeats it");
}

#[test]
fn a_burst_wakes_once() {
    let desk = desk();
    let (session, waiter) = idle(&desk);
    let held = hold(&desk);
    let senders: Vec<Child> = (1..=20)
        .map(|nth| desk.spawn(&["send", "coder", &format!("Number {nth}"), "--type", "directive", "--as", "lead"]))
        .collect();
    finish(senders);
    drop(held);
    let woken = end_of(waiter);
    assert_eq!(woken.status.code(), Some(WAKES));
    let text = String::from_utf8(woken.stderr).unwrap();
    assert!(text.contains("20 new messages"), "{text}");
    assert!(text.len() / 3 < 400, "few tokens: {}", text.len());
    let waiter = ends_within(session.start("wait", &json!({})), Duration::from_secs(2)).expect_err("no second wake");
    stop(waiter);
}

#[test]
fn nobody_is_woken_for_what_was_read_or_does_not_press() {
    let desk = desk();
    desk.run(&["send", "coder", "Before the session", "--type", "directive", "--as", "lead"]);
    let (_, waiter) = idle(&desk);
    let waiter = ends_within(waiter, Duration::from_secs(1)).expect_err("it was told at the start");
    desk.run(&["send", "coder", "How far", "--type", "progress_update", "--as", "lead"]);
    let waiter = ends_within(waiter, Duration::from_secs(1)).expect_err("that is for the next session");
    // Read between the bell and the wake.
    let held = hold(&desk);
    send(&desk, "Which port?");
    desk.run(&["read", "3", "--as", "coder", "--session", "run-1"]);
    drop(held);
    let waiter = ends_within(waiter, Duration::from_secs(2)).expect_err("it is already read");
    let held = hold(&desk);
    send(&desk, "And which host?");
    desk.run(&["done", "4", "--summary", "localhost", "--as", "coder", "--session", "run-1"]);
    drop(held);
    let waiter = ends_within(waiter, Duration::from_secs(2)).expect_err("it is already handled");
    stop(waiter);
}

#[test]
fn a_session_has_one_waiter_and_that_is_the_newest() {
    let desk = desk();
    let (session, mut waiter) = idle(&desk);
    for _ in 0..3 {
        let newer = session.start("wait", &json!({}));
        let before = end_of(waiter);
        assert_eq!((before.status.code(), before.stderr.len()), (Some(0), 0));
        waiter = newer;
    }
    send(&desk, "Which port?");
    let woken = end_of(waiter);
    assert_eq!(woken.status.code(), Some(WAKES));
    // The lock belongs to a process, so it ends with the process.
    let next = ends_within(session.start("wait", &json!({})), Duration::from_secs(1)).expect_err("it is free again");
    stop(next);
}

#[test]
fn a_waiter_goes_on_in_an_office_that_was_restored() {
    let desk = desk();
    let (session, waiter) = idle(&desk);
    let snapshot = desk.folder.path().join("snapshot").display().to_string();
    desk.run(&["snapshot", &snapshot]);
    desk.run(&["restore", &snapshot, "--replace"]);
    let waiter = ends_within(waiter, Duration::from_secs(3)).expect_err("it keeps waiting");
    send(&desk, "Which port?");
    let woken = end_of(waiter);
    assert_eq!(woken.status.code(), Some(WAKES));
    assert!(String::from_utf8_lossy(&woken.stderr).contains("Which port?"));
    assert_eq!(session.hook("tool"), None, "the session is notified once");
}

#[test]
fn whoever_asks_whether_somebody_waits_makes_nobody_deaf() {
    let desk = desk();
    let session = Session::new(&desk, "run-1", "claude-code");
    session.hook("session-start");
    let id = "run-1".parse().unwrap();
    drop(Place::take(&desk.office(), &"coder".parse().unwrap(), &id, None).unwrap());
    let lock = File::open(live::path(&desk.office(), &id).with_extension("waiter")).unwrap();
    flock(&lock, FlockOperation::LockShared).unwrap();
    let waiter = session.start("wait", &json!({}));
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    thread::sleep(Duration::from_millis(300));
    drop(lock);
    let waiter = ends_within(waiter, Duration::from_secs(1)).expect_err("it waits");
    send(&desk, "Which port?");
    let woken = end_of(waiter);
    assert_eq!(woken.status.code(), Some(WAKES));
}

#[test]
fn nobody_waits_where_the_program_waits_for_its_hooks() {
    let desk = desk();
    let session = Session::new(&desk, "run-1", "claude-code");
    session.hook("session-start");
    let mut command = session.command("wait");
    let waiter = command.env("CLAUDE_CODE_SESSION_ATTENDED", "0").stdin(std::process::Stdio::null()).spawn().unwrap();
    let ended = end_of(waiter);
    assert_eq!(ended.status.code(), Some(0));
}

#[test]
fn a_waiter_ends_with_its_session() {
    let desk = desk();
    let (session, waiter) = idle(&desk);
    session.hook("session-end");
    let ended = end_of(waiter);
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0));

    // The session's process was killed.
    let mut program = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = program.id().to_string();
    desk.run(&["session", "start", "--name", "run-9", "--pid", &pid, "--as", "coder"]);
    let waiter = Session::new(&desk, "run-9", "claude-code").start("wait", &json!({}));
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    program.kill().unwrap();
    program.wait().unwrap();
    send(&desk, "Is anybody there?");
    let ended = end_of(waiter);
    assert_eq!((ended.status.code(), ended.stderr.len()), (Some(0), 0));
}

#[test]
fn a_waiter_that_starts_before_its_session_is_bound_waits_for_that() {
    let desk = desk();
    let session = Session::new(&desk, "run-1", "claude-code");
    let waiter = session.start("wait", &json!({}));
    until_all_wait(&desk, std::slice::from_ref(&waiter));
    session.hook("session-start");
    send(&desk, "Which port?");
    let woken = end_of(waiter);
    assert_eq!(woken.status.code(), Some(WAKES));
}
