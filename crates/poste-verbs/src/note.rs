//! Notes for callers, which can name verbs: `follow it: poste track 12` at a terminal, `track number=12` for a model.
//! Each surface writes the verbs in its own form.

use std::fmt;

use poste_core::Timestamp;
use serde_json::{Map, Value};

/// A line of text with verbs, fields and times in it. Words that Poste did not write stand in it as
/// [`Foreign`](poste_core::Foreign).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Note(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// A time, which people read relative to now.
    Time(Timestamp),
    /// The time since which something has been the case.
    Since(Timestamp),
    Call(Call),
    Field(Field),
    Setting(Setting),
}

/// A verb to call. Placeholders for the caller to fill in are in capitals, such as `TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// As in the registry: `track`, `handoff accept`.
    pub verb: String,
    /// The key [`SPEAKER`] names the agent that should call. A surface may leave that to its user.
    pub input: Map<String, Value>,
}

/// A field of the verb that the note comes from: `--merge` at a terminal, `merge=true` for a model. A surface without
/// that field leaves out the hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Filled in by [`Desk::call`](crate::Desk::call); empty until then.
    pub verb: String,
    pub name: String,
    /// Null: name only the field.
    pub value: Value,
}

/// Something that belongs to the caller, not to an input. Only a surface that lets its user set it can name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Speaker,
    Office,
    LockTimeout,
    /// JSON output.
    Json,
    /// The file with a person's token.
    Token,
}

/// The key in a call's input for the agent to call as.
pub const SPEAKER: &str = "as";

impl Note {
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.0.push(Part::Text(text.into()));
        self
    }

    pub fn time(mut self, at: Timestamp) -> Self {
        self.0.push(Part::Time(at));
        self
    }

    pub fn since(mut self, at: Timestamp) -> Self {
        self.0.push(Part::Since(at));
        self
    }

    pub fn call(mut self, verb: &str, input: Map<String, Value>) -> Self {
        self.0.push(Part::Call(Call { verb: verb.to_owned(), input }));
        self
    }

    pub fn field(mut self, name: &str, value: Value) -> Self {
        self.0.push(Part::Field(Field { verb: String::new(), name: name.to_owned(), value }));
        self
    }

    pub fn setting(mut self, setting: Setting) -> Self {
        self.0.push(Part::Setting(setting));
        self
    }

    /// Sets the verb of fields that have none yet.
    pub(crate) fn comes_from(&mut self, verb: &str) {
        for part in &mut self.0 {
            if let Part::Field(field) = part
                && field.verb.is_empty()
            {
                field.verb = verb.to_owned();
            }
        }
    }

    /// Appends another note.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// The verbs in it.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.0.iter().filter_map(|part| match part {
            Part::Call(call) => Some(call),
            _ => None,
        })
    }

    /// The note on one line, with each part in the form of a surface.
    pub fn written(&self, form: impl FnMut(&Part) -> String) -> String {
        self.0.iter().map(form).collect()
    }

    /// The note with its times as text, in the form of a surface.
    pub fn timed(self, write: impl Fn(&Part) -> Option<String>) -> Self {
        Self(self.0.into_iter().map(|part| write(&part).map_or(part, Part::Text)).collect())
    }
}

/// Plain timestamps and verb names. Surfaces write both in a better form.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Time(at) => write!(f, "{at}"),
            Part::Since(at) => write!(f, "since {at}"),
            Part::Call(call) => f.write_str(&call.verb),
            Part::Field(field) => f.write_str(&field.name),
            Part::Setting(Setting::Speaker) => f.write_str("a name"),
            Part::Setting(Setting::Office) => f.write_str("another folder"),
            Part::Setting(Setting::LockTimeout) => f.write_str("a longer timeout"),
            Part::Setting(Setting::Json) => f.write_str("as JSON"),
            Part::Setting(Setting::Token) => f.write_str("a person's token"),
        })
    }
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self::default().text(text)
    }
}

impl From<poste_core::Foreign<'_>> for Note {
    fn from(words: poste_core::Foreign<'_>) -> Self {
        Self::default().text(words.to_string())
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        Self::default().text(text)
    }
}

/// Makes a [`Note`] of texts and verbs: `note!("see whose it is: " [track, number = number])`. Texts take values as
/// `format!` does; a verb of two words is `[handoff accept, number = number]`; `(at)` is a time, and `(since at)` how
/// long ago one was. `{merge = true}` is a field of the verb itself, and `@Speaker` is a [`Setting`].
#[macro_export]
macro_rules! note {
    (@parts $note:expr;) => { $note };
    (@parts $note:expr; $text:literal $($rest:tt)*) => {
        $crate::note!(@parts $note.text(format!($text)); $($rest)*)
    };
    (@parts $note:expr; (since $time:expr) $($rest:tt)*) => {
        $crate::note!(@parts $note.since($time); $($rest)*)
    };
    (@parts $note:expr; ($time:expr) $($rest:tt)*) => {
        $crate::note!(@parts $note.time($time); $($rest)*)
    };
    (@parts $note:expr; [$first:ident $($word:ident)* $(, $key:ident = $value:expr)* $(,)?] $($rest:tt)*) => {
        $crate::note!(@parts $note.call(
            concat!(stringify!($first) $(, " ", stringify!($word))*),
            // A raw identifier names the field without its prefix.
            [$((stringify!($key).trim_start_matches("r#").to_owned(), $crate::note::value(&$value))),*].into_iter().collect(),
        ); $($rest)*)
    };
    (@parts $note:expr; {$key:ident} $($rest:tt)*) => {
        $crate::note!(@parts $note.field(stringify!($key).trim_start_matches("r#"), serde_json::Value::Null); $($rest)*)
    };
    (@parts $note:expr; {$key:ident = $value:expr} $($rest:tt)*) => {
        $crate::note!(@parts $note.field(stringify!($key).trim_start_matches("r#"), $crate::note::value(&$value)); $($rest)*)
    };
    (@parts $note:expr; @ $setting:ident $($rest:tt)*) => {
        $crate::note!(@parts $note.setting($crate::note::Setting::$setting); $($rest)*)
    };
    ($($parts:tt)+) => { $crate::note!(@parts $crate::note::Note::default(); $($parts)+) };
}

/// A value of a call's input, as JSON. Every type used there can be serialized.
pub fn value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Commands that are not verbs but may be named in notes. Tests check that they exist, and that notes name no others.
pub const COMMANDS: &[&str] = &["context edit", "dispatch", "schema", "token person", "watch retry"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_keeps_its_parts_in_order() {
        let (number, when) = (12, "soon");
        let at = Timestamp::from_ms(5);
        let note = note!("due {when}, " (at) "; take it: " [handoff accept, number = number, notes = "TEXT"] ".");
        let [text, time, more, call, end] = note.parts() else { panic!("{note:?}") };
        assert_eq!(*text, Part::Text("due soon, ".to_owned()));
        assert_eq!(*time, Part::Time(at));
        assert_eq!(*more, Part::Text("; take it: ".to_owned()));
        let Part::Call(call) = call else { panic!("{call:?}") };
        assert_eq!(call.verb, "handoff accept");
        assert_eq!(Value::Object(call.input.clone()), serde_json::json!({ "number": 12, "notes": "TEXT" }));
        assert_eq!(*end, Part::Text(".".to_owned()));
    }
}
