//! Hostile input made by a seed: command lines, frames of the tools server, inputs of hooks, mails and forged webhooks.
//!
//! The tests take a sample; `cargo xtask torture hostile` takes all of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgAction, Command};
use poste::probe;
use poste_testkit::corpus;
use poste_testkit::fuzz::mutate::mutate;
use poste_testkit::rng::Rng;
use serde_json::{Value, json};

use super::desk::Desk;

/// The number of cases: a sample, unless all of them are wanted.
fn cases(sample: usize, all: usize) -> usize {
    if std::env::var_os("HOSTILE_ALL").is_some() { all } else { sample }
}

/// Commands that wait for something, run programs until they are stopped, or write where they are told to. They have
/// tests of their own.
const LEFT_OUT: &[&str] = &[
    "completions",
    "demo",
    "dispatch",
    "follow",
    "help",
    "hook",
    "init",
    "man",
    "mcp",
    "restore",
    "run-agent",
    "setup",
    "snapshot",
    "tail",
    "team",
    "wait",
    "watch",
];
/// Options that wait, or that end the call early.
const OPTIONS_LEFT_OUT: &[&str] = &["follow", "for", "help", "version", "wait"];

/// Paths that must not be written, or cannot be.
const PATHS: &[&str] = &[
    "",
    ".",
    "missing",
    "missing/deep",
    "secret.txt",
    "out/secret.txt",
    "pipe",
    ".poste/office.db",
    ".poste",
    "a\u{202e}b",
];

/// Values that some field accepts, so that a call gets beyond its parser.
const HONEST: &[&str] = &[
    "1",
    "2",
    "lead",
    "coder",
    "role:worker",
    "message",
    "alert",
    "high",
    "10s",
    "2h",
    "notes",
    "{}",
    "a=b",
    "-",
    "Builds",
];

/// Every command without subcommands, by its words.
fn leaves(command: &Command, words: &[String], found: &mut Vec<(Vec<String>, Command)>) {
    let mut subcommands = command.get_subcommands().peekable();
    if subcommands.peek().is_none() {
        found.push((words.to_vec(), command.clone()));
    }
    for subcommand in subcommands {
        let name = subcommand.get_name().to_owned();
        if !LEFT_OUT.contains(&name.as_str()) {
            leaves(subcommand, &[words, &[name]].concat(), found);
        }
    }
}

fn value(rng: &mut Rng, arg: &Arg) -> String {
    if arg.get_value_parser().type_id() == std::any::TypeId::of::<PathBuf>() {
        return (*rng.pick(PATHS)).to_owned();
    }
    let text = match rng.below(8) {
        0..3 => (*rng.pick(HONEST)).to_owned(),
        3 => (*rng.pick(corpus::NAMES)).to_owned(),
        4 => (*rng.pick(corpus::TEXTS)).to_owned(),
        5 => (*rng.pick(corpus::FENCES)).to_owned(),
        6 => (*rng.pick(corpus::JSON_TEXTS)).to_owned(),
        _ => rng.pick(corpus::NUMBERS).to_string(),
    };
    // No argument can hold a zero byte. Paths that lead out of the folder are tried one by one, not by chance.
    let is_kept = !text.contains('\0') && !text.contains("..") && !text.starts_with(['/', '~']);
    if is_kept { text } else { "x\u{1b}]0;y\u{7}".to_owned() }
}

fn line(rng: &mut Rng, words: &[String], command: &Command) -> Vec<OsString> {
    let mut line = words.to_vec();
    let mut positional = Vec::new();
    for arg in command.get_arguments().filter(|arg| !OPTIONS_LEFT_OUT.contains(&arg.get_id().as_str())) {
        if !arg.is_required_set() && !rng.chance(250) {
            continue;
        }
        let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        match arg.get_long() {
            Some(long) if takes_value => line.push(format!("--{long}={}", value(rng, arg))),
            Some(long) => line.push(format!("--{long}")),
            None if arg.is_positional() => positional.push(value(rng, arg)),
            None => {}
        }
    }
    if rng.chance(800) {
        line.push(format!("--as={}", if rng.chance(900) { "lead" } else { "nobody" }));
    }
    if rng.chance(300) {
        line.push("--json".to_owned());
    }
    if rng.chance(500) {
        line.push("--".to_owned());
    }
    line.extend(positional);
    line.into_iter().map(OsString::from).collect()
}

/// An office with something in it, beside files that no command may change.
struct Guarded {
    desk: Desk,
    outside: tempfile::TempDir,
}

impl Guarded {
    fn new() -> Self {
        let guarded = Self { desk: Desk::new(), outside: tempfile::tempdir().unwrap() };
        let desk = &guarded.desk;
        desk.accepts(&["send", "coder", "Hello", "Body", "--type", "question", "--as", "lead"]);
        desk.accepts(&["send", "lead", "Hello", "Body", "--as", "coder"]);
        desk.accepts(&["context", "create", "notes", "text", "--as", "lead"]);
        fs::write(guarded.outside.path().join("secret.txt"), "outside").unwrap();
        fs::write(desk.path("secret.txt"), "inside").unwrap();
        std::os::unix::fs::symlink(guarded.outside.path(), desk.path("out")).unwrap();
        let (here, fifo) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(here, desk.path("pipe"), fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        guarded
    }

    fn check(&self) {
        let files: BTreeMap<PathBuf, Vec<u8>> = fs::read_dir(self.outside.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .map(|path| (path.clone(), fs::read(&path).unwrap_or_default()))
            .collect();
        let expected = BTreeMap::from([(self.outside.path().join("secret.txt"), b"outside".to_vec())]);
        assert_eq!(files, expected, "a file outside was changed");
        assert_eq!(fs::read(self.desk.path("secret.txt")).unwrap(), b"inside");
        self.desk.accepts(&["log", "verify"]);
    }
}

#[test]
fn no_command_line_does_more_than_it_says() {
    let mut found = Vec::new();
    leaves(&probe::command(), &[], &mut found);
    assert!(found.len() > 80, "only {} commands were found", found.len());
    let mut rng = Rng::new(15);
    let mut guarded = Guarded::new();
    for case in 0..cases(150, 1_500) {
        if case % 50 == 49 {
            guarded.check();
            guarded = Guarded::new();
        }
        let (words, command) = rng.pick(&found);
        let line = line(&mut rng, words, command);
        guarded.desk.call(&line, &mut std::io::empty(), None);
    }
    guarded.check();
}

fn frames() -> Vec<Vec<u8>> {
    let ask = |id: u64, method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
    let tool = |name: &str, arguments: Value| ask(7, "tools/call", json!({ "name": name, "arguments": arguments }));
    let frames = [
        ask(
            1,
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }),
        ),
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
        ask(2, "tools/list", json!({ "cursor": "x" })),
        ask(3, "resources/read", json!({ "uri": "poste://context/notes" })),
        ask(4, "resources/subscribe", json!({ "uri": "poste://inbox" })),
        ask(5, "prompts/get", json!({ "name": "inbox", "arguments": {} })),
        ask(6, "logging/setLevel", json!({ "level": "debug" })),
        tool(
            "send_message",
            json!({ "to": "lead", "subject": "s", "body": "b", "type": "question", "payload": { "a": 1 } }),
        ),
        tool("check_inbox", json!({ "limit": 3, "tokens": 100 })),
        tool("read_message", json!({ "number": 1 })),
        tool("claim_work", json!({ "number": 1, "lease": "10m" })),
        tool("finish_work", json!({ "number": 1, "summary": "s", "files": ["out/secret.txt"] })),
        tool("reply", json!({ "number": 1, "body": "b" })),
        tool("context", json!({ "action": "append", "name": "notes", "text": "t" })),
        tool("handoff", json!({ "action": "create", "to": "lead", "task": "t", "artifacts": ["out/secret.txt"] })),
        tool("office", json!({ "action": "status" })),
    ];
    frames.iter().map(|frame| frame.to_string().into_bytes()).collect()
}

#[test]
fn no_frame_ends_the_tools_server() {
    let seeds = frames();
    let mut rng = Rng::new(16);
    let guarded = Guarded::new();
    for _ in 0..cases(4, 32) {
        let mut input =
            [seeds[0].as_slice(), b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"].join(&b'\n');
        for _ in 0..50 {
            let (one, other) = (rng.pick(&seeds).clone(), rng.pick(&seeds).clone());
            let frame: Vec<u8> = mutate(&mut rng, &one, &other).into_iter().filter(|byte| *byte != b'\n').collect();
            input.push(b'\n');
            input.extend(frame);
        }
        input.push(b'\n');
        let server = guarded.desk.served(&["mcp", "--as", "coder"], &input);
        assert_eq!(server.code, 0, "{:.2000}", server.err);
        for line in server.out.lines() {
            assert!(serde_json::from_str::<Value>(line).is_ok(), "{line:.500}");
        }
    }
    guarded.check();
}

#[test]
fn no_input_makes_a_hook_fail() {
    let programs = ["claude-code", "codex", "gemini", "cursor", "opencode"];
    let events = ["session-start", "prompt", "tool", "stop", "session-end"];
    let mut rng = Rng::new(17);
    let guarded = Guarded::new();
    let seed = |name: &str| {
        json!({
            "session_id": "run-1", "conversation_id": "run-1", "cwd": guarded.desk.path(""), "hook_event_name": name,
            "workspace_roots": [guarded.desk.path("")], "transcript_path": "missing", "source": "startup", "prompt": "p",
            "tool_name": "Bash", "tool_input": { "command": "true" }, "stop_hook_active": false, "loop_count": 0,
        })
        .to_string()
        .into_bytes()
    };
    let seeds: Vec<Vec<u8>> = ["SessionStart", "BeforeAgent", "postToolUse", "Stop"].map(seed).to_vec();
    for _ in 0..cases(75, 800) {
        let (one, other) = (rng.pick(&seeds).clone(), rng.pick(&seeds).clone());
        let input = mutate(&mut rng, &one, &other);
        let line = ["hook", *rng.pick(&events[..]), "--program", *rng.pick(&programs[..])];
        let ran = guarded.desk.served(&line, &input);
        assert_eq!(ran.code, 0, "{line:?}: {:.2000}", ran.err);
        let is_answer = ran.out.trim().is_empty() || serde_json::from_str::<Value>(&ran.out).is_ok();
        assert!(is_answer, "{line:?}: {:.500}", ran.out);
    }
    guarded.check();
}

/// Mails that are large, nested, cut, or lie about themselves.
fn mails() -> Vec<Vec<u8>> {
    let head = "From: a@example.org\r\nTo: b@example.org\r\nSubject: s\r\nMessage-ID: <1@x>\r\nMIME-Version: 1.0\r\n";
    let nested = |levels: usize| {
        let open: String = (0..levels)
            .map(|level| format!("Content-Type: multipart/mixed; boundary=b{level}\r\n\r\n--b{level}\r\n"))
            .collect();
        format!("{head}{open}Content-Type: text/plain\r\n\r\nx\r\n")
    };
    let many = |count: usize, part: &str| {
        let parts: String = (0..count).map(|_| format!("--b\r\n{part}\r\n\r\nx\r\n")).collect();
        format!("{head}Content-Type: multipart/mixed; boundary=b\r\n\r\n{parts}--b--\r\n")
    };
    let mut mails = vec![
        nested(10),
        nested(1_000),
        nested(20_000),
        many(10_000, "Content-Type: text/plain"),
        many(1_000, "Content-Disposition: attachment; filename=\"../../etc/passwd\""),
        many(3, "Content-Type: message/rfc822"),
        format!("{head}{}\r\n\r\nbody", "X-Long: y\r\n ".repeat(50_000)),
        format!("{head}X: {}\r\n\r\nbody", "a".repeat(1 << 20)),
        format!("{head}To: {}\r\n\r\nbody", "<a@b>, ".repeat(50_000)),
        format!("{head}Subject: =?utf-8?B?{}?=\r\n\r\nbody", "4oCu".repeat(20_000)),
        format!("{head}Content-Type: text/plain; charset=\"\u{1b}[2J\"\r\n\r\nbody"),
        format!("{head}Content-Transfer-Encoding: base64\r\n\r\n{}", "=".repeat(100_000)),
        format!("{head}Content-Transfer-Encoding: quoted-printable\r\n\r\n{}", "=3D".repeat(100_000)),
        format!("{head}Content-Type: text/html\r\n\r\n{}", "<div>".repeat(100_000)),
        format!("{head}Content-Type: text/html\r\n\r\n{}", "&amp;".repeat(100_000)),
        format!("{head}Content-Type: multipart/mixed; boundary=\r\n\r\n--\r\n"),
        format!("{head}Content-Type: multipart/mixed\r\n\r\n--b\r\n"),
        "Received: x\r\n".repeat(20_000) + head + "\r\nbody",
        "\r\n\r\n\r\n".to_owned(),
        "From: \u{202e}\u{9b}2J\r\n\r\n\u{0}".to_owned(),
    ];
    mails.extend(corpus::TEXTS.iter().chain(corpus::FENCES).map(|text| format!("{head}X-Note: {text}\r\n\r\n{text}")));
    mails.into_iter().map(String::into_bytes).collect()
}

#[test]
fn no_mail_does_more_than_become_a_message() {
    let seeds = mails();
    let mut rng = Rng::new(18);
    let guarded = Guarded::new();
    let mut all = seeds.clone();
    all.extend((0..cases(30, 300)).map(|_| {
        let (one, other) = (rng.pick(&seeds[seeds.len() - 20..]).clone(), rng.pick(&seeds[seeds.len() - 20..]).clone());
        mutate(&mut rng, &one, &other)
    }));
    for mail in &all {
        let ran = guarded.desk.call(&["ingest", "email", "coder", "--attach"], &mut mail.as_slice(), None);
        assert!([0, 4].contains(&ran.code), "{:.200}: {:.2000}", String::from_utf8_lossy(mail), ran.err);
    }
    guarded.check();
    // Blobs have the names of their digests, whatever an attachment was called.
    for blob in fs::read_dir(guarded.desk.path(".poste/blobs")).unwrap() {
        let name = blob.unwrap().file_name().into_string().unwrap();
        assert!(name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit()), "{name}");
    }
}

#[test]
fn no_forged_webhook_is_stored() {
    let desk = Desk::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let secret = elsewhere.path().join("hook.secret");
    fs::File::create(&secret).unwrap().write_all(b"the key of the real sender").unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let times =
        [now.to_string(), (now - 3_600).to_string(), "0".to_owned(), "-1".to_owned(), "9".repeat(40), "now".to_owned()];
    let signatures = [
        "",
        "v1,",
        "v1",
        ",",
        "v1,AAAA",
        "v2,AAAA",
        "v1a,AAAA",
        "v1,AAAA v1,BBBB v1,CCCC",
        "v1,AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "v1,e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "v1,\u{1b}[2J",
        "none",
    ];
    let secret = format!("--secret-file={}", secret.display());
    for at in &times {
        for signature in signatures {
            let headers =
                [format!("--header=webhook-timestamp: {at}"), format!("--header=webhook-signature: {signature}")];
            let line = ["ingest", "webhook", "coder", &secret, "--header=webhook-id: evt", &headers[0], &headers[1]];
            desk.refuses_input(4, &line, &mut b"{\"title\":\"forged\"}".as_slice(), None);
        }
    }
}
