//! The strict grammars of all short texts from outside: names, topics, types, labels, ids.
//!
//! Each has one grammar, in one place, for every surface. A value of these types has been checked, wherever it came
//! from: both the constructors and `Deserialize` go through [`check`].

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

use crate::foreign::Foreign;
use crate::limits;

/// What is wrong with a text, in words a person can act on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} {shown} is not allowed: {why}")]
pub struct InvalidText {
    pub what: &'static str,
    /// The offending text, shortened and escaped so that it is safe to print.
    pub shown: String,
    pub why: String,
}

struct Grammar {
    what: &'static str,
    bytes_max: usize,
    first: fn(u8) -> bool,
    rest: fn(u8) -> bool,
    rule: &'static str,
    reserved: &'static [&'static str],
    /// Reserved together with whatever follows a `-` or `_`.
    reserved_stems: &'static [&'static str],
}

impl Grammar {
    fn reserves(&self, text: &str) -> bool {
        let stem = text.split(['-', '_']).next().unwrap_or_default();
        self.reserved.contains(&text) || self.reserved_stems.contains(&stem)
    }
}

fn check(grammar: &Grammar, text: &str) -> Result<(), InvalidText> {
    let refuse = |why: String| InvalidText { what: grammar.what, shown: quoted(text), why };
    let bytes = text.as_bytes();
    let Some((first, rest)) = bytes.split_first() else {
        return Err(refuse("it is empty".into()));
    };
    if bytes.len() > grammar.bytes_max {
        return Err(refuse(format!("it has {} bytes, at most {} are allowed", bytes.len(), grammar.bytes_max)));
    }
    if !(grammar.first)(*first) || !rest.iter().all(|byte| (grammar.rest)(*byte)) {
        return Err(refuse(grammar.rule.to_owned()));
    }
    if grammar.reserves(text) {
        return Err(refuse("the word is reserved".into()));
    }
    Ok(())
}

/// Whether a path stays below its folder, wherever that folder is: not absolute, no `.` or `..`, no empty name.
pub fn is_path_below(path: &str) -> bool {
    !path.contains('\0') && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
}

/// The text in quotes, shortened to a printable length, with everything but printable ASCII escaped.
pub fn quoted(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let mut shown: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_default).collect();
    if text.chars().count() > SHOWN_CHARS_MAX {
        shown.push('…');
    }
    format!("\"{shown}\"")
}

/// The last non-empty line of a program's output, shortened to fit a line.
pub fn last_line(text: &str) -> Option<String> {
    const CHARS_MAX: usize = 200;
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let mut line: String = last.chars().take(CHARS_MAX).collect();
    if line.len() < last.len() {
        line.push('…');
    }
    Some(line)
}

macro_rules! checked_text {
    ($(#[$doc:meta])* $name:ident, $grammar:ident, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = InvalidText;
            fn from_str(text: &str) -> Result<Self, InvalidText> {
                check(&$grammar, text)?;
                Ok(Self(text.to_owned()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                check(&$grammar, &text).map_err(serde::de::Error::custom)?;
                Ok(Self(text))
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                self.0 == other
            }
        }

        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                self.0 == *other
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                self.0.to_sql()
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                // Rows are written from checked values or by the office itself, but the database file may be damaged.
                let text = value.as_str()?;
                if text != POSTE {
                    check(&$grammar, text).map_err(FromSqlError::other)?;
                }
                Ok(Self(text.to_owned()))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn inline_schema() -> bool {
                true
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}

/// The sender of all messages that the fold creates itself. No agent can have this name.
pub const POSTE: &str = "poste";
/// The address of every active agent but the sender.
pub const EVERYONE: &str = "everyone";

fn lower_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}
fn name_rest(byte: u8) -> bool {
    lower_or_digit(byte) || byte == b'_' || byte == b'-'
}
fn label_rest(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte)
}
fn topic_rest(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte)
}
fn printable(byte: u8) -> bool {
    byte.is_ascii_graphic()
}

const NAME: Grammar = Grammar {
    what: "the name",
    bytes_max: limits::NAME_BYTES_MAX,
    first: lower_or_digit,
    rest: name_rest,
    rule: "use lower-case letters, digits, - and _, starting with a letter or digit",
    reserved: &[
        // Addresses, and words of trust labels.
        POSTE, EVERYONE, "all", "every", "role", "can", "topic", "human", "agent", "outside", "unproven",
        // Words that a reader of a transcript takes for somebody else.
        "me", "self", "you", "tool", "function", "model", "admin", "person",
        // Words that begin Poste's own lines.
        "error", "warning", "hint",
    ],
    reserved_stems: &["system", "user", "assistant", "developer", "human", "root", POSTE],
};
const CONTEXT_NAME: Grammar = Grammar {
    what: "the context's name",
    bytes_max: limits::CONTEXT_NAME_BYTES_MAX,
    reserved: &[],
    reserved_stems: &[],
    ..NAME
};
const WORD: Grammar = Grammar { what: "the role or capability", reserved: &[], reserved_stems: &[], ..NAME };
const TYPE_NAME: Grammar = Grammar {
    what: "the type",
    bytes_max: limits::NAME_BYTES_MAX,
    first: |byte| byte.is_ascii_lowercase(),
    rest: |byte| lower_or_digit(byte) || byte == b'_',
    rule: "use lower-case letters, digits and _, starting with a letter",
    reserved: &[],
    reserved_stems: &[],
};
const TOPIC: Grammar = Grammar {
    what: "the topic",
    bytes_max: limits::NAME_BYTES_MAX,
    first: |byte| byte.is_ascii_alphanumeric(),
    rest: topic_rest,
    rule: "use letters, digits, -, _ and ., starting with a letter or digit",
    reserved: &[],
    reserved_stems: &[],
};
const LABEL: Grammar = Grammar {
    what: "the label",
    bytes_max: limits::LABEL_BYTES_MAX,
    first: |byte| byte.is_ascii_alphanumeric(),
    rest: label_rest,
    rule: "use letters, digits, -, _, . and :, starting with a letter or digit",
    reserved: &[],
    reserved_stems: &[],
};
const SESSION: Grammar = Grammar {
    what: "the session",
    bytes_max: limits::LABEL_BYTES_MAX,
    first: printable,
    rest: printable,
    rule: "use printable ASCII without spaces",
    reserved: &[],
    reserved_stems: &[],
};
const ID: Grammar = Grammar {
    what: "the id",
    bytes_max: limits::ID_BYTES_MAX,
    first: |byte| printable(byte) || byte == b' ',
    rest: |byte| printable(byte) || byte == b' ',
    rule: "use 1 to 128 printable ASCII characters",
    reserved: &[],
    reserved_stems: &[],
};

checked_text!(
    /// An agent's name.
    Name, NAME, "^[a-z0-9][a-z0-9_-]{0,63}$");
checked_text!(
    /// A role or a capability.
    Word, WORD, "^[a-z0-9][a-z0-9_-]{0,63}$");
checked_text!(
    /// The name of a shared context; also a file name, and part of a topic.
    ContextName, CONTEXT_NAME, "^[a-z0-9][a-z0-9_-]{0,55}$");
checked_text!(
    /// A message type.
    TypeName, TYPE_NAME, "^[a-z][a-z0-9_]{0,63}$");
checked_text!(
    /// A named event stream; capitals are allowed (`TaskCompleted`).
    Topic, TOPIC, "^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$");
checked_text!(
    /// A conversation, workflow or step.
    Label, LABEL, "^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$");
checked_text!(
    /// One session of an agent.
    Session, SESSION, "^[!-~]{1,128}$");
checked_text!(
    /// The idempotency key of a write, made by the caller. It never expires.
    RecordId, ID, "^[ -~]{1,128}$");

macro_rules! shown_as_they_are {
    ($($name:ident)+) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    )+};
}
shown_as_they_are!(Name Word ContextName TypeName Topic Label RecordId);

/// Programs choose their ids freely, so one that could be read as a sentence is quoted.
impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&Foreign::name(&*self.0).to_string())
    }
}

impl Name {
    /// The one name outside the grammar: the actor of records that the fold or the writer itself makes.
    pub fn poste() -> Self {
        Self(POSTE.to_owned())
    }

    pub fn is_poste(&self) -> bool {
        self.0 == POSTE
    }

    /// A name as it occurs in records: an agent's, or the office's own.
    pub fn in_log(text: &str) -> Result<Self, InvalidText> {
        if text == POSTE {
            return Ok(Self::poste());
        }
        text.parse()
    }
}

/// [`Name::in_log`] for serde.
pub(crate) fn name_in_log<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
    Name::in_log(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
}

impl RecordId {
    /// The id of another record that is written along with this one. It is always the same, so repeating the first
    /// write resumes the rest.
    pub fn then(&self, what: impl fmt::Display) -> Self {
        let id = format!("{self}/{what}");
        match id.len() <= limits::ID_BYTES_MAX {
            true => Self(id),
            false => Self(blake3::hash(id.as_bytes()).to_hex().to_string()),
        }
    }
}

impl Label {
    /// The label of the conversation that a first message opens: its number.
    pub fn of_number(number: crate::MessageNo) -> Self {
        Self(number.to_string())
    }
}

/// The known names nearest to what was typed, best first, for "did you mean".
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    const SHOWN_MAX: usize = 3;
    let typed_chars = typed.chars().count();
    let distance_max = (typed_chars / 3).clamp(1, 3);
    let mut scored: Vec<(usize, &str)> = known
        .into_iter()
        // The length difference is a lower bound of the distance. Computing the distance costs time and memory by the
        // product of both lengths.
        .filter(|name| typed_chars <= name.chars().count() + distance_max)
        .map(|name| (strsim::damerau_levenshtein(typed, name), name))
        .filter(|(distance, name)| *distance <= distance_max || (typed.len() >= 3 && name.starts_with(typed)))
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(SHOWN_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// `1 message`, `2 messages`.
pub fn count(number: usize, noun: &str) -> String {
    match number {
        1 => format!("1 {noun}"),
        _ if noun.ends_with('y') => format!("{number} {}ies", &noun[..noun.len() - 1]),
        _ => format!("{number} {noun}s"),
    }
}

/// A size for people to read.
pub fn size(bytes: u64) -> String {
    const KIB: u64 = 1024;
    match bytes {
        ..KIB => format!("{bytes} bytes"),
        KIB..0x10_0000 => format!("{} KiB", bytes / KIB),
        0x10_0000..0x4000_0000 => format!("{} MiB", bytes / 0x10_0000),
        _ => format!("{} GiB", bytes / 0x4000_0000),
    }
}
