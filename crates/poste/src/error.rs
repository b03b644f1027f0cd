//! Errors of commands: kind, message, causes and hints. The only place that knows exit codes.

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
        Kind::Defaulted => 13,
        Kind::NotAdopted => 14,
    }
}

/// An error of a verb or a command, with what only the command line knows about it.
#[derive(Debug)]
pub(crate) struct CommandError {
    error: Box<Error>,
    /// Printing the answer failed. The command itself succeeded.
    unprinted: Option<io::ErrorKind>,
    /// The program that handed over the input should keep it and retry, if the error is temporary.
    is_kept: bool,
}

/// From sysexits.h. A mail server keeps mail that a program refuses with this code, and retries.
const EX_TEMPFAIL: u8 = 75;

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

    /// An error of a verb, with times in the chosen style.
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

    /// Adds what the command stored before the error.
    pub(crate) fn after(self, stored: &[Stored]) -> Self {
        Self { error: Box::new(self.error.after(stored)), ..self }
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.unprinted == Some(io::ErrorKind::BrokenPipe)
    }

    /// For input handed over by another program: a temporary error tells it to retry.
    pub(crate) fn retryable_by_sender(mut self) -> Self {
        self.is_kept = true;
        self
    }

    pub(crate) fn exit_code(&self) -> u8 {
        use Kind::*;
        match self.kind {
            Internal | Busy | UnknownOutcome | DiskFull | NeedsUpgrade if self.is_kept => EX_TEMPFAIL,
            _ if self.is_kept && self.is_office_fault => EX_TEMPFAIL,
            kind => exit_code(kind),
        }
    }

    /// Prints to stderr, as text or JSON.
    pub(crate) fn print(&self, json: bool) {
        for line in self.lines(json) {
            talk(&line);
        }
    }

    /// The printed lines, safe on a terminal.
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

    /// The hints, with command lines that can be pasted.
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
