//! Errors of commands: what kind, what happened, why, and what to do next. The only place that knows exit codes.

use std::error::Error as _;
use std::io;

use poste_core::fold::{Class, Code, Rejection};
use poste_core::{Error, config, text::InvalidText};
use serde_json::json;

use crate::ui::{escape, talk};

/// What kind of trouble it is. Documented in `docs/exit-codes.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Internal,
    Usage,
    NotFound,
    Refused,
    Conflict,
    Busy,
    TimedOut,
    UnknownOutcome,
    DiskFull,
    NeedsUpgrade,
    Unhealthy,
    /// A question was decided, and not by its first choice.
    Denied,
}

impl Kind {
    #[cfg(test)]
    pub(crate) const ALL: &'static [Self] = &[
        Self::Internal,
        Self::Usage,
        Self::NotFound,
        Self::Refused,
        Self::Conflict,
        Self::Busy,
        Self::TimedOut,
        Self::UnknownOutcome,
        Self::DiskFull,
        Self::NeedsUpgrade,
        Self::Unhealthy,
        Self::Denied,
    ];

    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Internal => 1,
            Self::Usage => 2,
            Self::NotFound => 3,
            Self::Refused => 4,
            Self::Conflict => 5,
            Self::Busy => 6,
            Self::TimedOut => 7,
            Self::UnknownOutcome => 8,
            Self::DiskFull => 9,
            Self::NeedsUpgrade => 10,
            Self::Unhealthy => 11,
            Self::Denied => 12,
        }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Internal => "internal",
            Self::Usage => "usage",
            Self::NotFound => "not_found",
            Self::Refused => "refused",
            Self::Conflict => "conflict",
            Self::Busy => "busy",
            Self::TimedOut => "timed_out",
            Self::UnknownOutcome => "unknown_outcome",
            Self::DiskFull => "disk_full",
            Self::NeedsUpgrade => "needs_upgrade",
            Self::Unhealthy => "unhealthy",
            Self::Denied => "denied",
        }
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
    lies_with_office: bool,
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
            lies_with_office: false,
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
        Self::new(Kind::Internal, "not everything could be read").hint("see what is damaged: poste log verify")
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
            _ if self.is_kept && self.lies_with_office => KEEP_IT,
            kind => kind.exit_code(),
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

impl From<Rejection> for CommandError {
    fn from(rejection: Rejection) -> Self {
        let kind = match rejection.code.class() {
            Class::NotFound => Kind::NotFound,
            Class::Refused => Kind::Refused,
            Class::Conflict => Kind::Conflict,
        };
        let error = Self { code: Some(rejection.code.word()), ..Self::new(kind, rejection.reason) };
        match rejection.code {
            Code::PolicyClash => {
                error.hint("bring this machine's poste.toml up to the policy in force, then change it")
            }
            _ => error,
        }
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

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        if let Error::Rejected(rejection) = error {
            return rejection.into();
        }
        let ask = |ids: &[poste_core::text::RecordId]| {
            ids.first().map(|id| format!("ask what became of it: poste log why --id {id}"))
        };
        let message = error.to_string();
        let (kind, hint) = match &error {
            Error::NoOffice(_) => (Kind::NotFound, Some("make one: poste init".to_owned())),
            Error::Unfinished(_) => (Kind::NotFound, Some("finish it: poste init".to_owned())),
            Error::Emptied { .. } => (
                Kind::Internal,
                Some("go back to a snapshot: poste restore SNAPSHOT --replace; look closer: poste doctor".to_owned()),
            ),
            Error::NotAnOffice(_) => (Kind::Refused, None),
            Error::UnsafeFileSystem { .. } => {
                (Kind::Refused, Some("keep the office on a local disk and point POSTE_HOME to it".to_owned()))
            }
            Error::Replaced(_) => (Kind::Conflict, Some("look at the folder, then run the command again".to_owned())),
            Error::Lost { .. } => (
                Kind::Conflict,
                Some(
                    "look for office.db-wal or a newer copy, or go back: poste restore SNAPSHOT --replace; to go on without \
                     what is lost, remove the file bell in the office folder"
                        .to_owned(),
                ),
            ),
            Error::NeedsUpgrade { needed, .. } => {
                (Kind::NeedsUpgrade, Some(format!("upgrade poste to one that knows version {needed}")))
            }
            Error::UnknownKind { .. } => (Kind::NeedsUpgrade, Some("upgrade poste".to_owned())),
            Error::Busy { .. } => (
                Kind::Busy,
                Some("wait for it, look what it does, or raise POSTE_LOCK_TIMEOUT (for example 30s)".to_owned()),
            ),
            Error::WalFull { .. } => {
                (Kind::Busy, Some("let it finish or end it, then try again; nothing was stored".to_owned()))
            }
            Error::Unknown { ids, .. } => (Kind::UnknownOutcome, ask(ids)),
            Error::DiskFull { ids, .. } => (
                Kind::DiskFull,
                ask(ids).map(|ask| format!("free some space; {ask}")).or(Some("free some space".to_owned())),
            ),
            Error::ClockLeap { .. } => {
                (Kind::Refused, Some("if the clock is right now: poste clock accept --as NAME".to_owned()))
            }
            Error::Malformed(_) | Error::Artifact { .. } | Error::Artifacts(_) | Error::Rejected(_) => {
                (Kind::Refused, None)
            }
            Error::NotEmpty(_) => (Kind::Refused, Some("an office needs a folder of its own, like ./.poste".to_owned())),
            Error::Snapshot { .. } | Error::Occupied(_) => (Kind::Refused, None),
            Error::Config { path, .. }
                if [config::FILE, config::LOCAL_FILE].iter().any(|name| path.ends_with(name)) =>
            {
                (Kind::Usage, Some("see everything that is wrong with it: poste config check".to_owned()))
            }
            Error::Config { .. } => (Kind::Usage, None),
            Error::ReadOnly(_) => (Kind::Refused, Some("check owner and permissions of the folder".to_owned())),
            Error::Damaged(_) => {
                (Kind::Internal, Some("see what else is wrong: poste log verify; what to do: poste doctor".to_owned()))
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                (Kind::Refused, Some("the disk may only be read; mount it for writing, or use another one".to_owned()))
            }
            Error::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                (Kind::Refused, Some("check owner and permissions of the folder".to_owned()))
            }
            Error::Io { .. } | Error::Sqlite(_) => (Kind::Internal, None),
        };
        let mut causes = match &error {
            Error::Artifacts(problems) => problems.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        };
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                causes.push(text);
            }
            source = cause.source();
        }
        let is_of_input =
            matches!(error, Error::Malformed(_) | Error::Artifact { .. } | Error::Artifacts(_) | Error::Rejected(_));
        Self { causes, hints: hint.into_iter().collect(), lies_with_office: !is_of_input, ..Self::new(kind, message) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_may_only_be_read_is_a_refusal() {
        for errno in [rustix::io::Errno::ROFS, rustix::io::Errno::ACCESS, rustix::io::Errno::PERM] {
            let error = Error::Io { path: "/mnt/.poste".into(), source: errno.into() };
            let error = CommandError::from(error);
            assert_eq!((error.kind, error.hints().len()), (Kind::Refused, 1), "{errno:?}");
        }
    }

    #[test]
    fn every_exit_code_is_unique_and_documented() {
        let page = include_str!("../../../docs/exit-codes.md");
        let mut seen = std::collections::BTreeSet::new();
        for kind in Kind::ALL {
            assert!(seen.insert(kind.exit_code()), "{kind:?}");
            let row = format!("| {} | `{}` |", kind.exit_code(), kind.word());
            assert!(page.contains(&row), "docs/exit-codes.md lacks {row}");
        }
    }
}
