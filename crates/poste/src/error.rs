//! Errors of commands: what kind, what happened, why, and what to do next. The only place that knows exit codes.

use std::io;

use poste_core::fold::Rejection;
use poste_core::text::InvalidText;
use poste_verbs::Note;
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

#[derive(Debug)]
pub(crate) struct CommandError {
    pub kind: Kind,
    pub message: String,
    /// The fold's own word for a refusal.
    pub code: Option<&'static str>,
    causes: Vec<String>,
    hints: Vec<String>,
    /// It is about the answer, not about what the command did.
    unprinted: Option<io::ErrorKind>,
    /// Whoever handed something over is to keep it, if this passes.
    is_kept: bool,
    /// It is about the office as it stands there, not about what was asked.
    is_office_fault: bool,
    /// What can be answered all the same.
    pub partial: Option<Box<Value>>,
}

/// EX_TEMPFAIL of sysexits.h. Mail servers keep what a program ends so for, and try it again.
const KEEP_IT: u8 = 75;

impl CommandError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            code: None,
            causes: Vec::new(),
            hints: Vec::new(),
            unprinted: None,
            is_kept: false,
            is_office_fault: false,
            partial: None,
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    /// After an answer that goes past what is damaged. What that is was told by then.
    pub(crate) fn damaged() -> Self {
        poste_verbs::Error::damaged().into()
    }

    pub(crate) fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub(crate) fn cause(mut self, cause: impl Into<String>) -> Self {
        self.causes.push(cause.into());
        self
    }

    pub(crate) fn hints(&self) -> &[String] {
        &self.hints
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.unprinted == Some(io::ErrorKind::BrokenPipe)
    }

    pub(crate) fn is_unprinted(&self) -> bool {
        self.unprinted.is_some()
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
        if json {
            let error = json!({ "error": {
                "kind": self.kind.word(),
                "exit_code": self.exit_code(),
                "code": self.code,
                "message": self.message,
                "causes": self.causes,
                "hints": self.hints,
            }});
            return vec![escape::json_line(&error.to_string()).into_owned()];
        }
        // A decision is an answer, whichever way it went.
        let (title, because) = if self.kind == Kind::Denied { ("", "note: ") } else { ("error: ", "cause: ") };
        let mut lines = vec![format!("{title}{}", escape::block(&self.message))];
        lines.extend(self.causes.iter().map(|cause| format!("{because}{}", escape::block(cause))));
        lines.extend(self.hints.iter().map(|hint| format!("hint: {}", escape::block(hint))));
        lines
    }
}

impl CommandError {
    /// An error of a verb, with moments as they are to be shown.
    pub(crate) fn of(ui: &Ui, error: poste_verbs::Error) -> Self {
        let texts = |texts: &[Note]| texts.iter().map(|note| notes::text(ui, note)).collect();
        let (causes, hints) = (texts(&error.causes), texts(&error.hints));
        let message = error.wording.as_ref().map_or_else(|| error.message.clone(), |note| notes::text(ui, note));
        Self { message, causes, hints, ..error.into() }
    }
}

impl From<poste_verbs::Error> for CommandError {
    fn from(error: poste_verbs::Error) -> Self {
        Self {
            kind: error.kind,
            code: error.code,
            hints: error.hints.iter().map(notes::plain).collect(),
            causes: error.causes.iter().map(notes::plain).collect(),
            is_office_fault: error.is_office_fault,
            partial: error.partial,
            ..Self::new(error.kind, error.message)
        }
    }
}

impl From<Rejection> for CommandError {
    fn from(rejection: Rejection) -> Self {
        poste_verbs::Error::from(rejection).into()
    }
}

impl From<InvalidText> for CommandError {
    fn from(error: InvalidText) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> Self {
        Self {
            unprinted: Some(error.kind()),
            ..Self::new(Kind::Internal, format!("writing the answer failed: {error}"))
        }
    }
}

impl From<poste_core::Error> for CommandError {
    fn from(error: poste_core::Error) -> Self {
        poste_verbs::Error::from(error).into()
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
