//! Tests what was written: starts the server as its entry says and runs the hooks as they are written, in a temporary
//! office.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AGENT, HOME, Invocation, Scope, Target, What, json, ours, programs, toml};
use crate::shell;
use poste_verbs::program::Program;

/// Timeout for one answer of a server, or for one hook.
const PATIENCE: Duration = Duration::from_secs(10);
/// Larger than any answer.
const ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// The tools every agent gets.
const TOOLS: [&str; 10] = [
    "send_message",
    "check_inbox",
    "read_message",
    "claim_work",
    "finish_work",
    "reply",
    "wait_for_mail",
    "context",
    "handoff",
    "office",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Works,
    /// It works once the user has confirmed it in the program.
    NeedsTrust,
    /// The program has no such feature.
    Unavailable,
    Fails,
}

/// One line of the proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub what: &'static str,
    pub state: State,
    pub note: Option<String>,
}

impl Finding {
    fn of(what: &'static str, tried: Result<(), String>, trust: Option<&str>) -> Self {
        match (tried, trust) {
            (Err(why), _) => Self { what, state: State::Fails, note: Some(why) },
            (Ok(()), Some(how)) => Self { what, state: State::NeedsTrust, note: Some(how.to_owned()) },
            (Ok(()), None) => Self { what, state: State::Works, note: None },
        }
    }
}

/// What a program would run, read back from its files.
#[derive(Debug, Default)]
pub struct Wiring {
    server: Option<Server>,
    /// Command lines, by their event.
    hooks: BTreeMap<String, String>,
    /// Why the program ignores what is there.
    server_off: Option<String>,
    hooks_off: Option<String>,
}

#[derive(Debug)]
struct Server {
    words: Vec<String>,
    environment: BTreeMap<String, String>,
}

impl Wiring {
    pub fn read(program: Program, targets: &[Target], poste: &Invocation) -> Self {
        let mut wiring = Self::default();
        for target in targets {
            let Ok(text) = std::fs::read_to_string(&target.path) else { continue };
            let text = text.trim_start_matches('\u{feff}');
            match &target.what {
                What::Json(edits) => {
                    let file = json::value(text).unwrap_or_default();
                    wiring.take_json(edits, &file);
                    wiring.take_switches(program, &target.path, &file);
                }
                What::Toml(edit) => {
                    let file = toml::value(text).unwrap_or_default();
                    wiring.take_server(&file, edit.group);
                    wiring.take_switches(program, &target.path, &file);
                }
                // The plugin runs the commands that are hooks in other programs.
                What::Sealed(wanted) if program == Program::OpenCode && text == wanted => {
                    let events = programs::events(program).iter();
                    wiring.hooks = events.map(|(_, word)| ((*word).to_owned(), poste.hook(word, program))).collect();
                }
                What::Sealed(_) if program == Program::OpenCode => {
                    wiring.hooks_off =
                        Some(format!("{} was changed by hand and was not tested", target.path.display()));
                }
                What::Whole(_) | What::Sealed(_) | What::Section(_) => {}
            }
        }
        wiring
    }

    /// Whether there is no entry of Poste's.
    pub fn is_empty(&self) -> bool {
        self.server.is_none() && self.hooks.is_empty()
    }

    /// The agent that the server's entry names.
    pub fn agent(&self) -> Option<&str> {
        self.server.as_ref()?.environment.get(AGENT).map(String::as_str)
    }

    /// The office that the server's entry names.
    pub fn office(&self) -> Option<&str> {
        self.server.as_ref()?.environment.get(HOME).map(String::as_str)
    }

    fn take_switches(&mut self, program: Program, path: &Path, file: &Value) {
        let name = path.display();
        if let Some(key) = programs::hooks_off(program, file) {
            self.hooks_off = Some(format!("{name} switches hooks off: {key}"));
        }
        if let Some(key) = programs::server_off(program, file) {
            self.server_off = Some(format!("{name} switches the server off: {key}"));
        }
    }

    fn take_json(&mut self, edits: &[json::Edit], file: &Value) {
        for edit in edits {
            if let json::Edit::Server { group, .. } = edit {
                self.take_server(file, group);
            }
        }
        let commands = ours::commands(file).into_iter();
        self.hooks.extend(commands.filter_map(|command| Some((ours::event(&command)?, command))));
    }

    fn take_server(&mut self, file: &Value, group: &str) {
        let Some(entry) = ours::server(file, group) else { return };
        let set = entry.get("env").or(entry.get("environment")).and_then(Value::as_object);
        let text = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let environment = set.into_iter().flatten().filter_map(text).collect();
        self.server = Some(Server { words: ours::server_words(entry), environment });
    }
}

/// Tests everything, and never in an office of the user's.
pub fn prove(program: Program, scope: Scope, wiring: &Wiring, poste: &Invocation, executable: &Path) -> Vec<Finding> {
    let trust = programs::trust(program, scope);
    let server = match &wiring.server_off {
        Some(why) => Err(why.clone()),
        None => wiring.server.as_ref().ok_or_else(|| "no server named poste in its settings".to_owned()),
    };
    let listed = Finding::of("listed", server.clone().map(|_| ()), trust);
    // A separate office for each test, so that they do not affect each other.
    let sandbox = || {
        let opened = Sandbox::open(executable, poste.agent.as_deref().unwrap_or("proof"));
        opened.map_err(|why| format!("cannot create a temporary office: {why}"))
    };
    let tools = server.and_then(|server| sandbox()?.tools(server));
    let hooks = |event: &str| match (&wiring.hooks_off, wiring.hooks.get(event)) {
        (Some(why), _) => Err(why.clone()),
        (None, Some(_)) => Ok(()),
        (None, None) => Err(format!("no hook runs `poste hook {event}`")),
    };
    let begins = || ["session-start", "prompt"].into_iter().try_for_each(hooks);
    let delivery = begins().and_then(|()| hooks("tool")).and_then(|()| sandbox()?.delivery(program, wiring));
    let stop = begins().and_then(|()| hooks("stop")).and_then(|()| sandbox()?.stop(program, wiring));
    let wake = match wiring.hooks.get("wait") {
        Some(waiter) => {
            let tried = begins().and_then(|()| sandbox()?.wake(program, wiring, waiter));
            Finding::of("idle wake", tried, trust)
        }
        None if program == Program::ClaudeCode => Finding::of("idle wake", hooks("wait"), None),
        None => Finding { what: "idle wake", state: State::Unavailable, note: Some(other_wake(program).to_owned()) },
    };
    vec![
        listed,
        Finding::of("tools", tools, None),
        Finding::of("mid-turn delivery", delivery, trust),
        Finding::of("stop guard", stop, trust),
        wake,
    ]
}

fn other_wake(program: Program) -> &'static str {
    match program {
        Program::Codex => "no hook can; `poste wake` tries `codex queue` while a session lives (not tried here)",
        Program::OpenCode => "no hook can; `poste wake` tries its server while a session lives (not tried here)",
        Program::ClaudeCode | Program::Gemini | Program::Cursor => {
            "no hook can; `poste wake` tries the tmux pane it runs in (not tried here)"
        }
    }
}

/// A temporary office with an agent and a sender.
#[derive(Debug)]
struct Sandbox {
    folder: tempfile::TempDir,
    executable: PathBuf,
    agent: String,
}

const SENDER: &str = "proof-sender";
const SESSION: &str = "5e70b000-0000-4000-8000-000000000000";

impl Sandbox {
    fn open(executable: &Path, agent: &str) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("poste-proof-").tempdir().map_err(|error| error.to_string())?;
        let sandbox = Self { folder, executable: executable.to_owned(), agent: agent.to_owned() };
        for name in ["home", "project"] {
            std::fs::create_dir(sandbox.folder.path().join(name)).map_err(|error| error.to_string())?;
        }
        // Poste takes a folder for its state only if nobody else can open it.
        let state = std::fs::DirBuilder::new().mode(0o700).create(sandbox.state());
        state.map_err(|error| error.to_string())?;
        sandbox.poste(&["init"])?;
        sandbox.poste(&["register", agent])?;
        sandbox.poste(&["register", SENDER])?;
        Ok(sandbox)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn office(&self) -> PathBuf {
        self.project().join(".poste")
    }

    /// A command with a clean environment: the identity of this process must not get into the proof.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.project()).env_clear().env("HOME", self.folder.path().join("home"));
        command.env("XDG_STATE_HOME", self.state());
        for name in ["PATH", "TMPDIR", "LANG"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env("POSTE_HOME", self.office()).process_group(0);
        command
    }

    /// Runs a command of this program, for what the test itself does.
    fn poste(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut command = self.command(&self.executable);
        command.args(arguments).arg("--json");
        let ran = run(command, "").map_err(|error| error.to_string())?;
        match ran.code {
            Some(0) => Ok(serde_json::from_str(&ran.out).unwrap_or_default()),
            _ => Err(format!("poste {}: {}", arguments.join(" "), ran.why())),
        }
    }

    /// Sends mail to the agent; the word identifies it in what is printed later.
    fn write(&self, word: &str) -> Result<Value, String> {
        let subject = format!("Proof {word}");
        self.poste(&["send", &self.agent, &subject, "Is this seen?", "--type", "alert", "--as", SENDER])
    }

    fn tools(&self, server: &Server) -> Result<(), String> {
        let [program, arguments @ ..] = server.words.as_slice() else { return Err("its entry has no command".into()) };
        let mut command = self.command(Path::new(program));
        // Other variables of the entry could make anything run, and a cloned project must not decide that.
        command.args(without_identity(arguments));
        command.env("POSTE_HOME", self.office()).env("POSTE_AGENT", &self.agent);
        let mut client = Client::start(command).map_err(|error| format!("{program} does not start: {error}"))?;
        let hello = json!({
            "protocolVersion": "2025-06-18",
            "capabilities": {},
            "clientInfo": { "name": "poste setup", "version": env!("CARGO_PKG_VERSION") },
        });
        client.ask("initialize", &hello)?;
        client.tell("notifications/initialized")?;
        let listed = client.ask("tools/list", &json!({}))?;
        let names: Vec<&str> =
            listed["tools"].as_array().into_iter().flatten().filter_map(|tool| tool["name"].as_str()).collect();
        if let Some(missing) = TOOLS.iter().find(|name| !names.contains(name)) {
            return Err(format!("the server lists no tool {missing}"));
        }
        let word = "round-trip";
        client.call(
            "send_message",
            &json!({ "to": self.agent, "subject": format!("Proof {word}"), "body": "To myself." }),
        )?;
        let inbox = client.call("check_inbox", &json!({}))?;
        match inbox.to_string().contains(word) {
            true => Ok(()),
            false => Err("a message sent with send_message is not in check_inbox".into()),
        }
    }

    fn hook(&self, program: Program, event: &str, command: &str) -> Result<Ran, String> {
        let ran = run(self.hook_command(command), &self.input(program, event)).map_err(|error| error.to_string())?;
        match ran.code {
            Some(0) => Ok(ran),
            _ => Err(format!("the hook {event} failed: {}", ran.why())),
        }
    }

    /// Runs the line in a shell, as a program does, but with the temporary office in place of one that it names.
    fn hook_command(&self, line: &str) -> Command {
        let mut command = self.command(Path::new("/bin/sh"));
        command.arg("-c").arg(with_office(line, &self.office())).env("POSTE_AGENT", &self.agent);
        // Claude Code sets this when a person is at the terminal; only then does the waiter wait.
        command.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
        command
    }

    /// Input for hooks, with the fields of all programs.
    fn input(&self, program: Program, event: &str) -> String {
        let native =
            programs::events(program).iter().find(|(_, word)| *word == event).map_or("Stop", |(native, _)| native);
        let project = self.project();
        json!({
            "session_id": SESSION,
            "conversation_id": SESSION,
            "hook_event_name": native,
            "cwd": project,
            "workspace_roots": [project],
            "transcript_path": self.folder.path().join("home/transcript.jsonl"),
            "source": "startup",
            "prompt": "Is there mail?",
            "tool_name": "Bash",
            "tool_input": { "command": "true" },
            "tool_response": { "stdout": "" },
            "stop_hook_active": false,
            "loop_count": 0,
            "reason": "exit",
        })
        .to_string()
    }

    /// Begins a session and its first turn.
    fn begin(&self, program: Program, wiring: &Wiring) -> Result<(), String> {
        self.hook(program, "session-start", &wiring.hooks["session-start"])?;
        self.hook(program, "prompt", &wiring.hooks["prompt"])?;
        Ok(())
    }

    fn delivery(&self, program: Program, wiring: &Wiring) -> Result<(), String> {
        self.begin(program, wiring)?;
        let word = "mid-turn";
        self.write(word)?;
        let said = self.hook(program, "tool", &wiring.hooks["tool"])?;
        match said.out.contains(word) {
            true => Ok(()),
            false => Err(format!("mail that came mid-turn was not shown: the hook said {:?}", short(&said.out))),
        }
    }

    fn stop(&self, program: Program, wiring: &Wiring) -> Result<(), String> {
        self.begin(program, wiring)?;
        let sent = self.write("open-claim")?;
        let number = sent["number"].to_string();
        self.poste(&["claim", &number, "--as", &self.agent, "--session", SESSION])?;
        let said = self.hook(program, "stop", &wiring.hooks["stop"])?;
        let answer: Value = serde_json::from_str(&said.out).unwrap_or_default();
        let says = |key: &str| answer[key].as_str().is_some_and(|text| !text.is_empty());
        let holds =
            matches!(answer["decision"].as_str(), Some("block" | "deny")) || says("followup_message") || says("block");
        if !holds {
            return Err(format!("a session with claimed work may stop: the hook said {:?}", short(&said.out)));
        }
        self.poste(&["release", &number, "--as", &self.agent, "--session", SESSION])?;
        match wiring.hooks.get("session-end") {
            Some(end) => self.hook(program, "session-end", end).map(|_| ()),
            None => Ok(()),
        }
    }

    fn wake(&self, program: Program, wiring: &Wiring, waiter: &str) -> Result<(), String> {
        self.begin(program, wiring)?;
        let mut start = self.hook_command(waiter);
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = start.spawn().map_err(|error| error.to_string())?;
        let mut running = Running::new(child, &self.input(program, "stop")).map_err(|error| error.to_string())?;
        // It must wait: exit code 2 may also mean that its command line is invalid.
        std::thread::sleep(Duration::from_millis(200));
        if running.is_over() {
            let ran = running.end(PATIENCE).map_err(|error| error.to_string())?;
            return Err(format!("the waiter ended before mail came: {}", ran.why()));
        }
        let word = "wake-up";
        let written = self.write(word);
        let ran = running.end(PATIENCE).map_err(|error| error.to_string())?;
        written?;
        match ran.code {
            Some(2) if ran.err.contains(word) || ran.out.contains(word) => Ok(()),
            Some(2) => Err(format!("the waiter woke the session but did not say why: {:?}", short(&ran.err))),
            _ => Err(format!("the waiter did not wake the session: {}", ran.why())),
        }
    }
}

/// Without arguments that name another office, agent or session.
fn without_identity(arguments: &[String]) -> Vec<&String> {
    const ELSEWHERE: [&str; 3] = ["--office", "--as", "--session"];
    let mut rest = arguments.iter();
    let mut kept = Vec::new();
    while let Some(argument) = rest.next() {
        match ELSEWHERE.contains(&argument.split('=').next().unwrap_or_default()) {
            false => kept.push(argument),
            true if argument.contains('=') => {}
            true => drop(rest.next()),
        }
    }
    kept
}

/// Replaces the office in a command line.
fn with_office(line: &str, office: &Path) -> String {
    let Ok(words) = shell_words::split(line) else { return line.to_owned() };
    let mut leading = true;
    let words = words.into_iter().map(|word| {
        leading &= shell::is_assignment(&word);
        match word.split_once('=') {
            Some(("POSTE_HOME", _)) if leading => format!("POSTE_HOME={}", shell::word(&office.to_string_lossy())),
            Some((name, value)) if leading => format!("{name}={}", shell::word(value)),
            _ => shell::word(&word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// How a process ended.
#[derive(Debug)]
struct Ran {
    /// `None`: it timed out and was killed.
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn why(&self) -> String {
        let said = if self.err.trim().is_empty() { &self.out } else { &self.err };
        let said = short(said);
        match self.code {
            None => format!("timed out after {} s", PATIENCE.as_secs()),
            Some(code) if said.is_empty() => format!("exit code {code}"),
            Some(code) => format!("exit code {code}, {said:?}"),
        }
    }
}

/// The first line of what a process printed.
fn short(text: &str) -> String {
    const CHARS_MAX: usize = 160;
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match line.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn run(mut command: Command, input: &str) -> io::Result<Ran> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running::new(command.spawn()?, input)?.end(PATIENCE)
}

/// A process with its group, so that everything it started ends with it.
#[derive(Debug)]
struct Running {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    fn new(mut child: Child, input: &str) -> io::Result<Self> {
        let missing = || io::Error::other("a pipe is missing");
        let out = collect(child.stdout.take().ok_or_else(missing)?);
        let err = collect(child.stderr.take().ok_or_else(missing)?);
        let mut stdin = child.stdin.take().ok_or_else(missing)?;
        let input = input.to_owned();
        // A process may close the pipe without reading its input.
        std::thread::spawn(move || stdin.write_all(input.as_bytes()));
        Ok(Self { child, out, err })
    }

    fn is_over(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    fn end(mut self, patience: Duration) -> io::Result<Ran> {
        let status = wait(&mut self.child, patience)?;
        // Processes it left running hold its pipes.
        kill_group(&self.child);
        let said = |from: &Receiver<String>| from.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let code = status.map(|status| status.code().unwrap_or(128));
        Ok(Ran { code, out: said(&self.out), err: said(&self.err) })
    }
}

fn collect(from: impl Read + Send + 'static) -> Receiver<String> {
    let (to, received) = channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
        to.send(String::from_utf8_lossy(&bytes).into_owned())
    });
    received
}

/// `None`: it timed out and was killed.
fn wait(child: &mut Child, patience: Duration) -> io::Result<Option<std::process::ExitStatus>> {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= until {
            kill_group(child);
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// The client of an MCP server: one JSON message per line.
#[derive(Debug)]
struct Client {
    child: Child,
    lines: Receiver<String>,
    err: Receiver<String>,
    asked: u64,
}

impl Client {
    fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe is missing");
        let out = child.stdout.take().ok_or_else(missing)?;
        let err = collect(child.stderr.take().ok_or_else(missing)?);
        let (to, lines) = channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            loop {
                let mut line = String::new();
                match out.by_ref().take(ANSWER_BYTES_MAX).read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) if to.send(line).is_err() => return,
                    Ok(_) => {}
                }
            }
        });
        Ok(Self { child, lines, err, asked: 0 })
    }

    fn send(&mut self, message: &Value) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write to the server: {error}");
        let stdin = self.child.stdin.as_mut().ok_or("cannot write to the server")?;
        writeln!(stdin, "{message}").and_then(|()| stdin.flush()).map_err(failed)
    }

    fn tell(&mut self, method: &str) -> Result<(), String> {
        self.send(&json!({ "jsonrpc": "2.0", "method": method }))
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.asked += 1;
        let id = self.asked;
        let asked = self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }));
        let until = Instant::now() + PATIENCE;
        loop {
            let line = match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("the server did not answer {method} within {} s", PATIENCE.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let said = short(&self.err.recv_timeout(Duration::from_secs(1)).unwrap_or_default());
                    let said = if said.is_empty() { String::new() } else { format!(": {said:?}") };
                    return Err(format!("the server exited at {method}{said}"));
                }
            };
            let Ok(answer) = serde_json::from_str::<Value>(&line) else {
                return Err(format!("the server's answer to {method} is not valid JSON: {:?}", short(&line)));
            };
            // Notifications are not the answer.
            if answer["id"] != id {
                continue;
            }
            asked?;
            return match answer.get("error") {
                Some(error) => {
                    Err(format!("the server refused {method}: {:?}", short(error["message"].as_str().unwrap_or(""))))
                }
                None => Ok(answer["result"].clone()),
            };
        }
    }

    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        match answer["isError"] == true {
            false => Ok(answer),
            true => {
                let text = answer["content"][0]["text"].as_str().unwrap_or_default();
                Err(format!("the tool {tool} failed: {:?}", short(text)))
            }
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A server ends when its stdin is closed.
        drop(self.child.stdin.take());
        let _ = wait(&mut self.child, Duration::from_secs(2));
        kill_group(&self.child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_are_tested_in_the_temporary_office() {
        let office = Path::new("/tmp/a b/.poste");
        let line = "POSTE_AGENT=ann POSTE_HOME='/home/ann/x y/.poste' '/opt/my poste' hook stop --program codex";
        let wanted = "POSTE_AGENT=ann POSTE_HOME='/tmp/a b/.poste' '/opt/my poste' hook stop --program codex";
        assert_eq!(with_office(line, office), wanted);
        let plain = "poste hook stop --program codex";
        assert_eq!(with_office(plain, office), plain);
    }
}
