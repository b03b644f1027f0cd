//! What a program writes to its hooks. It is hostile: the results of tools are in it, and those come from anywhere.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use poste_core::text::Session;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// What a hook was told. Whatever is missing, of another type than expected or too long is as if it were not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The program's own name for the session.
    pub session: Option<Session>,
    pub cwd: Option<PathBuf>,
    /// The program's own name for the moment.
    pub name: Option<String>,
    pub source: Source,
    /// Whether a hook keeps the session from stopping already; `None`: the program does not tell.
    pub stop_hook_active: Option<bool>,
    /// It happened inside a helper that the session started, which has a context of its own.
    pub in_subagent: bool,
    /// How the prompt begins.
    pub prompt: Option<String>,
    /// What ends is this conversation, not the run: the program goes on with another one.
    pub goes_on: bool,
}

/// Why a session starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Source {
    #[default]
    Startup,
    Resume,
    Clear,
    Compact,
}

/// More is not looked at. The result of a tool is somewhere in it, so it is large now and then.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// More than anything that is looked at has.
const TEXT_BYTES_MAX: usize = 4_096;
/// Of a prompt.
const PROMPT_CHARS_MAX: usize = 80;

/// Reads to the end, so that the program never writes into a closed pipe, and keeps what can be understood.
pub fn read(mut input: impl Read) -> Event {
    let mut bytes = Vec::new();
    let whole = input.by_ref().take(BYTES_MAX).read_to_end(&mut bytes);
    if whole.is_ok() && bytes.len() as u64 == BYTES_MAX {
        let _ = io::copy(&mut input, &mut io::sink());
    }
    understand(&bytes)
}

fn understand(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    // What was found before the text breaks off still counts: the long parts come last.
    let _ = serde_json::Deserializer::from_slice(bytes).deserialize_map(Fields(&mut event));
    event
}

struct Fields<'e>(&'e mut Event);

impl<'de> Visitor<'de> for Fields<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                // Cursor calls it a conversation.
                "session_id" | "conversation_id" => {
                    let found = text(map.next_value()?).and_then(|id| id.parse().ok());
                    self.0.session = self.0.session.take().or(found);
                }
                "cwd" => self.0.cwd = path(text(map.next_value()?)).or(self.0.cwd.take()),
                "workspace_roots" => {
                    let first = match map.next_value()? {
                        Loose::First(first) => first,
                        _ => None,
                    };
                    self.0.cwd = self.0.cwd.take().or(path(first));
                }
                "hook_event_name" => self.0.name = text(map.next_value()?),
                "source" => {
                    self.0.source = match text(map.next_value()?).as_deref() {
                        Some("resume") => Source::Resume,
                        Some("clear") => Source::Clear,
                        Some("compact") => Source::Compact,
                        _ => Source::Startup,
                    }
                }
                // Why a session ends.
                "reason" => {
                    let reason = text(map.next_value()?);
                    self.0.goes_on = reason.is_some_and(|reason| reason == "clear" || reason == "resume");
                }
                "stop_hook_active" => {
                    if let Loose::Flag(flag) = map.next_value()? {
                        self.0.stop_hook_active = Some(flag);
                    }
                }
                // Cursor counts the follow-ups it was given in a row.
                "loop_count" => {
                    if let Loose::Number(count) = map.next_value()? {
                        self.0.stop_hook_active = Some(count > 0);
                    }
                }
                "agent_id" => self.0.in_subagent = text(map.next_value()?).is_some(),
                "prompt" => {
                    if let Loose::Text(prompt) = map.next_value()? {
                        self.0.prompt = Some(prompt.chars().take(PROMPT_CHARS_MAX).collect());
                    }
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

fn text(value: Loose) -> Option<String> {
    match value {
        Loose::Text(text) if !text.is_empty() && text.len() <= TEXT_BYTES_MAX => Some(text),
        _ => None,
    }
}

fn path(text: Option<String>) -> Option<PathBuf> {
    text.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// A value of which nobody knows the type.
enum Loose {
    Text(String),
    Flag(bool),
    Number(u64),
    /// The first of a list, if it is a text.
    First(Option<String>),
    Other,
}

impl<'de> serde::Deserialize<'de> for Loose {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LooseVisitor)
    }
}

struct LooseVisitor;

impl<'de> Visitor<'de> for LooseVisitor {
    type Value = Loose;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Loose, E> {
        Ok(Loose::Flag(flag))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Loose, E> {
        Ok(Loose::Number(number))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_unit<E>(self) -> Result<Loose, E> {
        Ok(Loose::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
        Ok(Loose::Text(text.to_owned()))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Loose, A::Error> {
        let first = match seq.next_element::<FirstOnly>()? {
            Some(FirstOnly(first)) => first,
            None => None,
        };
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Loose::First(first))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Loose::Other)
    }
}

/// An element of a list: a text or nothing. What is inside of it is passed over without descending into it.
struct FirstOnly(Option<String>);

impl<'de> serde::Deserialize<'de> for FirstOnly {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Loose::deserialize(deserializer).map(|value| Self(text(value)))
    }
}
