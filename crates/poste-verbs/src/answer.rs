//! A verb's answer, with its notes and warnings.

use poste_core::fold::Outcome;
use poste_core::log::{MessageNo, Position};
use poste_core::text::{ContextName, RecordId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::note::Note;

/// A verb's answer and everything that goes with it.
#[derive(Debug)]
pub struct Answered<A> {
    pub answer: A,
    /// Notes to read before the answer.
    pub first: Vec<Note>,
    /// Next steps and other notes.
    pub next: Vec<Note>,
    /// Warnings, shown in every output format.
    pub warnings: Vec<Note>,
    /// What the answer shows to the caller. Pass it to [`Desk::confirm`](crate::Desk::confirm) once the answer is
    /// printed: nothing counts as shown before that.
    pub marks: Vec<Mark>,
    /// What the verb wrote, to report if the answer cannot be shown.
    pub stored: Vec<Stored>,
    /// A problem with the answer: nothing was found, or something is damaged. A surface prints the answer, then this
    /// error.
    pub failed: Option<Box<Error>>,
}

impl<A> Answered<A> {
    pub fn new(answer: A) -> Self {
        Self {
            answer,
            first: Vec::new(),
            next: Vec::new(),
            warnings: Vec::new(),
            marks: Vec::new(),
            stored: Vec::new(),
            failed: None,
        }
    }

    pub fn next(mut self, note: impl Into<Note>) -> Self {
        self.next.push(note.into());
        self
    }

    pub fn warn(mut self, note: impl Into<Note>) -> Self {
        self.warnings.push(note.into());
        self
    }

    pub fn mark(mut self, mark: Mark) -> Self {
        self.marks.push(mark);
        self
    }

    pub fn with_error(mut self, error: Error) -> Self {
        self.failed = Some(Box::new(error));
        self
    }

    /// Adds a write that is not a single record.
    pub fn stored(mut self, what: impl Into<String>) -> Self {
        self.stored.push(Stored { what: what.into(), id: None });
        self
    }

    /// As [`Self::with_error`], for an answer that leaves out damaged parts, so that it is not taken as complete.
    pub fn damaged(mut self, damage: Vec<String>) -> Self {
        if damage.is_empty() {
            return self;
        }
        self.warnings.extend(damage.into_iter().map(Note::from));
        self.with_error(Error::damaged())
    }

    /// All notes around the answer.
    pub(crate) fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        let failed = self.failed.as_mut().into_iter().flat_map(|error| error.notes_mut());
        self.first.iter_mut().chain(&mut self.next).chain(&mut self.warnings).chain(failed)
    }

    pub fn map<B>(self, change: impl FnOnce(A) -> B) -> Answered<B> {
        Answered {
            answer: change(self.answer),
            first: self.first,
            next: self.next,
            warnings: self.warnings,
            marks: self.marks,
            stored: self.stored,
            failed: self.failed,
        }
    }
}

/// Something that an answer shows to the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    Shown(Vec<MessageNo>),
    ContextRead(ContextName, u64),
}

/// A write that is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// A short description.
    pub what: String,
    /// `None`: not a single record.
    pub id: Option<RecordId>,
}

/// The answer of verbs that change one message's delivery.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    /// The message's number.
    pub number: MessageNo,
    /// Log position of the record.
    pub position: Option<Position>,
    /// What happened: done, failed, released …
    pub what: String,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Changed {
    pub(crate) fn new(number: MessageNo, what: &str, outcome: &Outcome) -> Self {
        Self { number, position: outcome.position, what: what.to_owned(), repeat: outcome.repeat }
    }
}
