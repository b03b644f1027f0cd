//! Errors of commands: what kind, what happened, why, and what to do next. The only place that knows exit codes.

use std::io;
use std::ops::Deref;

use poste_core::fold::Rejection;
use poste_core::text::InvalidText;
use poste_verbs::answer::Stored;
use poste_verbs::{Error, Note};
use serde_json::{Value, json};

use crate::notes;
use crate::ui::{Ui, escape, talk};

pub(crate) use poste_verbs::Kind;

/// Documented in `docs/exit-codes.md`.
pub(crate) fn exit_code(kind: Kind) -> u8 {
    match kind {
        Kind::Internal => 1,
        Kind::Usage => 2,
        Kind::NotFound => 3,
        Kind::Refused => 4,
        Kind::Conflict => 5,
        Kind::Busy => 6,
        Kind::TimedOut => 7,
        Kind::UnknownOutcome => 8,
        Kind::DiskFull => 9,
        Kind::NeedsUpgrade => 10,
        Kind::Unhealthy => 11,
        Kind::Denied => 12,
    }
}

/// An error of a verb or of a command, and what the surface knows of it.
#[derive(Debug)]
pub(crate) struct CommandError {
    error: Box<Error>,
    /// It is about the answer, not about what the command did.
    unprinted: Option<io::ErrorKind>,
    /// Whoever handed something over is to keep it, if this passes.
    is_kept: bool,
}

/// EX_TEMPFAIL of sysexits.h. Mail servers keep what a program ends so for, and try it again.
const KEEP_IT: u8 = 75;

impl CommandError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Error::new(kind, message).into()
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// An error of a verb, with moments as they are to be shown.
    pub(crate) fn of(ui: &Ui, mut error: Error) -> Self {
        error.notes_mut().for_each(|note| *note = notes::timed(ui, std::mem::take(note)));
        if let Some(wording) = &error.wording {
            error.message = notes::plain(wording);
        }
        error.into()
    }

    pub(crate) fn code(self, code: &'static str) -> Self {
        Self { error: Box::new(self.error.code(code)), ..self }
    }

    pub(crate) fn hint(self, hint: impl Into<Note>) -> Self {
        Self { error: Box::new(self.error.hint(hint)), ..self }
    }

    pub(crate) fn cause(self, cause: impl Into<Note>) -> Self {
        Self { error: Box::new(self.error.cause(cause)), ..self }
    }

    pub(crate) fn into_inner(self) -> Error {
        *self.error
    }

    /// With what the command wrote before it.
    pub(crate) fn after(self, stored: &[Stored]) -> Self {
        Self { error: Box::new(self.error.after(stored)), ..self }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.unprinted == Some(io::ErrorKind::BrokenPipe)
    }

    /// What lies with the office passes; what was handed over is tried again then.
    pub(crate) fn kept_by_sender(mut self) -> Self {
        self.is_kept = true;
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        use Kind::*;
        match self.kind {
            Internal | Busy | UnknownOutcome | DiskFull | NeedsUpgrade if self.is_kept => KEEP_IT,
            _ if self.is_kept && self.is_office_fault => KEEP_IT,
            kind => exit_code(kind),
        }
    }

    /// To stderr, for people or as JSON.
    pub(crate) fn print(&self, json: bool) {
        for line in self.lines(json) {
            talk(&line);
        }
    }

    /// What is printed, safe on a terminal.
    pub(crate) fn lines(&self, json: bool) -> Vec<String> {
        match json {
            true => vec![escape::json_line(&self.json().to_string()).into_owned()],
            false => self.error.lines(|note| Some(notes::plain(note))),
        }
    }

    /// What happened, in one line.
    pub(crate) fn text(&self) -> String {
        self.wording.as_deref().map_or_else(|| self.message.clone(), notes::plain)
    }

    /// What helps, as people at a terminal read it.
    pub(crate) fn hints(&self) -> Vec<String> {
        self.hints.iter().map(notes::plain).collect()
    }

    fn json(&self) -> Value {
        let mut data = self.data(|note| Some(notes::plain(note)));
        data.shift_insert(1, "exit_code".to_owned(), self.exit_code().into());
        json!({ "error": data })
    }
}

impl Deref for CommandError {
    type Target = Error;

    fn deref(&self) -> &Error {
        &self.error
    }
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Self { error: Box::new(error), unprinted: None, is_kept: false }
    }
}

impl From<Rejection> for CommandError {
    fn from(rejection: Rejection) -> Self {
        Error::from(rejection).into()
    }
}

impl From<InvalidText> for CommandError {
    fn from(error: InvalidText) -> Self {
        Error::from(error).into()
    }
}

impl From<poste_core::Error> for CommandError {
    fn from(error: poste_core::Error) -> Self {
        Error::from(error).into()
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        let unprinted = Some(error.kind());
        Self { unprinted, ..Self::new(Kind::Internal, format!("writing the answer failed: {error}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_is_unique_and_documented() {
        let page = include_str!("../../../docs/exit-codes.md");
        let mut seen = std::collections::BTreeSet::new();
        for kind in Kind::ALL {
            assert!(seen.insert(exit_code(*kind)), "{kind:?}");
            let row = format!("| {} | `{}` |", exit_code(*kind), kind.word());
            assert!(page.contains(&row), "docs/exit-codes.md lacks {row}");
        }
    }
}
