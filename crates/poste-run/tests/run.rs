//! Real and hostile processes.

// The test kit depends on this crate.
#[path = "../../poste-testkit/src/signals.rs"]
mod signals;

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, Instant};

use poste_run::files::create;
use poste_run::{End, Environment, Finished, Keep, Output, StartError, Stopped, Task, Watch, line, words};
use rustix::process::{Pid, test_kill_process};

/// Far longer than anything here should take, also on a busy machine.
const SOON: Duration = Duration::from_secs(25);

fn shell(line: &str) -> Task {
    signals::ignored_by_nobody_started();
    Task::shell(line)
}

fn run(task: &Task) -> Finished {
    task.run().expect("starts")
}

/// Asserts that the process whose pid the command wrote to a file has ended, or ends within a moment.
fn assert_gone(file: &Path) {
    let pid: i32 = fs::read_to_string(file).expect("written").trim().parse().expect("a number");
    let pid = Pid::from_raw(pid).expect("positive");
    let until = Instant::now() + SOON;
    while test_kill_process(pid).is_ok() && !is_zombie(pid) {
        assert!(Instant::now() < until, "process {pid:?} is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Dead, and waiting to be reaped by its new parent.
fn is_zombie(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn output_and_exit_code_come_back() {
    let done = run(&shell("echo out; echo err >&2; exit 3"));
    assert_eq!((done.end, done.stopped), (End::Exit(3), None));
    assert_eq!((done.stdout.text().as_str(), done.stderr.text().as_str()), ("out\n", "err\n"));
    assert!(!done.passed() && !done.left_behind);
    assert!(run(&Task::new("true", [""; 0])).passed());
}

#[test]
fn a_signal_is_told_from_an_exit_code() {
    assert_eq!(run(&shell("kill -9 $$")).end, End::Signal(9));
}

#[test]
fn arguments_are_never_split_or_expanded() {
    let hostile = "a  b'; touch /tmp/poste-owned; $(id) *";
    assert_eq!(run(&Task::new("printf", ["%s|", hostile, "--"])).stdout.text(), format!("{hostile}|--|"));
}

#[test]
fn both_streams_in_one_keep_their_order() {
    let done = run(shell("echo 1; echo 2 >&2; echo 3").output(Output::Together));
    assert_eq!(done.stdout.text(), "1\n2\n3\n");
    assert!(done.stderr.is_empty() && !done.left_behind);
}

#[test]
fn stdin_is_nothing_or_what_is_given() {
    assert_eq!(run(&Task::new("cat", [""; 0])).stdout.total, 0);
    let much = vec![b'x'; 3_000_000];
    assert_eq!(run(Task::new("wc", ["-c"]).stdin(much.clone())).stdout.text().trim(), "3000000");
    // More than a pipe holds, in both directions: neither side waits for the other.
    let back = run(Task::new("cat", [""; 0]).stdin(much));
    assert_eq!(back.stdout.total, 3_000_000);
}

#[test]
fn a_command_that_does_not_read_its_input_is_not_at_fault() {
    assert!(run(Task::new("true", [""; 0]).stdin(vec![0; 1_000_000])).passed());
}

#[test]
fn the_folder_and_the_program_below_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("check.sh");
    fs::write(&script, "#!/bin/sh\npwd\n").expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("executable");
    let done = run(Task::new("./check.sh", [""; 0]).folder(folder.path()));
    let expected = folder.path().canonicalize().expect("a path");
    assert_eq!(Path::new(done.stdout.text().trim_end()), expected);
}

#[test]
fn the_environment_is_what_was_named() {
    let mut environment = Environment::default();
    environment.set("POSTE_AGENT", "writer");
    let done = run(Task::new("env", [""; 0]).environment(environment));
    let text = done.stdout.text();
    let mut names: Vec<&str> = text.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    names.retain(|name| !name.starts_with("LC_") && !poste_run::ALLOWED.contains(name));
    assert_eq!(names, ["POSTE_AGENT"], "other variables, such as cargo's, are not passed on");
}

#[test]
fn at_the_limit_it_is_asked_and_then_ended() {
    let polite = run(shell("trap 'echo bye; exit 7' TERM; while :; do sleep 0.05; done").limit(Duration::from_secs(2)));
    assert_eq!((polite.end, polite.stopped), (End::Exit(7), Some(Stopped::TimedOut)));
    assert_eq!(polite.stdout.text(), "bye\n");
    assert!(!polite.passed());

    let mut deaf = shell("trap '' TERM; while :; do sleep 0.05; done");
    let deaf = run(deaf.limit(Duration::from_secs(2)).grace(Duration::from_millis(200)));
    assert_eq!((deaf.end, deaf.stopped), (End::Signal(9), Some(Stopped::TimedOut)));
    assert!(deaf.duration >= Duration::from_millis(2_200) && deaf.duration < SOON, "{:?}", deaf.duration);
}

#[test]
fn a_run_that_ends_well_after_it_was_asked_has_not_passed() {
    let late = run(shell("trap 'exit 0' TERM; while :; do sleep 0.05; done").limit(Duration::from_secs(2)));
    assert_eq!(late.end, End::Exit(0));
    assert!(!late.passed());
}

#[test]
fn a_stopped_command_is_ended_too() {
    let done = run(shell("kill -STOP $$; sleep 60").limit(Duration::from_secs(1)));
    assert_eq!((done.end, done.stopped), (End::Signal(15), Some(Stopped::TimedOut)));
}

#[test]
fn grandchildren_end_with_the_command_and_do_not_hold_the_caller() {
    let folder = tempfile::tempdir().expect("a folder");
    let began = Instant::now();
    let done = run(shell("sleep 60 & echo $! > pid; echo started").folder(folder.path()));
    assert!(done.passed() && !done.left_behind);
    assert_eq!(done.stdout.text(), "started\n");
    assert!(began.elapsed() < SOON);
    assert_gone(&folder.path().join("pid"));

    // Also those that do not hold the pipes.
    run(shell("sleep 60 >/dev/null 2>&1 & echo $! > pid2").folder(folder.path()));
    assert_gone(&folder.path().join("pid2"));
}

#[test]
fn grandchildren_end_at_the_limit() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut task =
        shell("trap '' TERM; (trap '' TERM; echo $(exec sh -c 'echo $PPID') > pid; sleep 60; :) & wait; sleep 60");
    let done = run(task.folder(folder.path()).limit(Duration::from_secs(2)).grace(Duration::from_millis(100)));
    assert_eq!((done.end, done.stopped), (End::Signal(9), Some(Stopped::TimedOut)));
    assert_gone(&folder.path().join("pid"));
}

#[test]
fn who_leaves_the_group_does_not_hold_the_caller_and_is_told_of() {
    let folder = tempfile::tempdir().expect("a folder");
    let began = Instant::now();
    let mut task =
        shell("setsid sh -c 'echo $$ > pid; exec sleep 30' & while [ ! -s pid ]; do sleep 0.01; done; echo over");
    let done = run(task.folder(folder.path()));
    assert!(done.passed() && done.left_behind);
    assert!(began.elapsed() < SOON);
    let pid: i32 = fs::read_to_string(folder.path().join("pid")).expect("written").trim().parse().expect("a number");
    rustix::process::kill_process(Pid::from_raw(pid).expect("positive"), rustix::process::Signal::KILL).expect("ours");
    assert_gone(&folder.path().join("pid"));
}

#[test]
fn what_a_grandchild_still_writes_is_kept() {
    // One of many tries: on a busy machine the grandchild may write too late.
    let is_kept = || run(&shell("(sleep 0.1; echo late) & echo early")).stdout.text() == "early\nlate\n";
    assert!((0..20).any(|_| is_kept()));
}

#[test]
fn output_is_bounded_and_counted() {
    let keep = Keep { head: 10, tail: 20 };
    let done = run(shell("echo begin; head -c 50000000 /dev/zero; echo; echo end").keep(keep));
    assert_eq!(done.stdout.total, 6 + 50_000_000 + 1 + 4);
    let bytes = done.stdout.bytes();
    assert_eq!(bytes.len(), 30);
    assert!(bytes.starts_with(b"begin\n\0\0\0\0") && bytes.ends_with(b"\0\nend\n"));
}

#[test]
fn endless_output_ends_at_the_limit() {
    signals::ignored_by_nobody_started();
    let done = run(Task::new("yes", [""; 0]).limit(Duration::from_secs(1)));
    assert_eq!((done.end, done.stopped), (End::Signal(15), Some(Stopped::TimedOut)));
    assert!(done.stdout.left_out() > 0);
}

#[test]
fn bytes_that_are_no_text_survive() {
    assert_eq!(run(&Task::new("printf", [r"\377\000\303"])).stdout.bytes(), b"\xff\0\xc3");
}

#[test]
fn the_watcher_is_asked_and_can_stop_it() {
    let mut asked = Vec::new();
    let mut task = shell("exec sleep 60");
    let done = task.watch_every(Duration::from_millis(50)).run_watched(&mut |elapsed| {
        asked.push(elapsed);
        if asked.len() == 3 { Watch::Stop } else { Watch::Continue }
    });
    let done = done.expect("starts");
    assert_eq!((done.end, done.stopped), (End::Signal(15), Some(Stopped::ByWatcher)));
    assert_eq!(asked.len(), 3, "the watcher is not asked again after it said stop");
    assert!(asked.windows(2).all(|pair| pair[1] >= pair[0] + Duration::from_millis(50)));
}

#[test]
fn a_watcher_that_panics_leaves_no_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut task = shell("echo $$ > pid; exec sleep 60");
    task.folder(folder.path()).watch_every(Duration::from_millis(20));
    let has_begun = || fs::read_to_string(folder.path().join("pid")).is_ok_and(|text| text.ends_with('\n'));
    let panicked = std::panic::catch_unwind(|| {
        task.run_watched(&mut |_| if has_begun() { panic!("as the test wants") } else { Watch::Continue })
    });
    assert!(panicked.is_err());
    assert_gone(&folder.path().join("pid"));
}

#[test]
fn what_cannot_start_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let not_found = Task::new("poste-no-such-program", [""; 0]).run();
    assert!(matches!(not_found, Err(StartError::NotFound { .. })), "{not_found:?}");
    let no_program = Task::new("", [""; 0]).run();
    assert!(matches!(no_program, Err(StartError::NoProgram)));
    let no_folder = Task::new("true", [""; 0]).folder(folder.path().join("none")).run();
    assert!(matches!(no_folder, Err(StartError::NoFolder { .. })), "{no_folder:?}");
    fs::write(folder.path().join("plain"), "#!/bin/sh\n").expect("written");
    let plain = Task::new("./plain", [""; 0]).folder(folder.path()).run();
    assert!(matches!(plain, Err(StartError::NotExecutable { .. })), "{plain:?}");
    let nul = Task::new("echo", ["a\0b"]).run();
    assert!(matches!(nul, Err(StartError::Failed { .. })), "{nul:?}");
}

#[test]
fn a_quick_command_does_not_wait_for_the_clock() {
    // One of many tries: a busy machine may delay some, the clock would delay all.
    let in_time = (0..50).any(|_| {
        let done = run(&Task::new("true", [""; 0]));
        assert!(done.passed());
        done.duration < Duration::from_millis(100)
    });
    assert!(in_time);
}

#[test]
fn words_are_split_like_a_shell_and_never_expanded() {
    let split = words(r#"check --title "two words" 'a $HOME' b\ c"#);
    assert_eq!(split.as_deref(), Some(&["check", "--title", "two words", "a $HOME", "b c"].map(String::from)[..]));
    assert_eq!(words("check 'never closed"), None);
    assert_eq!(words("   "), None);
}

#[test]
fn a_line_splits_into_its_words_again() {
    let hostile = ["a b", "$(reboot)", "it's", "", "\n", "#", "ü"];
    assert_eq!(words(&line(hostile)).as_deref(), Some(&hostile.map(String::from)[..]));
}

#[test]
fn neither_a_pipe_nor_a_link_nor_a_folder_is_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let (target, path) = (folder.path().join("target"), folder.path().join("file"));
    fs::write(&target, "precious").unwrap();
    for what in ["pipe", "link", "folder", "nothing"] {
        match what {
            "pipe" => {
                let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
                assert!(made.success());
            }
            "link" => symlink(&target, &path).unwrap(),
            "folder" => {
                fs::create_dir(&path).unwrap();
                fs::write(path.join("inside"), "x").unwrap();
            }
            _ => {}
        }
        create(&path).unwrap().write_all(what.as_bytes()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), what.as_bytes(), "{what}");
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }
}
