//! Everything a command starts ends with it and with its supervisor, whatever it does to get away.

// The test kit depends on this crate.
#[path = "../../poste-testkit/src/signals.rs"]
mod signals;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use poste_run::{Mark, end_marked, with_mark};
use rustix::process::{Pid, Signal, kill_process};

const RUN_ONE: &str = env!("CARGO_BIN_EXE_poste_run_one");

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_there(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

fn pid_in(file: &Path) -> u32 {
    until("a process that tells its number", || fs::read_to_string(file).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(file).expect("there").trim().parse().expect("a number")
}

fn value_of(folder: &Path) -> String {
    folder.file_name().expect("a name").to_string_lossy().into_owned()
}

fn mark(folder: &Path) -> Mark {
    Mark {
        variables: vec![("RUN_MARK".to_owned(), value_of(folder))],
        another: "RUN_ANOTHER".to_owned(),
        another_by: vec!["sleep".to_owned()],
    }
}

fn supervise(folder: &Path, line: &str, limit: Option<&str>) -> Child {
    signals::ignored_by_nobody_started();
    let mut command = Command::new(RUN_ONE);
    command.args(["all", &value_of(folder), line]).args(limit).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("starts")
}

fn said(child: Child) -> String {
    String::from_utf8(child.wait_with_output().expect("ends").stdout).expect("text").trim().to_owned()
}

/// Starts a process that outlives its parent, in a session of its own and with an empty environment.
const AWAY: &str = "(env -i PATH=\"$PATH\" setsid sh -c 'echo $$ > away; exec sleep 60' >/dev/null 2>&1 &); ";

#[test]
fn what_got_away_ends_with_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("{AWAY} while [ ! -s away ]; do sleep 0.01; done; exit 3");
    let child = supervise(folder.path(), &line, None);
    assert_eq!(said(child), "Exit(3) None []");
    assert!(!is_there(pid_in(&folder.path().join("away"))));
}

#[test]
fn whoever_ignores_the_request_is_ended_after_the_grace() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("{AWAY} trap '' TERM INT HUP; echo $$ > own; while :; do sleep 1; done");
    let child = supervise(folder.path(), &line, Some("3000"));
    assert_eq!(said(child), "Signal(9) Some(TimedOut) []");
    for name in ["own", "away"] {
        assert!(!is_there(pid_in(&folder.path().join(name))), "{name} is still there");
    }
}

#[test]
fn many_that_start_each_other_all_end() {
    let folder = tempfile::tempdir().expect("a folder");
    let line =
        "for i in 1 2 3 4 5 6 7 8; do setsid sh -c 'while :; do setsid sleep 60 & sleep 0.02; done' & done; sleep 0.3";
    let child = supervise(folder.path(), line, None);
    assert_eq!(said(child), "Exit(0) None []");
    assert_eq!(with_mark(&mark(folder.path())), Vec::<u32>::new());
}

#[test]
fn a_killed_supervisor_takes_the_command_with_it_and_the_mark_finds_the_rest() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = "(setsid sh -c 'echo $$ > away; exec sleep 60' >/dev/null 2>&1 &); echo $$ > own; exec sleep 60";
    let mut child = supervise(folder.path(), line, None);
    let (own, away) = (pid_in(&folder.path().join("own")), pid_in(&folder.path().join("away")));
    kill_process(Pid::from_child(&child), Signal::KILL).expect("ours");
    child.wait().expect("ends");
    until("the end of the command", || !is_there(own));
    assert!(is_there(away), "it has no parent that could end it");
    assert_eq!(with_mark(&mark(folder.path())), [away]);
    assert_eq!(end_marked(&mark(folder.path()), Duration::from_secs(10)), Vec::<u32>::new());
    assert!(!is_there(away));
}

#[test]
fn who_watches_over_another_run_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "(RUN_ANOTHER=x setsid {RUN_ONE} sleep >/dev/null 2>&1 & echo $! > other); \
         (RUN_ANOTHER=x setsid {RUN_ONE} linger >/dev/null 2>&1 & echo $! > lingers); \
         (RUN_ANOTHER=x setsid sleep 60 >/dev/null 2>&1 & echo $! > fake); \
         for who in other lingers; do \
           while [ \"$(readlink /proc/$(cat $who)/exe)\" != {RUN_ONE} ]; do sleep 0.01; done; \
         done"
    );
    let child = supervise(folder.path(), &line, None);
    assert_eq!(said(child), "Exit(0) None []");
    let other = pid_in(&folder.path().join("other"));
    assert!(is_there(other), "it has limits of its own");
    assert!(!is_there(pid_in(&folder.path().join("fake"))), "a variable alone does not protect it");
    assert!(!is_there(pid_in(&folder.path().join("lingers"))), "nor does this program, when it supervises nothing");
    let other = Pid::from_raw(i32::try_from(other).expect("a pid")).expect("positive");
    kill_process(other, Signal::KILL).expect("ours");
}

#[test]
fn a_flood_fills_no_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    // One stream: the kernel keeps no order between two, so a line on the other one may arrive early and be left out.
    let child = supervise(folder.path(), "echo first; yes | head -c 20000000; echo last", None);
    assert_eq!(said(child), "Exit(0) None []");
    let text = fs::read_to_string(folder.path().join("transcript")).expect("there");
    assert!(text.len() <= 101_000, "{}", text.len());
    assert!(text.starts_with("first\ny\n") && text.contains("bytes left out") && text.contains("last\n"));
}

#[test]
fn what_is_not_there_is_told_before_anything_starts() {
    let mut task = poste_run::Task::new("no-such-program-of-anybody", Vec::<String>::new());
    task.tied_by(RUN_ONE, &["tied"]);
    let error = task.run().expect_err("there is none").to_string();
    assert_eq!(error, "program not found: no-such-program-of-anybody");
}
