//! A signal that ends this process ends the command first.

// The test kit depends on this crate.
#[path = "../../poste-testkit/src/signals.rs"]
mod signals;

use std::fs;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

const RUN_ONE: &str = env!("CARGO_BIN_EXE_poste_run_one");

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn start(folder: &Path, through: Option<&str>) -> (Child, Pid) {
    signals::ignored_by_nobody_started();
    let line = "echo $$ > pid; exec sleep 60";
    let mut command = match through {
        None => Command::new(RUN_ONE),
        Some(prefix) => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", &format!("{prefix}; exec \"$@\""), "sh"]).arg(RUN_ONE);
            command
        }
    };
    command.arg(line).current_dir(folder).process_group(0);
    let child = command.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
    let file = folder.join("pid");
    until("the command", || fs::read_to_string(&file).is_ok_and(|text| text.ends_with('\n')));
    let pid = fs::read_to_string(file).expect("there").trim().parse().expect("a number");
    (child, Pid::from_raw(pid).expect("positive"))
}

#[test]
fn an_interrupted_run_ends_its_command_and_then_itself() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let folder = tempfile::tempdir().expect("a folder");
        let (mut child, command) = start(folder.path(), None);
        kill_process(Pid::from_child(&child), signal).expect("ours");
        let status = child.wait().expect("ends");
        assert_eq!(status.signal(), Some(signal.as_raw()), "it ended with the signal itself");
        until("the end of the command", || test_kill_process(command).is_err());
    }
}

#[test]
fn what_was_ignored_stays_ignored() {
    let folder = tempfile::tempdir().expect("a folder");
    let (mut child, command) = start(folder.path(), Some("trap '' HUP"));
    kill_process(Pid::from_child(&child), Signal::HUP).expect("ours");
    std::thread::sleep(Duration::from_millis(300));
    assert!(test_kill_process(command).is_ok(), "an ignored hang-up changes nothing");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("ours");
    child.wait().expect("ends");
    until("the end of the command", || test_kill_process(command).is_err());
}
