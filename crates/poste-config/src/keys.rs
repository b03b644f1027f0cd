//! Every key of `poste.toml`: its type, its range and its default. One table for reading, editing, showing and
//! documenting them.

use serde::Serialize;

use poste_core::limits;
use poste_core::payload::SchemaSource;
use poste_core::text::{nearest, quoted};
use poste_core::time::parse_duration_ms;
use poste_core::vocabulary::{Priority, Urgency};

/// The values that a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    Count {
        min: u64,
        max: u64,
    },
    /// A duration in milliseconds.
    Length {
        min: i64,
        max: i64,
    },
    Priority,
    Urgency,
    Flag,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A file below the folder of `poste.toml`, or the schema itself as a table.
    Schema,
}

/// A parsed value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Count(u64),
    Length(i64),
    Priority(Priority),
    Urgency(Urgency),
    Flag(bool),
    Word(&'static str),
    Schema(SchemaSource),
}

impl Value {
    pub fn count(&self) -> Option<u64> {
        if let Self::Count(count) = self { Some(*count) } else { None }
    }

    pub fn length(&self) -> Option<i64> {
        if let Self::Length(ms) = self { Some(*ms) } else { None }
    }

    pub fn flag(&self) -> Option<bool> {
        if let Self::Flag(flag) = self { Some(*flag) } else { None }
    }
}

#[derive(Debug)]
pub struct Key {
    pub section: &'static str,
    pub name: &'static str,
    pub takes: ValueKind,
    /// The default; `None` for the keys of a type, whose defaults come from the built-in type or the office.
    pub built_in: Option<Value>,
}

/// The sections that the fold does not use: how this machine serves the sessions that run on it.
pub const MACHINE_SECTIONS: [&str; 3] = ["session", "hooks", "dispatch"];
/// What to do with the claims of a session that ends.
pub const ON_END: [&str; 2] = ["release", "keep"];

/// The section with a subsection for each type.
pub const TYPES: &str = "types";
/// The key for the payload schema of a type.
pub const SCHEMA: &str = "schema";

const fn key(section: &'static str, name: &'static str, takes: ValueKind, built_in: Option<Value>) -> Key {
    Key { section, name, takes, built_in }
}

const ATTEMPTS: ValueKind = ValueKind::Count { min: 1, max: limits::ATTEMPTS_MAX_MAX as u64 };
const RETRY_DELAY: ValueKind = ValueKind::Length { min: 0, max: limits::RETRY_DELAY_MS_MAX };

const HOOK_TOKENS: ValueKind = ValueKind::Count { min: 100, max: 4_000 };

/// In the order of the documentation. `fold::check_policy` holds the same ranges; a test compares them.
pub const KEYS: &[Key] = &[
    key("delivery", "max_attempts", ATTEMPTS, Some(Value::Count(limits::ATTEMPTS_MAX_DEFAULT as u64))),
    key("delivery", "retry_delay", RETRY_DELAY, Some(Value::Length(limits::RETRY_DELAY_MS_DEFAULT))),
    key(
        "delivery",
        "lease",
        ValueKind::Length { min: limits::LEASE_MS_MIN, max: limits::LEASE_MS_MAX },
        Some(Value::Length(limits::LEASE_MS_DEFAULT)),
    ),
    key(
        "retention",
        "finished",
        ValueKind::Length { min: 0, max: limits::HORIZON_MS_MAX },
        Some(Value::Length(limits::RETENTION_MS_DEFAULT)),
    ),
    key(
        "limits",
        "message_bytes",
        ValueKind::Count { min: 1, max: limits::CONTENT_BYTES_MAX as u64 },
        Some(Value::Count(limits::CONTENT_BYTES_MAX as u64)),
    ),
    key(
        "limits",
        "fan_out",
        ValueKind::Count { min: 1, max: limits::FAN_OUT_MAX as u64 },
        Some(Value::Count(limits::FAN_OUT_MAX as u64)),
    ),
    key("session", "on_end", ValueKind::OneOf(&ON_END), Some(Value::Word(ON_END[0]))),
    key("hooks", "start_tokens", HOOK_TOKENS, Some(Value::Count(600))),
    key("hooks", "turn_tokens", HOOK_TOKENS, Some(Value::Count(400))),
    key(
        "dispatch",
        "concurrency",
        ValueKind::Count { min: 1, max: limits::RUN_CONCURRENCY_MAX },
        Some(Value::Count(8)),
    ),
    key(TYPES, "priority", ValueKind::Priority, None),
    key(TYPES, "urgency", ValueKind::Urgency, None),
    key(TYPES, "work", ValueKind::Flag, None),
    key(TYPES, "response", ValueKind::Flag, None),
    key(TYPES, "max_attempts", ATTEMPTS, None),
    key(TYPES, "retry_delay", RETRY_DELAY, None),
    key(TYPES, "patience", ValueKind::Length { min: limits::PATIENCE_MS_MIN, max: limits::PATIENCE_MS_MAX }, None),
    key(TYPES, "default_approve", ValueKind::Flag, None),
    key(TYPES, SCHEMA, ValueKind::Schema, None),
];

pub(crate) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&'static str> = KEYS.iter().map(|key| key.section).collect();
    sections.dedup();
    sections
}

pub(crate) fn keys_of(section: &str) -> impl Iterator<Item = &'static Key> + Clone {
    KEYS.iter().filter(move |key| key.section == section)
}

pub fn find(section: &str, name: &str) -> Option<&'static Key> {
    keys_of(section).find(|key| key.name == name)
}

/// The error for an unknown word, which names the nearest known one: a typo must not silently become a default.
pub(crate) fn unknown<'a>(what: &str, found: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let found_shown = quoted(found);
    match nearest(found, known.clone()).first() {
        Some(near) => format!("unknown {what} {found_shown}; did you mean {near}?"),
        None => format!("unknown {what} {found_shown}; must be one of {}", known.collect::<Vec<_>>().join(", ")),
    }
}

impl ValueKind {
    /// Parses a value that is given on the command line.
    pub fn parse(self, text: &str) -> Result<Value, String> {
        let value = match self {
            Self::Count { .. } => Value::Count(text.parse().map_err(|_| self.wrong())?),
            Self::Length { .. } => Value::Length(parse_duration_ms(text)?),
            Self::Priority => Value::Priority(text.parse()?),
            Self::Urgency => Value::Urgency(text.parse()?),
            Self::Flag => Value::Flag(text.parse().map_err(|_| self.wrong())?),
            Self::OneOf(words) => Value::Word(known_word(words, text).ok_or_else(|| self.wrong())?),
            Self::Schema if text.is_empty() => return Err(self.wrong()),
            Self::Schema => Value::Schema(SchemaSource::File(text.to_owned())),
        };
        self.check(value)
    }

    pub(crate) fn check(self, value: Value) -> Result<Value, String> {
        let fits = match (self, &value) {
            (Self::Count { min, max }, Value::Count(count)) => (min..=max).contains(count),
            (Self::Length { min, max }, Value::Length(ms)) => (min..=max).contains(ms),
            _ => true,
        };
        if fits { Ok(value) } else { Err(self.wrong()) }
    }

    fn wrong(self) -> String {
        format!("must be {}", self.expected())
    }

    /// The values that are allowed, to follow "must be".
    pub fn expected(self) -> String {
        match self {
            Self::Count { min, max } => format!("a number from {min} to {max}"),
            Self::Length { min, max } => {
                format!("a duration from \"{}\" to \"{}\"", length_text(min), length_text(max))
            }
            Self::Priority => words(Priority::ALL.iter().map(|word| word.word())),
            Self::Urgency => words(Urgency::ALL.iter().map(|word| word.word())),
            Self::Flag => "true or false".to_owned(),
            Self::OneOf(known) => words(known.iter().copied()),
            Self::Schema => "the path of a JSON Schema, or the schema as a table".to_owned(),
        }
    }
}

pub(crate) fn known_word(words: &[&'static str], text: &str) -> Option<&'static str> {
    words.iter().copied().find(|word| *word == text)
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> String {
    format!("one of {}", words.collect::<Vec<_>>().join(", "))
}

impl Value {
    /// As it is written in the file, without quotes.
    pub fn text(&self) -> String {
        match self {
            Self::Count(count) => count.to_string(),
            Self::Length(ms) => length_text(*ms),
            Self::Priority(word) => word.to_string(),
            Self::Urgency(word) => word.to_string(),
            Self::Flag(flag) => flag.to_string(),
            Self::Word(word) => (*word).to_owned(),
            Self::Schema(SchemaSource::File(path)) => path.clone(),
            Self::Schema(SchemaSource::Inline(_)) => "(in the file)".to_owned(),
        }
    }
}

/// Numbers and flags stay what they are, lengths and words are strings.
impl Serialize for Value {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Count(count) => serializer.serialize_u64(*count),
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Schema(SchemaSource::Inline(schema)) => schema.serialize(serializer),
            other => serializer.serialize_str(&other.text()),
        }
    }
}

impl schemars::JsonSchema for Value {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SettingValue".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["integer", "string", "boolean", "object"] })
    }
}

/// An exact duration: parsing it gives the same value.
pub fn length_text(ms: i64) -> String {
    let units =
        [(limits::DAY_MS, "d"), (limits::HOUR_MS, "h"), (limits::MINUTE_MS, "m"), (limits::SECOND_MS, "s"), (1, "ms")];
    let mut left = ms;
    let mut parts = Vec::new();
    for (unit, name) in units {
        // Days are used from a week on, so 24h and 72h stay in hours.
        if unit == limits::DAY_MS && left < 7 * limits::DAY_MS {
            continue;
        }
        if left >= unit {
            parts.push(format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}
