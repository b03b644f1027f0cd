//! Content written by people and agents: stored beside the header, never read by the fold, erasable.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits;

/// The text of a message, a result or a note. Every field may be empty.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Content {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subject: String,
    #[serde(default, skip_serializing_if = "Body::is_empty")]
    pub body: Body,
    /// JSON exactly as given: no number is rounded, no key reordered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Box<RawValue>>,
    /// A brief context for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// The expected output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub references: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// For a result: what was done, in a line or two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// For a result: what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recommend: Option<String>,
    /// For a version of a shared context: what it contains. The mail that announces it does not repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<Document>,
}

/// What a version of a shared context contains.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// For a section: its title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The whole text, or the appended section.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The structured part: a JSON object, exactly as given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
    /// The schema for the data of this context, set by its first version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Box<RawValue>>,
}

impl Document {
    fn check(&self) -> Result<(), String> {
        let over = |what: &str, has: usize, max: usize| {
            Err(format!("{what} of the context has {has} bytes, at most {max} are allowed"))
        };
        if let Some(title) = &self.title {
            if title.len() > limits::TITLE_BYTES_MAX {
                return over("the title of a section", title.len(), limits::TITLE_BYTES_MAX);
            }
            if title.trim().is_empty() || title.contains(char::is_control) {
                return Err("the title of a section must be one line, and not empty".to_owned());
            }
        }
        if let Some(text) = self.text.as_ref().filter(|text| text.len() > limits::DOCUMENT_BYTES_MAX) {
            return over("the text", text.len(), limits::DOCUMENT_BYTES_MAX);
        }
        if let Some(text) = &self.text
            && text.chars().any(|c| c.is_control() && !matches!(c, '\n' | '\r' | '\t'))
        {
            return Err("the text of a context has control characters; it must be plain text".to_owned());
        }
        if let Some(data) = &self.data {
            if data.get().len() > limits::DOCUMENT_BYTES_MAX {
                return over("the data", data.get().len(), limits::DOCUMENT_BYTES_MAX);
            }
            if !data.get().trim_ascii_start().starts_with('{') {
                return Err("the data of a context must be a JSON object".to_owned());
            }
            check_json("the data", data.get())?;
        }
        if let Some(schema) = &self.schema {
            if schema.get().len() as u64 > limits::SCHEMA_BYTES_MAX {
                return Err(format!("the schema has more than {} bytes", limits::SCHEMA_BYTES_MAX));
            }
            check_json("the schema", schema.get())?;
        }
        Ok(())
    }
}

/// Checks JSON that is stored exactly as written.
fn check_json(what: &str, json: &str) -> Result<(), String> {
    if is_deeper_than(json, limits::PAYLOAD_DEPTH_MAX) {
        return Err(format!("{what} is nested deeper than {} levels", limits::PAYLOAD_DEPTH_MAX));
    }
    if has_lone_surrogate(json) {
        return Err(format!("{what} has half a character (a lone \\u surrogate), which most programs cannot read"));
    }
    if let Some(key) = duplicate_key(json) {
        let key = crate::text::quoted(&key);
        return Err(format!("{what} has the key {key} twice; readers would disagree about which one counts"));
    }
    Ok(())
}

/// Bytes that are usually Markdown. Bytes that are not UTF-8 are kept as received.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl Body {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// For display: invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }

    pub fn is_text(&self) -> bool {
        std::str::from_utf8(&self.0).is_ok()
    }
}

impl From<&str> for Body {
    fn from(text: &str) -> Self {
        Self(text.as_bytes().to_vec())
    }
}

/// Text as a string; anything else as `{"base64": …}`.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum WireBody<'a> {
    Text(std::borrow::Cow<'a, str>),
    Bytes { base64: String },
}

impl Serialize for Body {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => WireBody::Text(text.into()),
            Err(_) => WireBody::Bytes { base64: BASE64.encode(&self.0) },
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Body {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match WireBody::deserialize(deserializer)? {
            WireBody::Text(text) => Ok(Self(text.into_owned().into_bytes())),
            WireBody::Bytes { base64 } => BASE64.decode(base64).map(Self).map_err(serde::de::Error::custom),
        }
    }
}

impl Content {
    pub fn is_empty(&self) -> bool {
        self.subject.is_empty()
            && self.body.is_empty()
            && self.payload.is_none()
            && self.context.is_none()
            && self.expect.is_none()
            && self.references.is_empty()
            && self.metadata.is_empty()
            && self.summary.is_none()
            && self.recommend.is_none()
            && self.document.is_none()
    }

    /// Checks a message before a surface proposes it: a listing must have something to show.
    pub fn check_message(&self) -> Result<(), String> {
        if self.subject.trim().is_empty() {
            return Err("the subject is empty; a listing would show nothing".to_owned());
        }
        Ok(())
    }

    /// Checked before the append. The fold checks the length again, from the header.
    pub fn check(&self) -> Result<(), String> {
        let over =
            |what: &str, has: usize, max: usize| Err(format!("{what} has {has} bytes, at most {max} are allowed"));
        if self.subject.len() > limits::SUBJECT_BYTES_MAX {
            return over("the subject", self.subject.len(), limits::SUBJECT_BYTES_MAX);
        }
        if self.subject.contains(['\n', '\r', '\0']) {
            return Err("the subject is more than one line; put the rest into the body".to_owned());
        }
        if let Some(payload) = &self.payload {
            check_json("the payload", payload.get())?;
        }
        if let Some(document) = &self.document {
            document.check()?;
        }
        if self.references.len() > limits::REFERENCES_MAX {
            return Err(format!("more than {} references", limits::REFERENCES_MAX));
        }
        if self.metadata.len() > limits::METADATA_ENTRIES_MAX {
            return Err(format!("more than {} metadata entries", limits::METADATA_ENTRIES_MAX));
        }
        Ok(())
    }

    /// The stored bytes: JSON, in the order of the fields above, so that equal content has an equal digest.
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("content is plain data and always encodes")
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}

/// Counts brackets outside strings: a payload is kept as text, so nothing has parsed its structure yet.
fn is_deeper_than(json: &str, depth_max: usize) -> bool {
    let mut depth = 0_usize;
    let (mut in_string, mut escaped) = (false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > depth_max {
            return true;
        }
    }
    false
}

/// Whether JSON contains half of a character, such as `"\ud800"`. The grammar allows it, but many parsers then refuse
/// the whole text: one such payload would make an inbox unreadable to them. Backslashes occur only in strings.
fn has_lone_surrogate(json: &str) -> bool {
    let unit = |escape: &[u8]| -> Option<u16> {
        let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut rest = json.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'\\') {
        rest = &rest[at..];
        let length = match unit(rest) {
            Some(0xd800..=0xdbff) => match rest.get(6..).and_then(unit) {
                Some(0xdc00..=0xdfff) => 12,
                _ => return true,
            },
            Some(0xdc00..=0xdfff) => return true,
            _ => 2,
        };
        rest = rest.get(length..).unwrap_or_default();
    }
    false
}

/// A key that occurs twice in an object of the payload, compared as decoded: `"a"` and `"\u0061"` are the same. A check
/// of one occurrence would say nothing about a reader that takes the other.
///
/// Numbers are not decoded: a payload may contain ones that fit no machine type.
fn duplicate_key(json: &str) -> Option<String> {
    let json = json.trim_ascii_start();
    if json.starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(json).ok()?;
        return items.into_iter().find_map(|item| duplicate_key(item.get()));
    }
    if !json.starts_with('{') {
        return None;
    }
    let Members(members) = serde_json::from_str(json).ok()?;
    let mut keys = BTreeSet::new();
    if let Some((twice, _)) = members.iter().find(|(key, _)| !keys.insert(key.as_str())) {
        return Some(twice.clone());
    }
    members.into_iter().find_map(|(_, value)| duplicate_key(value.get()))
}

/// An object as written, with every member.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(members)
            }
        }
        deserializer.deserialize_map(Visitor).map(Members)
    }
}
