//! A tool server notifies its clients of changes to the resources they watch.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use poste_connect::mcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ServerCapabilities, ServerConfig, Tool,
};
use poste_connect::mcp::{Answered, Call, ErrorData, Notices, Table, serve_stdio};
use serde_json::{Value, json};

/// A table that sends many notifications for each subscription, faster than a client reads.
struct Bursts {
    watched: Mutex<Vec<String>>,
    /// Whether there was one: it may come before the server listens to a subscription that it has acknowledged.
    was: AtomicBool,
}

impl Table for Bursts {
    fn config(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_resources().enable_resources_subscribe();
        ServerConfig::new(capabilities.build())
    }

    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call(&self, _: CallToolRequestParams, call: &Call) -> Result<Answered<CallToolResponse>, ErrorData> {
        self.was.store(true, Ordering::SeqCst);
        for _ in 0..3 {
            let watched = self.watched.lock().unwrap().clone();
            watched.into_iter().for_each(|uri| call.notices().updated(uri));
        }
        Ok(CallToolResponse::from(CallToolResult::success(Vec::new())).into())
    }

    fn can_watch(&self, uri: &str) -> bool {
        uri.starts_with("test://")
    }

    fn begin_watch(&self, uris: &[String]) {
        self.watched.lock().unwrap().extend(uris.iter().cloned());
    }

    fn has_changed(&self, _: &str) -> bool {
        self.was.load(Ordering::SeqCst)
    }

    fn end_watch(&self, uri: &str) {
        self.watched.lock().unwrap().retain(|watched| watched != uri);
    }
}

/// A client of a server in this process.
struct Line {
    to: std::os::unix::net::UnixStream,
    from: std::sync::mpsc::Receiver<Value>,
}

impl Line {
    fn new() -> Self {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let output = theirs.try_clone().unwrap();
        let table = Bursts { watched: Mutex::default(), was: AtomicBool::new(false) };
        std::thread::spawn(move || serve_stdio(table, BufReader::new(theirs), output));
        let (sender, from) = std::sync::mpsc::channel();
        let lines = BufReader::new(ours.try_clone().unwrap()).lines().map_while(Result::ok);
        std::thread::spawn(move || {
            lines.map(|line| serde_json::from_str(&line).unwrap()).try_for_each(|line| sender.send(line))
        });
        Self { to: ours, from }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.to, "{message}").unwrap();
    }

    fn until(&self, mut is_it: impl FnMut(&Value) -> bool) {
        while !is_it(&self.from.recv_timeout(Duration::from_secs(20)).expect("the message arrives in time")) {}
    }

    /// Counts the notifications of each resource: at least this many, and then until none comes any more. The wait for
    /// the first ones is long, for busy machines. A server that never stops fails the test.
    fn told(&self, at_least: usize) -> BTreeMap<String, usize> {
        let (mut told, mut count) = (BTreeMap::new(), 0);
        let patience = |count| if count < at_least { Duration::from_secs(30) } else { Duration::from_millis(700) };
        while let Ok(message) = self.from.recv_timeout(patience(count)) {
            if let Some(uri) = message["params"]["uri"].as_str() {
                *told.entry(uri.to_owned()).or_default() += 1;
                count += 1;
            }
            assert!(count < 20_000, "the notifications never stop");
        }
        told
    }
}

/// More than the server keeps for a slow client.
const URIS: usize = Notices::KEPT_MAX + 150;

fn uri(number: usize) -> String {
    format!("test://{number}")
}

#[test]
fn whoever_cannot_keep_up_is_told_of_everything_and_then_left_in_peace() {
    let mut line = Line::new();
    let client =
        json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    line.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client }));
    line.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    for number in 0..URIS {
        let params = json!({ "uri": uri(number) });
        let id = 10 + number;
        line.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "resources/subscribe", "params": params }));
        line.until(|message| message["id"] == id);
    }
    let params = json!({ "uri": "other://1" });
    line.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": params }));
    line.until(|message| message["id"] == 2 && message["error"].is_object());
    line.send(&json!({ "jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": { "name": "burst" } }));
    assert_eq!(line.told(URIS).len(), URIS);
    // A resource without subscribers is no longer watched.
    for number in 0..URIS - 1 {
        let params = json!({ "uri": uri(number) });
        let id = 1_000 + number;
        line.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "resources/unsubscribe", "params": params }));
        line.until(|message| message["id"] == id);
    }
    line.send(&json!({ "jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": { "name": "burst" } }));
    assert_eq!(line.told(3), BTreeMap::from([(uri(URIS - 1), 3)]));
}

#[test]
fn a_listener_that_cannot_keep_up_is_told_of_everything_and_then_left_in_peace() {
    let mut line = Line::new();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "t", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let uris: Vec<String> = (0..URIS).map(uri).chain(["other://1".to_owned()]).collect();
    let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": meta });
    line.send(&json!({ "jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params }));
    line.until(|message| message["method"] == "notifications/subscriptions/acknowledged");
    let params = json!({ "name": "burst", "_meta": meta });
    line.send(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params }));
    assert_eq!(line.told(URIS).len(), URIS);
}
