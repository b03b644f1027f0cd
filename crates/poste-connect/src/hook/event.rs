//! Parses what a program writes to its hooks. This input is untrusted: it contains results of tools.

use std::fmt;
use std::io::{self, Read};
use std::path::PathBuf;

use poste_core::text::Session;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// The input of a hook. Fields that are missing, too long or not of the expected type are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Event {
    /// The program's own id of the session.
    pub session: Option<Session>,
    pub cwd: Option<PathBuf>,
    /// The program's own name of the event.
    pub name: Option<String>,
    pub source: Source,
    /// Whether a hook already keeps the session from stopping; `None`: the program does not say.
    pub stop_hook_active: Option<bool>,
    /// The event happened in a subagent of the session, which has its own context.
    pub in_subagent: bool,
    /// The beginning of the prompt.
    pub prompt: Option<String>,
    /// Only this conversation ends: the program continues with another one.
    pub continues: bool,
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

/// Input beyond this is ignored. It contains results of tools, so it can be large.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Longer texts are ignored.
const TEXT_BYTES_MAX: usize = 4_096;
/// Characters of a prompt that are kept.
const PROMPT_CHARS_MAX: usize = 80;

/// Reads to the end, so that the program never writes into a closed pipe, and keeps the fields that can be parsed.
pub fn read(mut input: impl Read) -> Event {
    let mut bytes = Vec::new();
    let whole = input.by_ref().take(BYTES_MAX).read_to_end(&mut bytes);
    if whole.is_ok() && bytes.len() as u64 == BYTES_MAX {
        let _ = io::copy(&mut input, &mut io::sink());
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Event {
    let mut event = Event::default();
    // Fields before a syntax error or a cut still count: the long ones come last.
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
                    self.0.continues = reason.is_some_and(|reason| reason == "clear" || reason == "resume");
                }
                "stop_hook_active" => {
                    if let Loose::Flag(flag) = map.next_value()? {
                        self.0.stop_hook_active = Some(flag);
                    }
                }
                // Cursor counts consecutive follow-ups.
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

/// A value of unknown type.
enum Loose {
    Text(String),
    Flag(bool),
    Number(u64),
    /// The first element of a list, if it is a text.
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

/// An element of a list: a text or nothing. Nested values are skipped.
struct FirstOnly(Option<String>);

impl<'de> serde::Deserialize<'de> for FirstOnly {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Loose::deserialize(deserializer).map(|value| Self(text(value)))
    }
}
