//! Words for whoever called, with verbs in them that help: `follow it: poste track 12` at a terminal, `track number=12` for
//! a model. A surface writes the verbs in its own form.

use std::fmt;

use poste_core::Timestamp;
use serde_json::{Map, Value};

/// A line of words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Note(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    /// A moment, which people read relative to now.
    Time(Timestamp),
    /// How long something has been so, by when that began.
    Since(Timestamp),
    Call(Call),
}

/// A verb to call. Values that the caller has to fill in are words in capitals, such as `TEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// As in the registry: `track`, `handoff accept`.
    pub verb: String,
    pub input: Map<String, Value>,
}

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

    /// This one, then another.
    pub fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub fn parts(&self) -> &[Part] {
        &self.0
    }

    /// On one line, with moments as they are and verbs in the form of a surface.
    pub fn written(&self, form: impl Fn(&Call) -> String) -> String {
        let parts = self.0.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Time(at) => at.to_string(),
            Part::Since(at) => format!("since {at}"),
            Part::Call(call) => form(call),
        });
        parts.collect()
    }
}

/// Moments as they are, verbs by their names alone: a surface has better words for both.
impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written(|call| call.verb.clone()))
    }
}

impl From<String> for Note {
    fn from(text: String) -> Self {
        Self::default().text(text)
    }
}

impl From<&str> for Note {
    fn from(text: &str) -> Self {
        Self::default().text(text)
    }
}

/// Makes a [`Note`] of texts and verbs: `note!("see whose it is: " [track, number = number])`. Texts take values as
/// `format!` does; a verb of two words is `[handoff accept, number = number]`; a moment stands in parentheses, and `(since at)` is how long
/// ago one was.
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
    ($($parts:tt)+) => { $crate::note!(@parts $crate::note::Note::default(); $($parts)+) };
}

/// A value of a call's input. Everything that is put into one can be written as JSON.
pub fn value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_has_texts_verbs_and_moments_in_their_order() {
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
