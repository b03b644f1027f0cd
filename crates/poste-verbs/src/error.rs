//! Errors as data: a kind, a code, a message, what was stored all the same, and verbs that help.

use std::error::Error as _;
use std::io;

use poste_core::escape;
use poste_core::fold::{Class, Code, Rejection};
use poste_core::store::Unsafe;
use poste_core::store::artifact::FileFault;
use poste_core::text::InvalidText;
use serde_json::{Map, Value, json};

use crate::answer::Stored;
use crate::note::Note;

/// The kind of an error. Surfaces map it to an exit code or a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
    /// A question was decided, but not with its first choice.
    Denied,
    /// No one decided a question in time, so its default applies.
    Defaulted,
    /// No person of this user has adopted the office.
    NotAdopted,
}

impl Kind {
    pub const ALL: &'static [Self] = &[
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
        Self::Defaulted,
        Self::NotAdopted,
    ];

    pub fn word(self) -> &'static str {
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
            Self::Defaulted => "defaulted",
            Self::NotAdopted => "not_adopted",
        }
    }
}

#[derive(Debug)]
pub struct Error {
    pub kind: Kind,
    /// The fold's code for a refusal, or one of a verb.
    pub code: Option<&'static str>,
    pub message: String,
    /// The message with its times as data, for a surface that writes those in its own form.
    pub wording: Option<Box<Note>>,
    pub causes: Vec<Note>,
    pub hints: Vec<Note>,
    /// A partial answer despite the failure, for example when not all parties have agreed.
    pub partial: Option<Box<Value>>,
    /// What the verb did before it failed.
    pub before: Option<Box<Before>>,
    /// The fault is the office's state, not the input: the same input may work later.
    pub is_office_fault: bool,
}

/// The code for a file that does not exist.
pub const MISSING_FILE: &str = "missing_file";
/// The code for a file with nothing in it.
pub const EMPTY_FILE: &str = "empty_file";

fn code_of(error: &poste_core::Error) -> Option<&'static str> {
    match error {
        poste_core::Error::Artifact { fault: FileFault::Missing, .. } => Some(MISSING_FILE),
        poste_core::Error::Artifact { fault: FileFault::Empty, .. } => Some(EMPTY_FILE),
        poste_core::Error::Unsafe { .. } => Some("unsafe_office"),
        poste_core::Error::NotAdopted { .. } => Some(NOT_ADOPTED),
        _ => None,
    }
}

/// Writes and warnings of a verb that failed.
#[derive(Debug, Default)]
pub struct Before {
    pub stored: Vec<Stored>,
    pub warnings: Vec<Note>,
}

impl Error {
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self {
            kind,
            code: None,
            message: message.into(),
            wording: None,
            causes: Vec::new(),
            hints: Vec::new(),
            partial: None,
            before: None,
            is_office_fault: false,
        }
    }

    /// An error whose message is a note, with times in it.
    pub fn worded(kind: Kind, wording: Note) -> Self {
        Self { wording: Some(Box::new(wording.clone())), ..Self::new(kind, wording.to_string()) }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Kind::Usage, message)
    }

    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, message)
    }

    pub fn refused(message: impl Into<String>) -> Self {
        Self::new(Kind::Refused, message)
    }

    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(Kind::Conflict, message)
    }

    /// A broken invariant.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, message)
    }

    /// The error after an answer that leaves out damaged parts, which its warnings name.
    pub fn damaged() -> Self {
        Self::internal("not everything could be read").hint(note!("see what is damaged: " [log verify]))
    }

    /// The fold answered a proposal with an effect that its kind never has.
    pub fn unexpected_effect(what: &str) -> Self {
        Self::internal(format!("the office answered {what} with an unexpected effect"))
    }

    pub fn code(mut self, code: &'static str) -> Self {
        self.code = Some(code);
        self
    }

    pub fn hint(mut self, hint: impl Into<Note>) -> Self {
        self.hints.push(hint.into());
        self
    }

    pub fn cause(mut self, cause: impl Into<Note>) -> Self {
        self.causes.push(cause.into());
        self
    }

    pub fn partial(mut self, answer: &impl serde::Serialize) -> Self {
        self.partial = serde_json::to_value(answer).ok().map(Box::new);
        self
    }

    /// All notes of this error.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.wording.as_deref_mut().into_iter().chain(&mut self.causes).chain(&mut self.hints)
    }

    /// The error as lines, with notes in the form of a surface. Notes that it cannot write are left out.
    pub fn lines(&self, write: impl Fn(&Note) -> Option<String>) -> Vec<String> {
        // A decision is an answer, not an error.
        let (title, because) =
            if matches!(self.kind, Kind::Denied | Kind::Defaulted) { ("", "note: ") } else { ("error: ", "cause: ") };
        let message = self.wording.as_deref().and_then(&write).unwrap_or_else(|| self.message.clone());
        let labelled = |notes: &[Note], label: &str| -> Vec<String> {
            notes.iter().filter_map(&write).map(|text| format!("{label}{}", escape::block(&text))).collect()
        };
        let mut lines = vec![format!("{title}{}", escape::block(&message))];
        lines.extend(labelled(&self.causes, because));
        lines.extend(labelled(&self.hints, "hint: "));
        lines
    }

    /// Adds what was written before the error.
    pub fn after(mut self, stored: &[Stored]) -> Self {
        self.before.get_or_insert_default().stored = stored.to_vec();
        self
    }

    /// The error as data, for programs: notes in the form of a surface, and the verbs in hints with their inputs.
    /// Documented in `docs/exit-codes.md`.
    pub fn data(&self, write: impl Fn(&Note) -> Option<String>) -> Map<String, Value> {
        let written = |notes: &[Note]| notes.iter().filter_map(&write).collect::<Vec<_>>();
        let calls = self.hints.iter().flat_map(Note::calls);
        let stored = self.before.iter().flat_map(|before| &before.stored);
        let data = json!({
            "kind": self.kind.word(),
            "code": self.code,
            "message": self.wording.as_deref().and_then(&write).unwrap_or_else(|| self.message.clone()),
            "causes": written(&self.causes),
            "hints": written(&self.hints),
            "calls": calls.map(|call| json!({ "verb": call.verb, "input": call.input })).collect::<Vec<_>>(),
            "stored": stored.map(|stored| json!({ "what": stored.what, "id": stored.id })).collect::<Vec<_>>(),
            "partial": self.partial,
        });
        match data {
            Value::Object(data) => data,
            _ => Map::new(),
        }
    }

    pub fn is(&self, code: Code) -> bool {
        self.code == Some(code.word())
    }
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        let kind = match rejection.code.class() {
            Class::NotFound => Kind::NotFound,
            Class::Refused => Kind::Refused,
            Class::Conflict => Kind::Conflict,
        };
        let error = Self { code: Some(rejection.code.word()), ..Self::new(kind, rejection.reason) };
        match rejection.code {
            Code::PolicyClash => error.hint("update this machine's poste.toml to the policy in force, then change it"),
            _ => error,
        }
    }
}

impl From<InvalidText> for Error {
    fn from(error: InvalidText) -> Self {
        Self::usage(error.to_string())
    }
}

impl From<poste_core::Error> for Error {
    fn from(error: poste_core::Error) -> Self {
        use poste_core::Error as Core;
        if let Core::Rejected(rejection) = error {
            return rejection.into();
        }
        if let Core::Secrets(_) = error {
            return crate::secret::refusal(error.to_string());
        }
        let message = error.to_string();
        let (kind, hint) = kind_and_hint(&error);
        let mut causes: Vec<Note> = match &error {
            Core::Artifacts(problems) => problems.iter().map(|problem| problem.to_string().into()).collect(),
            _ => Vec::new(),
        };
        let mut source = error.source();
        while let Some(cause) = source {
            let text = cause.to_string();
            if !message.contains(&text) {
                causes.push(text.into());
            }
            source = cause.source();
        }
        let is_of_input =
            matches!(error, Core::Malformed(_) | Core::Artifact { .. } | Core::Artifacts(_) | Core::Rejected(_));
        let (code, hints) = (code_of(&error), hint.into_iter().collect());
        Self { code, causes, hints, is_office_fault: !is_of_input, ..Self::new(kind, message) }
    }
}

/// The code of an error: a person of this user has to adopt the office first.
pub const NOT_ADOPTED: &str = "not_adopted";

fn kind_and_hint(error: &poste_core::Error) -> (Kind, Option<Note>) {
    use poste_core::Error as Core;
    let text = |text: &str| Some(Note::from(text));
    match error {
        Core::NoOffice(_) => (Kind::NotFound, Some(note!("make one: "[init]))),
        Core::Unfinished(_) => (Kind::NotFound, Some(note!("finish it: "[init]))),
        Core::Emptied { .. } => (
            Kind::Internal,
            Some(
                note!("go back to a snapshot: " [restore, snapshot = "SNAPSHOT", replace = true] "; examine it: " [doctor]),
            ),
        ),
        Core::NotAdopted { office: Some(office), .. } => {
            (Kind::NotAdopted, Some(note!("if you know where it comes from, adopt it: " [adopt, id = office])))
        }
        Core::NotAdopted { office: None, .. } => {
            (Kind::NotAdopted, Some(note!("look at it, and adopt it if you know where it comes from: "[adopt])))
        }
        Core::NotAnOffice(_) => (Kind::Refused, None),
        Core::UnsafeFileSystem { .. } => {
            (Kind::Refused, Some(note!("keep the office on a local disk and name its folder: " @Office)))
        }
        Core::Unsafe { why, .. } => (Kind::Refused, Some(how_to_make_safe(*why))),
        Core::Replaced(_) => (Kind::Conflict, text("check the folder, then run the command again")),
        Core::Lost { .. } => (
            Kind::Conflict,
            Some(
                note!("look for office.db-wal or a newer copy, or go back: " [restore, snapshot = "SNAPSHOT", replace = true] "; to continue without the lost records, remove the file bell in the office folder"),
            ),
        ),
        Core::NeedsUpgrade { needed, .. } => {
            (Kind::NeedsUpgrade, Some(note!("upgrade poste to a release that supports version {needed}")))
        }
        Core::UnknownKind { .. } => (Kind::NeedsUpgrade, text("upgrade poste")),
        Core::Busy { .. } => (Kind::Busy, Some(note!("wait for it, see what it does, or wait longer: " @LockTimeout))),
        Core::WalFull { .. } => (Kind::Busy, text("let it finish or stop it, then try again; nothing was stored")),
        Core::Unreachable { .. } => (Kind::Busy, text("try again later; nothing was stored")),
        Core::Unknown { ids, .. } => {
            (Kind::UnknownOutcome, ids.first().map(|id| note!("look up the outcome: " [log why id, id = id])))
        }
        Core::DiskFull { ids, .. } => (
            Kind::DiskFull,
            match ids.first() {
                Some(id) => Some(note!("free some space; look up the outcome: " [log why id, id = id])),
                None => text("free some space"),
            },
        ),
        Core::ClockLeap { .. } => (Kind::Refused, Some(note!("if the clock is right: " [clock accept, as = "NAME"]))),
        Core::Malformed(_) | Core::Artifact { .. } | Core::Artifacts(_) | Core::Secrets(_) | Core::Rejected(_) => {
            (Kind::Refused, None)
        }
        Core::NotEmpty(_) => (Kind::Refused, text("an office needs a folder of its own, like ./.poste")),
        Core::Snapshot { .. } | Core::Occupied(_) => (Kind::Refused, None),
        Core::Config { path, .. }
            if [poste_config::FILE, poste_config::LOCAL_FILE].iter().any(|name| path.ends_with(name)) =>
        {
            (Kind::Usage, Some(note!("list all problems: " [config check])))
        }
        Core::Config { .. } => (Kind::Usage, None),
        Core::ReadOnly(_) => (Kind::Refused, text("check owner and permissions of the folder")),
        Core::Damaged(_) | Core::DatabaseDamaged(_) => {
            (Kind::Internal, Some(note!("check the rest: " [log verify] "; what to do: " [doctor])))
        }
        Core::Io { source, .. } if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
            (Kind::Refused, text("the disk is read-only; mount it for writing, or use another one"))
        }
        Core::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
            (Kind::Refused, text("check owner and permissions of the folder"))
        }
        Core::Io { .. } | Core::Sqlite(_) => (Kind::Internal, None),
    }
}

fn how_to_make_safe(why: Unsafe) -> Note {
    match why {
        Unsafe::Link => note!("remove the link, or replace it with what it leads to; examine the office: "[doctor]),
        Unsafe::Owner(_) => "an office is for one user: run poste as its owner, or use an office of your own".into(),
        Unsafe::Mode(_) => note!("take the access of other users away: " [doctor, fix = true]),
    }
}
