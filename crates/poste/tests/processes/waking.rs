//! Waking real sessions in real ways: rings arrive, a way that hangs is given up, and `track` shows the attempts.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use poste_verbs::live::{self, Live, Reach};
use poste_verbs::wake;
use serde_json::Value;

use crate::common::{Desk, until};

/// A lead and a coder, and a process that stands in for the coder's program.
struct Team {
    desk: Desk,
    program: Child,
}

impl Drop for Team {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Team {
    fn new(reach: impl FnOnce(&Path) -> Reach) -> Self {
        let program = Command::new("sleep").arg("600").stdout(Stdio::null()).spawn().expect("sleep runs");
        let team = Self { desk: Desk::new(&["lead", "coder"]), program };
        team.start_session(team.program.id());
        team.reached_by(reach(team.desk.programs()));
        team
    }

    fn start_session(&self, pid: u32) {
        let pid = pid.to_string();
        self.desk.run(&["session", "start", "--name", "run-1", "--pid", &pid, "--as", "coder"]);
    }

    /// Stores how the session is reached, as the hooks of a program do.
    fn reached_by(&self, reach: Reach) {
        let session = "run-1".parse().expect("a session");
        let changed = Live::change(&self.desk.office(), &session, |live| {
            live.reach = reach;
            Ok::<_, std::io::Error>(())
        });
        changed.expect("saved");
    }

    fn alert(&self) {
        self.desk.run(&["send", "coder", "Fire", "the secret word", "--type", "alert", "--as", "lead"]);
    }

    fn wake(&self, who: &str) -> (Option<i32>, Value) {
        let path = format!("{}:/usr/bin:/bin", self.desk.programs().display());
        let mut command = self.desk.command(&["--json", "wake", who, "--as", "lead"]);
        let output = command.env("PATH", path).output().expect("runs");
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_default();
        (output.status.code(), answer)
    }

    fn tried(answer: &Value) -> Vec<String> {
        let tried = answer["rung"][0]["tried"].as_array().cloned().unwrap_or_default();
        let told = |tried: &Value| {
            let word = |key: &str| tried[key].as_str().unwrap_or_default().to_owned();
            format!("{} {}: {}", word("how"), word("outcome"), word("reason"))
        };
        tried.iter().map(told).collect()
    }

    fn wakes(&self, number: u64) -> Vec<(String, String)> {
        let track = self.desk.json(&["track", &number.to_string()]);
        let wakes = track["deliveries"][0]["wakes"].as_array().cloned().expect("a list");
        let word = |wake: &Value, key: &str| wake[key].as_str().expect("a word").to_owned();
        wakes.iter().map(|wake| (word(wake, "how"), word(wake, "outcome"))).collect()
    }
}

fn pair(how: &str, outcome: &str) -> (String, String) {
    (how.to_owned(), outcome.to_owned())
}

/// A program that records its arguments.
fn script(folder: &Path, name: &str, body: &str) -> PathBuf {
    let path = folder.join(name);
    let text = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" > '{}/{name}.args'\n{body}\n", folder.display());
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("set");
    path
}

#[test]
fn a_session_socket_gets_one_line_that_tells_nothing_of_the_message() {
    let team = Team::new(|_| Reach::default());
    let path = team.desk.programs().join("inbox");
    let listener = UnixListener::bind(&path).expect("bound");
    team.reached_by(Reach { socket: Some(path), socket_token: Some("s3cret".to_owned()), ..Reach::default() });
    team.alert();
    // The send itself rings.
    until("the record", || team.wakes(1) == [pair("claude-socket", "requested")]);
    let (stream, _) = listener.accept().expect("a ring");
    let lines: Vec<String> = BufReader::new(stream).lines().map(|line| line.expect("a line")).collect();
    assert_eq!(lines[0], r#"{"type":"auth","token":"s3cret"}"#);
    assert!(lines[1].contains("poste: 1 message waits (#1); run poste inbox"), "{lines:?}");
    assert!(!lines[1].contains("secret") && !lines[1].contains("Fire"), "{lines:?}");
    let log = team.desk.run(&["log", "show", "--json"]);
    assert!(!log.contains("s3cret"), "the key is in no record");
    team.desk.verify();
}

#[test]
fn codex_is_asked_to_queue_the_line() {
    let team = Team::new(|_| Reach { codex_thread: Some("0198-abc".to_owned()), ..Reach::default() });
    let folder = team.desk.programs().to_owned();
    team.desk.run(&["send", "coder", "Look", "--type", "message", "--as", "lead"]);
    let (code, answer) = team.wake("coder");
    assert_eq!(Team::tried(&answer), ["codex-queue failed: program not found: codex"]);
    assert_eq!(code, Some(3));
    script(&folder, "codex", "echo 'thread is not loaded' >&2; exit 1");
    let (_, answer) = team.wake("coder");
    assert_eq!(
        Team::tried(&answer),
        ["codex-queue failed: codex queue ended with exit code 1: \"thread is not loaded\""]
    );
    script(&folder, "codex", "");
    let (code, _) = team.wake("coder");
    assert_eq!(code, Some(0));
    let args = fs::read_to_string(folder.join("codex.args")).expect("it ran");
    assert_eq!(args, "queue\n--thread\n0198-abc\n--message\nposte: 1 message waits (#1); run poste inbox\n");
    let expected = ["failed", "failed", "requested"].map(|outcome| pair("codex-queue", outcome));
    assert_eq!(team.wakes(1), expected);
    let (code, answer) = team.wake("1");
    assert_eq!((code, &answer["rung"][0]["outcome"]), (Some(0), &"covered".into()), "one ring is enough");
    assert_eq!(team.wakes(1).len(), 3);
    team.desk.verify();
}

#[test]
fn a_way_that_hangs_is_given_up_and_the_next_one_is_tried() {
    let team = Team::new(|_| Reach { codex_thread: Some("t1".to_owned()), ..Reach::default() });
    let folder = team.desk.programs().to_owned();
    script(&folder, "codex", "exec sleep 600");
    let notify = script(&folder, "notify", "");
    let config =
        format!("[wake]\ncommand = [\"{}\", \"{{agent}}\", \"{{number}}\", \"{{count}}\"]\n", notify.display());
    fs::write(team.desk.office().join("local.toml"), config).expect("written");
    team.desk.trust();
    team.desk.run(&["send", "coder", "One", "--as", "lead"]);
    team.desk.run(&["send", "coder", "Two", "--as", "lead"]);
    let start = Instant::now();
    let (code, answer) = team.wake("coder");
    assert_eq!(code, Some(0));
    let tried = Team::tried(&answer);
    assert_eq!(tried, ["codex-queue failed: codex queue timed out after 5 s", "command requested: "]);
    assert!(start.elapsed() < Duration::from_secs(60));
    assert_eq!(fs::read_to_string(folder.join("notify.args")).expect("it ran"), "coder\n1\n2\n");
    assert_eq!(team.wakes(2), [pair("codex-queue", "failed"), pair("command", "requested")]);
    team.desk.verify();
}

#[test]
fn a_command_that_comes_with_the_repository_runs_only_once_it_is_trusted() {
    let team = Team::new(|_| Reach::default());
    let folder = team.desk.folder.path().to_owned();
    script(&folder, "notify", "");
    fs::write(folder.join("poste.toml"), "[wake]\ncommand = [\"./notify\", \"{agent}\"]\n").expect("written");
    team.desk.run(&["register", "anna", "--kind", "human"]);
    team.desk.run(&["send", "coder", "One", "--as", "lead"]);
    let (code, answer) = team.wake("coder");
    assert_eq!((code, &answer["rung"][0]["tried"][0]["how"]), (Some(3), &"none".into()));
    let why = answer["rung"][0]["tried"][0]["reason"].as_str().expect("a reason");
    assert!(why.contains("poste trust"), "{why}");
    team.desk.trust();
    let (code, answer) = team.wake("coder");
    assert_eq!((code, &answer["rung"][0]["tried"][0]["how"]), (Some(0), &"command".into()));
    assert_eq!(fs::read_to_string(folder.join("notify.args")).expect("it ran"), "coder\n");
    team.desk.verify();
}

#[test]
fn a_server_is_prompted_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let reach = Reach { opencode_url: Some(url), opencode_session: Some("ses_1".to_owned()), ..Reach::default() };
    let team = Team::new(|_| reach);
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a request");
        let mut request = String::new();
        let mut part = [0; 1024];
        while !request.ends_with("}]}") {
            let read = stream.read(&mut part).expect("read");
            request += &String::from_utf8_lossy(&part[..read]);
        }
        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").expect("answered");
        request
    });
    team.alert();
    until("the record", || team.wakes(1) == [pair("opencode", "requested")]);
    let request = served.join().expect("served");
    assert!(request.starts_with("POST /session/ses_1/prompt_async HTTP/1.1"), "{request}");
    team.desk.verify();
}

/// tmux with one pane, in which a shell stands in for the agent and records its input.
struct Tmux {
    folder: tempfile::TempDir,
}

impl Tmux {
    fn start() -> Self {
        let tmux = Self { folder: tempfile::tempdir().expect("a folder") };
        let typed = tmux.folder.path().join("typed").display().to_string();
        let agent = format!("touch '{typed}'; while read -r line; do echo \"$line\" >> '{typed}'; done");
        tmux.run(&["-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", &agent]);
        tmux
    }

    fn run(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let output = command.arg("-S").arg(self.folder.path().join("socket")).args(arguments).output();
        let output = output.expect("tmux is missing; cargo xtask test installs it");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    }

    fn reach(&self) -> Reach {
        Reach {
            tmux: Some(format!("{},1,0", self.folder.path().join("socket").display())),
            tmux_pane: Some(self.run(&["display-message", "-p", "#{pane_id}"])),
            ..Reach::default()
        }
    }

    fn typed(&self) -> String {
        fs::read_to_string(self.folder.path().join("typed")).unwrap_or_default()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        let mut command = Command::new("tmux");
        let _ = command.arg("-S").arg(self.folder.path().join("socket")).arg("kill-server").status();
    }
}

#[test]
fn a_send_that_is_urgent_rings_the_pane_and_the_ladder_tells_until_it_was_seen() {
    let tmux = Tmux::start();
    let team = Team::new(|_| Reach::default());
    let pid = tmux.run(&["display-message", "-p", "#{pane_pid}"]);
    team.desk.run(&["session", "start", "--name", "run-2", "--pid", &pid, "--take-over", "--as", "coder"]);
    let session = "run-2".parse().expect("a session");
    let reach = tmux.reach();
    Live::change(&team.desk.office(), &session, |live| {
        live.reach = reach;
        Ok::<_, std::io::Error>(())
    })
    .expect("saved");
    team.desk.run(&["send", "coder", "No hurry", "--as", "lead"]);
    team.alert();
    until("the ring", || tmux.typed() == "poste: 1 message waits (#2); run poste inbox\n");
    until("the record", || team.wakes(2) == [pair("tmux", "requested")]);
    assert_eq!(team.wakes(1), [], "mail that is not urgent rings no agent");
    let track = team.desk.run(&["track", "2"]);
    assert!(track.contains("wake requested") && track.contains("by lead via tmux"), "{track}");
    assert!(track.contains("not shown yet"), "a ring does not count as shown: {track}");
    team.desk.run(&["read", "2", "--as", "coder"]);
    let track = team.desk.run(&["track", "2"]);
    assert!(track.contains("via tmux; shown"), "{track}");
    // Messages already seen are not rung for again, and new ones share one ring.
    team.alert();
    team.alert();
    let both = "poste: 2 messages wait (#3, #4); run poste inbox";
    until("one more ring", || tmux.typed().lines().last() == Some(both));
    until("the records", || !team.wakes(3).is_empty() && !team.wakes(4).is_empty());
    // On a slow machine the first of them may have been rung for alone.
    assert!(tmux.typed().lines().count() <= 3, "{}", tmux.typed());
    team.desk.verify();
}

#[test]
fn a_waiter_that_hears_the_bell_is_not_rung_and_asked_it_is_the_only_way() {
    let tmux = Tmux::start();
    let team = Team::new(|_| tmux.reach());
    let session = "run-1".parse().expect("a session");
    let path = live::path(&team.desk.office(), &session).with_extension("waiter");
    let lock = File::create(path).expect("made");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    team.alert();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((team.wakes(1), tmux.typed()), (Vec::new(), String::new()), "the waiter records its own wakes");
    let (code, answer) = team.wake("1");
    assert_eq!((code, Team::tried(&answer)), (Some(0), vec!["rewake requested: ".to_owned()]));
    drop(lock);
    team.desk.verify();
}

#[test]
fn a_waiter_that_has_told_of_it_is_not_the_way() {
    let tmux = Tmux::start();
    let team = Team::new(|_| Reach::default());
    let pid = tmux.run(&["display-message", "-p", "#{pane_pid}"]);
    team.desk.run(&["session", "start", "--name", "run-2", "--pid", &pid, "--take-over", "--as", "coder"]);
    let session = "run-2".parse().expect("a session");
    team.desk.run(&["send", "coder", "Look", "--type", "question", "--as", "lead"]);
    team.desk.run(&["send", "coder", "How far", "--type", "progress_update", "--as", "lead"]);
    let changed = Live::change(&team.desk.office(), &session, |live| {
        live.reach = tmux.reach();
        live.told.listed.insert(poste_core::MessageNo(1));
        Ok::<_, std::io::Error>(())
    });
    changed.expect("saved");
    let waiter = wake::Place::take(&team.desk.office(), &"coder".parse().expect("a name"), &session, None);
    let _waiter = waiter.expect("asked").expect("free");
    // #1 was already listed to the session and #2 waits for the next one: no waiter will announce them.
    let (code, answer) = team.wake("coder");
    assert_eq!((code, Team::tried(&answer)), (Some(0), vec!["tmux requested: ".to_owned()]), "{answer}");
    until("the ring", || tmux.typed() == "poste: 2 messages wait (#1, #2); run poste inbox\n");
    team.desk.run(&["send", "coder", "And this?", "--type", "question", "--as", "lead"]);
    let (_, answer) = team.wake("3");
    assert_eq!(Team::tried(&answer), ["rewake requested: "], "{answer}");
    team.desk.verify();
}

#[test]
fn what_is_in_the_way_of_one_ring_is_not_in_the_way_of_the_others() {
    let team = Team::new(|_| Reach { codex_thread: Some("t1".to_owned()), ..Reach::default() });
    script(team.desk.programs(), "codex", "");
    for subject in ["One", "Two"] {
        team.desk.run(&["send", "coder", subject, "--as", "lead"]);
    }
    team.desk.run(&["done", "1", "--as", "coder"]);
    let path = format!("{}:/usr/bin:/bin", team.desk.programs().display());
    let mut command = team.desk.command(&["--json", "wake", "99", "1", "ghost", "2", "--as", "lead"]);
    let output = command.env("PATH", path).output().expect("runs");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    let told: Vec<(&Value, &Value)> =
        answer["rung"].as_array().expect("a list").iter().map(|rung| (&rung["agent"], &rung["outcome"])).collect();
    assert_eq!(told, [(&Value::Null, &"nothing".into()), (&"coder".into(), &"requested".into())], "{answer}");
    assert_eq!(output.status.code(), Some(3), "the errors are reported");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("message 99") && error.contains("ghost"), "{error}");
    assert_eq!(team.wakes(2), [pair("codex-queue", "requested")]);
    team.desk.verify();
}

/// The number of processes that ring in this office.
fn ringers(desk: &Desk) -> usize {
    let office = desk.office().display().to_string();
    let processes = fs::read_dir("/proc").expect("read").flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines
        .map(|line| String::from_utf8_lossy(&line).into_owned())
        .filter(|line| line.contains("--apart") && line.contains(&office))
        .count()
}

#[test]
fn a_way_that_fails_is_not_tried_by_everybody_at_once() {
    const SENT: u64 = 8;
    let team = Team::new(|_| Reach { codex_thread: Some("t1".to_owned()), ..Reach::default() });
    let folder = team.desk.programs().to_owned();
    script(&folder, "codex", &format!("echo run >> '{}/runs'; sleep 1; exit 1", folder.display()));
    let path = format!("{}:/usr/bin:/bin", folder.display());
    for _ in 0..SENT {
        let mut send = team.desk.command(&["send", "coder", "Fire", "--type", "alert", "--as", "lead"]);
        assert!(send.env("PATH", &path).output().expect("runs").status.success());
    }
    until("at most two processes that ring", || ringers(&team.desk) <= 2);
    until("the records", || (1..=SENT).all(|number| team.wakes(number).contains(&pair("codex-queue", "failed"))));
    until("every ring to end", || ringers(&team.desk) == 0);
    let runs = fs::read_to_string(folder.join("runs")).expect("it ran").lines().count();
    assert!(runs <= 3, "{runs} rings");
    team.desk.verify();
}

#[test]
fn where_there_is_no_way_the_reason_is_written_down() {
    let mut team = Team::new(|_| Reach::default());
    team.desk.run(&["send", "coder", "One", "--as", "lead"]);
    let told = |team: &Team| Team::tried(&team.wake("1").1);
    assert_eq!(told(&team), ["none failed: its session run-1 reports no way to reach it"]);
    team.program.kill().expect("ended");
    team.program.wait().expect("ended");
    assert_eq!(told(&team), ["none failed: the process of its session run-1 has ended"]);
    team.desk.run(&["session", "close", "run-1", "--as", "coder"]);
    assert_eq!(told(&team), ["none failed: it has no live session"]);
    assert_eq!(team.wakes(1).len(), 3);
    team.desk.run(&["done", "1", "--as", "coder"]);
    let (code, answer) = team.wake("1");
    assert_eq!((code, &answer["rung"][0]["outcome"]), (Some(0), &"nothing".into()), "nothing is left to ring for");
    assert_eq!(team.wake("coder").0, Some(0), "nothing waits, so no agent is rung");
    assert_eq!(team.wake("ghost").0, Some(3));
    assert_eq!(team.wake("99").0, Some(3));
    team.desk.verify();
}

#[test]
fn a_send_is_not_held_up_by_a_way_that_hangs() {
    let team = Team::new(|_| Reach { codex_thread: Some("t1".to_owned()), ..Reach::default() });
    let folder = team.desk.programs().to_owned();
    let pid = folder.join("codex.pid");
    script(&folder, "codex", &format!("echo $$ > '{}'; echo started; exec sleep 600", pid.display()));
    let path = format!("{}:/usr/bin:/bin", folder.display());
    let mut send = team.desk.command(&["send", "coder", "Fire", "--type", "alert", "--as", "lead"]);
    let output = send.env("PATH", path).output().expect("runs");
    // Its output was read to the end, so no process that rings keeps it open.
    assert!(output.status.success());
    let ends = |pid: String| !crate::run_agent::is_there(pid.trim().parse().expect("a number"));
    assert!(!fs::read_to_string(folder.join("codex.pid")).is_ok_and(ends), "the send waited for the ring to end");
    until("the record", || team.wakes(1) == [pair("codex-queue", "failed")]);
    let reason = team.desk.json(&["track", "1"])["deliveries"][0]["wakes"][0]["reason"].clone();
    assert_eq!(reason, "codex queue timed out after 5 s");
    team.desk.verify();
}
