//! Rates, hops, secrets in attachments, and keys that are no keys.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::common::{Desk, finish, until_all_wait};

/// Looks random, and belongs to nobody.
const TOKEN: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

fn refused(output: &Output, code: i32, why: &str) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert!(err.contains(why), "{err} does not contain {why}");
}

fn file(desk: &Desk, path: &str, bytes: impl AsRef<[u8]>) {
    let path = desk.folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

fn ask(desk: &Desk, args: &[&str]) -> Output {
    desk.command(args).output().unwrap()
}

fn blobs(desk: &Desk) -> usize {
    fs::read_dir(desk.office().join("blobs")).unwrap().count()
}

#[test]
fn an_attached_file_with_a_secret_is_refused_like_a_body() {
    let desk = Desk::new(&["lead", "coder"]);
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\n-----END OPENSSH PRIVATE KEY-----\n";
    file(&desk, ".env", format!("DEBUG=1\nGITHUB_TOKEN={TOKEN}\n"));
    file(&desk, "keys/id_ed25519", key);
    file(&desk, "remote", "[remote \"origin\"]\n\turl = https://me:h4rdToGuess9@example.org/x.git\n");
    file(&desk, "fine.txt", "nothing of interest");
    for (path, what) in [
        (".env", "a GitHub token in the file .env, line 2"),
        ("keys/id_ed25519", "a private key in the file keys/id_ed25519, line 1"),
    ] {
        let sent = ask(&desk, &["send", "coder", "Look", "--attach", path, "--as", "lead"]);
        refused(&sent, 4, what);
        assert!(!String::from_utf8_lossy(&sent.stderr).contains(TOKEN));
        let handed = ask(&desk, &["handoff", "create", "coder", "--task", "Go on", "--artifact", path, "--as", "lead"]);
        refused(&handed, 4, what);
    }
    let all = ask(&desk, &["handoff", "create", "coder", "--task", "Go on", "--artifact", ".", "--as", "lead"]);
    refused(&all, 4, ".env, line 2");
    assert_eq!((blobs(&desk), desk.pending("coder")), (1, 0), "only fine.txt was copied, which nothing refers to");
    desk.run(&["send", "coder", "Look", "--attach", "fine.txt", "--as", "lead"]);
    desk.verify();
}

#[test]
fn what_is_searched_of_a_file_is_bounded_and_binary_files_are_not() {
    let desk = Desk::new(&["lead", "coder"]);
    let mut long = vec![b'\n'; 1024 * 1024 - 100];
    long.extend_from_slice(TOKEN.as_bytes());
    file(&desk, "long.log", &long);
    refused(&ask(&desk, &["send", "coder", "Log", "--attach", "long.log", "--as", "lead"]), 4, "a GitHub token");
    long.insert(0, 0);
    file(&desk, "image.bin", &long);
    desk.run(&["send", "coder", "Image", "--attach", "image.bin", "--as", "lead"]);
}

#[test]
fn files_of_git_are_not_attached_under_any_name() {
    let desk = Desk::new(&["lead", "coder"]);
    file(&desk, ".git/config", "[core]\n\tbare = false\n");
    file(&desk, "sub/.git/HEAD", "ref: refs/heads/main\n");
    std::os::unix::fs::symlink(".git/config", desk.folder.path().join("plain.txt")).unwrap();
    for path in [".git/config", "sub/.git/HEAD", "plain.txt", "./sub/../.git/config"] {
        let sent = ask(&desk, &["send", "coder", "Look", "--attach", path, "--as", "lead"]);
        refused(&sent, 4, "it belongs to git");
    }
    assert_eq!(blobs(&desk), 0);
}

#[test]
fn a_webhook_with_a_key_that_could_be_guessed_is_refused() {
    let desk = Desk::new(&["ops"]);
    for (secret, why) in [
        ("whsec_", "the key has 0 bytes"),
        ("whsec_c2hvcnQ=", "the key has 5 bytes"),
        ("whsec_?", "not valid base64"),
        ("fifteen bytes..", "the key has 15 bytes; a signing key needs at least 16"),
    ] {
        let mut command = desk.command(&["ingest", "webhook", "ops", "--secret-env", "HOOK"]);
        let mut child = command.env("HOOK", secret).stdin(Stdio::piped()).spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(b"{\"title\":\"forged\"}");
        let output = child.wait_with_output().unwrap();
        refused(&output, 2, why);
        assert!(!String::from_utf8_lossy(&output.stderr).contains(secret));
    }
    let rule = "[[on]]\nname = \"pager\"\ntype = \"alert\"\nhandler = \"webhook\"\nurl = \"http://127.0.0.1:9/\"\n\
                secret_env = \"HOOK\"\n";
    fs::write(desk.office().join("local.toml"), rule).unwrap();
    desk.trust();
    let watched = desk.command(&["watch", "--once", "--json"]).env("HOOK", "whsec_").output().unwrap();
    let out = String::from_utf8_lossy(&watched.stdout);
    let problem: Value = serde_json::from_str(out.lines().next().unwrap_or_default()).unwrap_or_default();
    assert_eq!(problem["what"], "problem", "{out}");
    let why = problem["why"].as_str().unwrap();
    assert_eq!(why, "local.toml:1: $HOOK cannot sign: the key has 0 bytes; a signing key needs at least 16");
}

/// The exit code of a waiter that wakes its session.
const WAKES: i32 = 2;

fn hook(desk: &Desk, event: &str) -> Command {
    let mut command = desk.command(&["hook", event, "--program", "claude-code"]);
    command.stdin(Stdio::piped()).env("POSTE_AGENT", "coder");
    command
}

fn begin(mut command: Command, desk: &Desk) -> Child {
    let mut child = command.spawn().unwrap();
    let input = json!({ "session_id": "run-1", "cwd": desk.folder.path(), "hook_event_name": "SessionStart" });
    child.stdin.take().unwrap().write_all(input.to_string().as_bytes()).unwrap();
    child
}

/// The waiter of an idle session.
fn waiter(desk: &Desk) -> Child {
    let waiter = begin(hook(desk, "wait"), desk);
    until_all_wait(desk, std::slice::from_ref(&waiter));
    waiter
}

fn ends_within(mut waiter: Child, time: Duration) -> Result<Output, Child> {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline {
        if waiter.try_wait().unwrap().is_some() {
            return Ok(finish(vec![waiter]).remove(0));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(waiter)
}

fn woken(waiter: Child) -> String {
    let output = ends_within(waiter, Duration::from_secs(15)).expect("it wakes");
    assert_eq!(output.status.code(), Some(WAKES));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn agents_do_not_keep_each_other_awake() {
    let desk = Desk::new(&["lead", "coder"]);
    desk.run(&["register", "anna", "--kind", "human"]);
    fs::write(desk.office().join("local.toml"), "[wake]\nper_minute = 2\n").unwrap();
    assert!(begin(hook(&desk, "session-start"), &desk).wait().unwrap().success());
    let send = |from: &str, subject: &str| desk.run(&["send", "coder", subject, "--type", "alert", "--as", from]);
    for nth in 1..=2 {
        let waiter = waiter(&desk);
        send("lead", &format!("Number {nth}"));
        assert!(woken(waiter).contains(&format!("Number {nth}")));
    }
    let waiter = waiter(&desk);
    send("lead", "Number 3");
    let waiter = ends_within(waiter, Duration::from_secs(3)).expect_err("it was woken twice within this minute");
    assert_eq!(desk.json(&["track", "3"])["deliveries"][0]["wakes"], json!([]), "the wake stays owed");
    send("anna", "From a person");
    let text = woken(waiter);
    assert!(text.contains("From a person") && text.contains("Number 3"), "{text}");
}

#[test]
fn a_chain_of_runs_wakes_no_one() {
    let desk = Desk::new(&["lead", "coder"]);
    let program = desk.folder.path().join("lead.sh");
    let (poste, office) = (env!("CARGO_BIN_EXE_poste"), desk.office());
    let script = format!("#!/bin/sh\n'{poste}' --office '{}' send coder Again --type alert >&2\n", office.display());
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config =
        format!("[agent.lead]\nrun = [\"{}\"]\n[agent.coder]\nrun = [\"true\"]\nmax_hops = 0\n", program.display());
    fs::write(office.join("local.toml"), config).unwrap();
    desk.trust();
    assert!(begin(hook(&desk, "session-start"), &desk).wait().unwrap().success());
    desk.run(&["send", "lead", "Go", "--type", "question", "--as", "coder"]);
    let waiter = waiter(&desk);
    let ran = desk.command(&["run-agent", "lead", "1"]).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let mut waiter = ends_within(waiter, Duration::from_secs(3)).expect_err("no one is woken for it");
    let track = desk.json(&["track", "2"]);
    let wake = &track["deliveries"][0]["wakes"][0];
    assert_eq!((wake["how"].as_str(), wake["outcome"].as_str()), (Some("none"), Some("failed")), "{track:#}");
    let why = "message #2 came out of a chain of 1 runs, and max_hops of coder is 0: this looks like a loop";
    assert_eq!(wake["reason"], why);
    assert_eq!(track["deliveries"][0]["state"], "pending");
    waiter.kill().unwrap();
    waiter.wait().unwrap();
}
