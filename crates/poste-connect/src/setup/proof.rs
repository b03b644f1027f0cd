//! Tests what was written: checks that the entries say what Poste writes, and runs the server and the hooks with this
//! executable in a temporary office. Nothing that a file names is run.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use poste_core::text::{Name, count};
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{AGENT, HOME, Invocation, Scope, Target, What, files, json, ours, programs, toml};
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

/// What a program would run, read back from its files. It is compared with what Poste writes, and never run: the files
/// of a project come with it.
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

impl Server {
    /// Whether it starts this program, as Poste writes it.
    fn check(&self, poste: &Invocation) -> Result<(), String> {
        match self.words.first() {
            Some(program) if *program == poste.poste => Ok(()),
            Some(program) => Err(format!("its entry starts {program:?}, not {:?}; it was not run", poste.poste)),
            None => Err("its entry has no command".to_owned()),
        }
    }

    /// What was added to the entry by hand. It stays, but the test does without it.
    fn untested(&self) -> Option<String> {
        let mut added = Vec::new();
        if self.words.len() > 2 {
            added.push(count(self.words.len() - 2, "argument"));
        }
        let variables: Vec<String> = self
            .environment
            .keys()
            .filter(|name| ![AGENT, HOME].contains(&name.as_str()))
            .map(|name| quoted(name))
            .collect();
        if !variables.is_empty() {
            added.push(format!("the variables {}", variables.join(", ")));
        }
        (!added.is_empty()).then(|| format!("not tested: {} in its entry", added.join(" and ")))
    }
}

impl Wiring {
    pub fn read(program: Program, targets: &[Target], poste: &Invocation) -> Self {
        let mut wiring = Self::default();
        for target in targets {
            let Ok(Some(text)) = files::text(&target.path) else { continue };
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
    pub fn agent(&self) -> Option<Name> {
        self.server.as_ref()?.environment.get(AGENT)?.parse().ok()
    }

    /// The office that the server's entry names.
    pub fn office(&self) -> Option<&str> {
        self.server.as_ref()?.environment.get(HOME).map(String::as_str)
    }

    /// Whether the program runs Poste at this event, with the line that Poste writes.
    fn hook(&self, event: &str, program: Program, poste: &Invocation) -> Result<(), String> {
        let wanted = poste.hook(event, program);
        match (&self.hooks_off, self.hooks.get(event)) {
            (Some(why), _) => Err(why.clone()),
            (None, Some(line)) if *line == wanted => Ok(()),
            (None, Some(line)) => Err(format!("its hook runs {}, not {wanted:?}; it was not run", quoted(line))),
            (None, None) => Err(format!("no hook runs `poste hook {event}`")),
        }
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

/// Tests this executable with the arguments that Poste writes, and never in an office of the user's. Of the files it
/// only checks that they say the same.
pub fn prove(program: Program, scope: Scope, wiring: &Wiring, poste: &Invocation, executable: &Path) -> Vec<Finding> {
    let trust = programs::trust(program, scope);
    let server = match &wiring.server_off {
        Some(why) => Err(why.clone()),
        None => wiring.server.as_ref().ok_or_else(|| "no server named poste in its settings".to_owned()),
    };
    let server = server.and_then(|server| server.check(poste).map(|()| server));
    let mut listed = Finding::of("listed", server.clone().map(|_| ()), trust);
    if let Some(untested) = server.as_ref().ok().and_then(|server| server.untested()) {
        listed.note = Some(listed.note.map_or_else(|| untested.clone(), |note| format!("{note}; {untested}")));
    }
    // A separate office for each test, so that they do not affect each other.
    let sandbox =
        || Sandbox::open(executable, program).map_err(|why| format!("cannot create a temporary office: {why}"));
    let tools = server.and_then(|_| sandbox()?.tools());
    let hooks = |events: &[&str]| events.iter().try_for_each(|event| wiring.hook(event, program, poste));
    let delivery = hooks(&["session-start", "prompt", "tool"]).and_then(|()| sandbox()?.delivery());
    let stop = hooks(&["session-start", "prompt", "stop"]).and_then(|()| {
        let ends = programs::events(program).iter().any(|(_, word)| *word == "session-end");
        sandbox()?.stop(ends)
    });
    let wake = match program {
        Program::ClaudeCode => {
            let tried = hooks(&["session-start", "prompt", "wait"]).and_then(|()| sandbox()?.wake());
            Finding::of("idle wake", tried, trust)
        }
        _ => Finding { what: "idle wake", state: State::Unavailable, note: Some(other_wake(program).to_owned()) },
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
    program: Program,
}

const AGENT_NAME: &str = "proof";
const SENDER: &str = "proof-sender";
const SESSION: &str = "5e70b000-0000-4000-8000-000000000000";

impl Sandbox {
    fn open(executable: &Path, program: Program) -> Result<Self, String> {
        let folder = tempfile::Builder::new().prefix("poste-proof-").tempdir().map_err(|error| error.to_string())?;
        let sandbox = Self { folder, executable: executable.to_owned(), program };
        for name in ["home", "state", "project"] {
            let made = DirBuilder::new().mode(0o700).create(sandbox.folder.path().join(name));
            made.map_err(|error| error.to_string())?;
        }
        sandbox.poste(&["init"])?;
        sandbox.poste(&["register", AGENT_NAME])?;
        sandbox.poste(&["register", SENDER])?;
        Ok(sandbox)
    }

    fn project(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    fn office(&self) -> PathBuf {
        self.project().join(".poste")
    }

    /// This executable, with a clean environment: the identity of this process must not get into the proof.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(self.project()).env_clear();
        command.env("HOME", self.folder.path().join("home")).env("XDG_STATE_HOME", self.folder.path().join("state"));
        for name in ["PATH", "TMPDIR", "LANG"] {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.env(HOME, self.office()).process_group(0);
        command
    }

    /// Runs a command of this program, for what the test itself does.
    fn poste(&self, arguments: &[&str]) -> Result<Value, String> {
        let mut command = self.command();
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
        self.poste(&["send", AGENT_NAME, &subject, "Is this seen?", "--type", "alert", "--as", SENDER])
    }

    fn tools(&self) -> Result<(), String> {
        let mut command = self.command();
        command.arg("mcp").env(AGENT, AGENT_NAME);
        let mut client = Client::start(command).map_err(|error| format!("the server does not start: {error}"))?;
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
            &json!({ "to": AGENT_NAME, "subject": format!("Proof {word}"), "body": "To myself." }),
        )?;
        let inbox = client.call("check_inbox", &json!({}))?;
        match inbox.to_string().contains(word) {
            true => Ok(()),
            false => Err("a message sent with send_message is not in check_inbox".into()),
        }
    }

    fn hook(&self, event: &str) -> Result<Ran, String> {
        let ran = run(self.hook_command(event), &self.input(event)).map_err(|error| error.to_string())?;
        match ran.code {
            Some(0) => Ok(ran),
            _ => Err(format!("the hook {event} failed: {}", ran.why())),
        }
    }

    fn hook_command(&self, event: &str) -> Command {
        let mut command = self.command();
        command.args(["hook", event, "--program", self.program.word()]).env(AGENT, AGENT_NAME);
        // Claude Code sets this when a person is at the terminal; only then does the waiter wait.
        command.env("CLAUDE_CODE_SESSION_ATTENDED", "1");
        command
    }

    /// Input for hooks, with the fields of all programs.
    fn input(&self, event: &str) -> String {
        let native =
            programs::events(self.program).iter().find(|(_, word)| *word == event).map_or("Stop", |(native, _)| native);
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
    fn begin(&self) -> Result<(), String> {
        self.hook("session-start")?;
        self.hook("prompt").map(|_| ())
    }

    fn delivery(&self) -> Result<(), String> {
        self.begin()?;
        let word = "mid-turn";
        self.write(word)?;
        let said = self.hook("tool")?;
        match said.out.contains(word) {
            true => Ok(()),
            false => Err(format!("mail that came mid-turn was not shown: the hook said {:?}", short(&said.out))),
        }
    }

    fn stop(&self, ends: bool) -> Result<(), String> {
        self.begin()?;
        let sent = self.write("open-claim")?;
        let number = sent["number"].to_string();
        self.poste(&["claim", &number, "--as", AGENT_NAME, "--session", SESSION])?;
        let said = self.hook("stop")?;
        let answer: Value = serde_json::from_str(&said.out).unwrap_or_default();
        let says = |key: &str| answer[key].as_str().is_some_and(|text| !text.is_empty());
        let holds =
            matches!(answer["decision"].as_str(), Some("block" | "deny")) || says("followup_message") || says("block");
        if !holds {
            return Err(format!("a session with claimed work may stop: the hook said {:?}", short(&said.out)));
        }
        self.poste(&["release", &number, "--as", AGENT_NAME, "--session", SESSION])?;
        match ends {
            true => self.hook("session-end").map(|_| ()),
            false => Ok(()),
        }
    }

    fn wake(&self) -> Result<(), String> {
        self.begin()?;
        let mut start = self.hook_command("wait");
        start.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = start.spawn().map_err(|error| error.to_string())?;
        let mut running = Running::new(child, &self.input("stop")).map_err(|error| error.to_string())?;
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

/// Text from a file of the project, in one line without control characters.
fn quoted(text: &str) -> String {
    format!("{:?}", short(text))
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
