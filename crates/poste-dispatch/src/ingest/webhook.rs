//! Reads a request of another program: its body, its headers and its signature.

use poste_core::limits;
use serde_json::Value;
use serde_json::value::RawValue;

use super::{BYTES_MAX, Incoming, Origin, TEXT_BYTES_MAX, Unfit, bounded, one_line};
use crate::notify::{MESSAGE_TYPE, sign};

/// A webhook request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'r> {
    pub body: &'r [u8],
    /// Names in any case.
    pub headers: &'r [(String, String)],
    /// Now, in seconds, for the age of a signature.
    pub now_s: i64,
}

impl Request<'_> {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// The fields in which monitors put a subject and a text, best first.
const TITLES: &[&str] = &["subject", "title", "summary", "alertname", "name", "message", "text"];
const TEXTS: &[&str] = &["body", "description", "message", "text", "summary"];

/// Reads a request. With a key it must be signed according to Standard Webhooks.
pub fn webhook(request: Request<'_>, key: Option<&sign::Key>) -> Result<Incoming, Unfit> {
    if request.body.len() as u64 > BYTES_MAX {
        return Err(Unfit::TooLarge);
    }
    if let Some(key) = key {
        let part = |name: &str| request.header(name).ok_or(sign::Unsigned::Missing);
        let (id, at, signed) = (part("webhook-id")?, part("webhook-timestamp")?, part("webhook-signature")?);
        key.verify(id, at, signed, request.body, request.now_s)?;
    }
    if request.body.iter().all(u8::is_ascii_whitespace) {
        return Err(Unfit::Empty);
    }
    let text = String::from_utf8_lossy(request.body);
    let mut incoming = Incoming::default();
    // JSON that is nested deeper than a payload may be is treated as text.
    match serde_json::from_str::<Value>(&text).ok().filter(|value| depth(value) < limits::PAYLOAD_DEPTH_MAX) {
        Some(value) => {
            // A webhook from a rule of an office contains the message.
            let of_poste = value.get("data").filter(|_| value["type"] == MESSAGE_TYPE);
            incoming.echo_of.extend(of_poste.and_then(|data| Some(data["office"].as_str()?.to_owned())));
            let about = of_poste.map_or(&value, |data| &data["message"]);
            let said = |names: &[&str]| names.iter().find_map(|name| find(about, name)).unwrap_or_default();
            incoming.subject = one_line(&said(TITLES));
            incoming.body = bounded(&said(TEXTS));
            if text.len() <= TEXT_BYTES_MAX {
                incoming.payload = RawValue::from_string(text.trim().to_owned()).ok();
            } else if incoming.body.is_empty() {
                incoming.body = bounded(&text);
            }
        }
        None => {
            incoming.subject = one_line(text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default());
            incoming.body = bounded(&text);
        }
    }
    if incoming.subject.is_empty() {
        incoming.subject = "webhook".to_owned();
    }
    incoming.key = ["webhook-id", "idempotency-key"]
        .iter()
        .find_map(|name| request.header(name).filter(|key| !key.is_empty()))
        .map(ToOwned::to_owned);
    incoming.origin = if key.is_some() { Origin::Signed } else { Origin::Unsigned };
    let mut note = |key: &str, value: &str| incoming.metadata.insert(key.to_owned(), one_line(value));
    note("source", "webhook");
    note("signed", if key.is_some() { "yes" } else { "no" });
    if let Some(agent) = request.header("user-agent") {
        note("user_agent", agent);
    }
    if let Some(id) = &incoming.key {
        incoming.metadata.insert("webhook_id".to_owned(), one_line(id));
    }
    Ok(incoming)
}

/// The text of this field: at the top level, or where alert managers put the common fields of their alerts.
fn find(value: &Value, name: &str) -> Option<String> {
    let places = [Some(value), value.get("commonAnnotations"), value.get("commonLabels"), value.get("data")];
    let found = places.into_iter().flatten().find_map(|place| place.get(name)?.as_str());
    found.filter(|text| !text.trim().is_empty()).map(ToOwned::to_owned)
}

/// Recursion is bounded: serde_json refuses nesting deeper than 128.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
