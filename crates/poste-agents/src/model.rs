//! The server that takes the place of the model.

use std::fs::File;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::dialect::{Dialect, Tool};
use crate::script::{Rule, Script};

/// More than any program sends in one request.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A request of the conversation: it offers tools. Other requests (titles, checks) are only recorded.
#[derive(Debug, Clone)]
pub struct Asked {
    pub dialect: Dialect,
    pub body: Value,
}

impl Asked {
    /// An offered tool. Poste's own comes before one of the program's with the same ending.
    pub fn tool(&self, wanted: &str) -> Option<Tool> {
        let mut found: Vec<Tool> = self.dialect.tools(&self.body).into_iter().filter(|tool| tool.is(wanted)).collect();
        let is_poste =
            |tool: &Tool| tool.name.contains("poste") || tool.group.iter().any(|group| group.contains("poste"));
        found.sort_by_key(|tool| (!is_poste(tool), tool.name != wanted));
        found.into_iter().next()
    }

    /// The full name of a tool that is only mentioned.
    pub fn hidden_tool(&self, wanted: &str) -> Option<String> {
        let ending = format!("__poste__{wanted}");
        let text = self.text();
        text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'))
            .find(|word| word.starts_with("mcp__") && word.ends_with(&ending))
            .map(str::to_owned)
    }

    /// All text in it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        gather(&self.body, &mut text);
        text
    }

    /// All text since the model last spoke.
    pub fn news(&self) -> String {
        let mut text = String::new();
        for turn in self.dialect.news(&self.body) {
            gather(turn, &mut text);
        }
        text
    }
}

fn gather(value: &Value, text: &mut String) {
    match value {
        Value::String(leaf) => {
            text.push_str(leaf);
            text.push('\n');
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, text)),
        Value::Object(fields) => fields.values().for_each(|field| gather(field, text)),
        _ => {}
    }
}

/// A model that runs until it is dropped.
#[derive(Debug)]
pub struct Model {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<tokio::runtime::Runtime>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<Heard>,
    changed: Condvar,
}

#[derive(Debug)]
struct Heard {
    script: Script,
    asked: Vec<Asked>,
    /// The number of all requests, for investigating failures.
    serial: usize,
    record: File,
}

impl Model {
    /// Listens on a free loopback port. Every request is appended to `record` as a line of JSON.
    pub fn start(record: &Path) -> io::Result<Self> {
        let heard = Heard { script: Script::default(), asked: Vec::new(), serial: 0, record: File::create(record)? };
        let shared = Arc::new(Shared { state: Mutex::new(heard), changed: Condvar::new() });
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_io().build()?;
        let listener = runtime.block_on(tokio::net::TcpListener::bind(("127.0.0.1", 0)))?;
        let address = listener.local_addr()?;
        let router = Router::new()
            .fallback(answer)
            .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
            .with_state(Arc::clone(&shared));
        runtime.spawn(async move { axum::serve(listener, router).await });
        Ok(Self { shared, address, runtime: Some(runtime) })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn then(&self, rules: impl IntoIterator<Item = Rule>) {
        let mut heard = self.shared.lock();
        rules.into_iter().for_each(|rule| heard.script.push(rule));
    }

    pub fn is_spent(&self) -> bool {
        self.steps_left() == 0
    }

    /// One-time answers that were not given yet.
    pub fn steps_left(&self) -> usize {
        self.shared.lock().script.steps_left()
    }

    /// Every request of the conversation so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.lock().asked.clone()
    }

    /// Waits until there are that many requests. Returns false on timeout.
    pub fn wait_for(&self, count: usize, within: Duration) -> bool {
        self.wait_until(within, |asked| asked.len() >= count)
    }

    pub fn wait_until(&self, within: Duration, enough: impl Fn(&[Asked]) -> bool) -> bool {
        let deadline = Instant::now() + within;
        let mut heard = self.shared.lock();
        while !enough(&heard.asked) {
            let Some(left) = deadline.checked_duration_since(Instant::now()) else { return false };
            heard = self.shared.changed.wait_timeout(heard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Heard> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer(State(shared): State<Arc<Shared>>, method: Method, uri: Uri, body: Bytes) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let path = uri.path();
    let mut heard = shared.lock();
    heard.serial += 1;
    let line =
        json!({ "at": jiff::Timestamp::now().to_string(), "method": method.as_str(), "path": path, "body": body });
    if writeln!(heard.record, "{line}").is_err() {
        return (StatusCode::INTERNAL_SERVER_ERROR, "the request could not be recorded").into_response();
    }
    if let Some(aside) = Dialect::aside(path) {
        return ([(header::CONTENT_TYPE, "application/json")], aside.to_string()).into_response();
    }
    let Some(dialect) = Dialect::of(path).filter(|_| method == Method::POST) else {
        return (StatusCode::NOT_FOUND, "no such call").into_response();
    };
    let streamed = body["stream"] == true || path.ends_with(":streamGenerateContent");
    let asked = Asked { dialect, body };
    let said = if dialect != Dialect::Chat && dialect.tools(&asked.body).is_empty() {
        crate::script::Said::Text(aside_text(&asked.body))
    } else {
        let said = heard.script.answer(&asked);
        heard.asked.push(asked);
        said
    };
    let wire = dialect.answer(&said, heard.serial, streamed);
    drop(heard);
    shared.changed.notify_all();
    ([(header::CONTENT_TYPE, wire.content_type)], wire.body).into_response()
}

/// A text that fits a title, a topic, or a check whether everything is done.
fn aside_text(request: &Value) -> String {
    let wants_json = request["generationConfig"]["responseMimeType"] == "application/json"
        || request.pointer("/output_config/format/type").is_some()
        || request.pointer("/text/format/type").is_some_and(|kind| kind == "json_schema");
    if wants_json {
        let all = json!({ "title": "A turn", "isNewTopic": false, "next_speaker": "user", "reasoning": "It is done.",
            "complexity_reasoning": "It is simple.", "complexity_score": 1 });
        all.to_string()
    } else {
        "A turn".to_owned()
    }
}
