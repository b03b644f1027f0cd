//! An MCP server and its client.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::scene::Scene;
use crate::common::{Reaped, SOON};

pub(super) struct Server {
    stdin: ChildStdin,
    lines: Receiver<String>,
    calls: u64,
    _process: Reaped,
}

impl Server {
    /// Starts a server as an agent and completes the handshake.
    pub(super) fn start(scene: &Scene, agent: &str, args: &[&str]) -> Self {
        let mut command = scene.command(&[&["mcp"], args].concat());
        command.env("POSTE_AGENT", agent).env("POSTE_SESSION", format!("session-of-{agent}"));
        command.stdin(Stdio::piped()).stderr(Stdio::inherit());
        let mut process = command.spawn().expect("the server starts");
        let stdin = process.stdin.take().expect("a pipe");
        let stdout = BufReader::new(process.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut server = Self { stdin, lines, calls: 0, _process: Reaped(process) };
        let client = json!({ "name": "test", "version": "1" });
        let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client });
        server.request("initialize", &hello);
        server.write(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn write(&mut self, message: &Value) {
        writeln!(self.stdin, "{message}").expect("it reads");
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.calls += 1;
        self.write(&json!({ "jsonrpc": "2.0", "id": self.calls, "method": method, "params": params }));
        loop {
            let line = self.lines.recv_timeout(SOON).expect("an answer in time");
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == self.calls {
                return message["result"].clone();
            }
        }
    }

    pub(super) fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    /// Whether it has sent this notification since the last call of this function.
    pub(super) fn has_notified(&mut self, method: &str) -> bool {
        let mut lines = self.lines.try_iter();
        lines.any(|line| serde_json::from_str::<Value>(&line).is_ok_and(|message| message["method"] == method))
    }
}
