//! An MCP client that sends exactly what a test asks for.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than any answer takes, even on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const PROGRESS: &str = "notifications/progress";

/// A folder with an office.
pub(crate) struct Desk {
    pub folder: tempfile::TempDir,
}

impl Desk {
    pub(crate) fn new(agents: &[&str]) -> Self {
        let desk = Self { folder: tempfile::tempdir().unwrap() };
        desk.run(&["init"]);
        for agent in agents {
            desk.run(&["register", agent, "--role", "worker"]);
        }
        desk
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        poste_testkit::signals::ignored_by_nobody_started();
        let mut command = Command::new(env!("CARGO_BIN_EXE_poste"));
        command.args(args).current_dir(self.folder.path()).env_clear().env("HOME", self.folder.path().join("home"));
        // It counts on the command line only: no tool speaks as a person.
        command.env("POSTE_TEST_PERSON", "1");
        command.env("XDG_STATE_HOME", poste_testkit::state::home());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> String {
        let output = self.command(args).stdin(Stdio::null()).output().unwrap();
        let talk = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "poste {args:?} ended with {}: {talk}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn json(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.run(&[&["--json"], args].concat())).unwrap()
    }

    pub(crate) fn server(&self, agent: Option<&str>, args: &[&str], revision: Revision) -> Client {
        self.server_with(&[], agent, args, revision)
    }

    /// As [`Self::server`], with these variables in its environment.
    pub(crate) fn server_with(
        &self,
        environment: &[(&str, &str)],
        agent: Option<&str>,
        args: &[&str],
        revision: Revision,
    ) -> Client {
        let mut client = self.start(environment, agent, args);
        client.revision = revision;
        client.greet();
        client
    }

    /// A server before the handshake.
    pub(crate) fn mute_server(&self, agent: Option<&str>, args: &[&str]) -> Client {
        self.start(&[], agent, args)
    }

    fn start(&self, environment: &[(&str, &str)], agent: Option<&str>, args: &[&str]) -> Client {
        let mut command = self.command(&[&["mcp"], args].concat());
        command.envs(environment.iter().copied());
        if let Some(agent) = agent {
            command.env("POSTE_AGENT", agent).env("POSTE_SESSION", format!("session-of-{agent}"));
        }
        Client::start(command)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Changes the database directly.
    pub(crate) fn damage(&self, sql: &str) {
        let database = rusqlite::Connection::open(self.folder.path().join(".poste/office.db")).unwrap();
        assert!(database.execute(sql, []).unwrap() > 0, "{sql} changed nothing");
    }

    /// The state of a message in an agent's inbox.
    pub(crate) fn state(&self, agent: &str, number: u64) -> String {
        let page = self.json(&["inbox", "--as", agent, "--all"]);
        let rows = page["messages"].as_array().unwrap();
        let row = rows.iter().find(|row| row["number"] == number).expect("the message");
        row["state"].as_str().unwrap().to_owned()
    }

    /// Whether a message is marked as shown to an agent.
    pub(crate) fn is_shown(&self, agent: &str, number: u64) -> bool {
        let page = self.json(&["inbox", "--as", agent, "--all"]);
        let rows = page["messages"].as_array().unwrap();
        rows.iter().find(|row| row["number"] == number).expect("the message")["shown"] == true
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Revision {
    Handshake,
    Stateless,
}

pub(crate) const BOTH: [Revision; 2] = [Revision::Handshake, Revision::Stateless];

pub(crate) struct Client {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    revision: Revision,
    next_id: i64,
    /// Messages that are not the awaited answer to a request.
    pub notifications: Vec<Value>,
    pub greeting: Value,
}

impl Client {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let (sender, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stdin = child.stdin.take();
        let revision = Revision::Handshake;
        Self { child, stdin, lines, revision, next_id: 0, notifications: Vec::new(), greeting: Value::Null }
    }

    pub(crate) fn greet(&mut self) {
        self.greeting = match self.revision {
            Revision::Handshake => {
                let params = json!({
                    "protocolVersion": "2025-06-18",
                    "capabilities": {},
                    "clientInfo": { "name": "test", "version": "1" },
                });
                let answer = self.request("initialize", params);
                self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
                answer
            }
            Revision::Stateless => self.request("server/discover", json!({})),
        };
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes());
    }

    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    /// Sends a request without waiting for the answer.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> i64 {
        self.next_id += 1;
        if self.revision == Revision::Stateless {
            let mut meta = params.get("_meta").cloned().unwrap_or_else(|| json!({}));
            meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
            meta["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            params["_meta"] = meta;
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params }));
        self.next_id
    }

    /// Calls `wait_for_mail` and returns once the server waits, which its first progress notification shows.
    pub(crate) fn begin_waiting(&mut self, seconds: u64) -> i64 {
        let arguments = json!({ "seconds": seconds });
        let params = json!({ "name": "wait_for_mail", "arguments": arguments, "_meta": { "progressToken": "p" } });
        let id = self.begin("tools/call", params);
        let progress = self.notification(PROGRESS, PATIENCE).expect("a progress notification");
        assert!(progress["params"]["progress"].as_f64().unwrap() < 1.0, "{progress}");
        id
    }

    /// The server's next message, if one arrives in time.
    pub(crate) fn next(&mut self, patience: Duration) -> Option<Value> {
        match self.lines.recv_timeout(patience) {
            Ok(line) => Some(serde_json::from_str(&line).expect("the server writes nothing but messages")),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the server has exited"),
        }
    }

    /// The whole answer to a request.
    pub(crate) fn answer(&mut self, id: i64) -> Value {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let message = self.next(left).expect("an answer in time");
            if message["id"] == id {
                return message;
            }
            self.notifications.push(message);
        }
    }

    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    pub(crate) fn error(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let answer = self.answer(id);
        answer.get("error").unwrap_or_else(|| panic!("{method} succeeded: {answer}")).clone()
    }

    /// Calls a tool and returns its result, whether it failed or not.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))
    }

    /// Calls a tool, expects success and returns its text.
    pub(crate) fn tool(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_ne!(result["isError"], true, "{tool}: {result}");
        text(&result)
    }

    /// Calls a tool, expects failure and returns its text.
    pub(crate) fn refused(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{tool}: {result}");
        text(&result)
    }

    pub(crate) fn notification(&mut self, method: &str, patience: Duration) -> Option<Value> {
        if let Some(at) = self.notifications.iter().position(|message| message["method"] == method) {
            return Some(self.notifications.remove(at));
        }
        let deadline = Instant::now() + patience;
        loop {
            let message = self.next(deadline.saturating_duration_since(Instant::now()))?;
            if message["method"] == method {
                return Some(message);
            }
            self.notifications.push(message);
        }
    }

    /// Closes stdin and waits for the server to exit.
    pub(crate) fn hang_up(mut self) -> std::process::ExitStatus {
        drop(self.stdin.take());
        self.ended()
    }

    pub(crate) fn ended(&mut self) -> std::process::ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "the server did not exit");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn text(result: &Value) -> String {
    result["content"][0]["text"].as_str().unwrap().to_owned()
}
