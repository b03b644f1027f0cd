//! What comes back from a verb.

use poste_core::fold::Outcome;
use poste_core::log::{MessageNo, Position};
use poste_core::text::{ContextName, RecordId};
use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::note::Note;

/// The answer of a verb and what belongs to it.
#[derive(Debug)]
pub struct Answered<A> {
    pub answer: A,
    /// What to know before it is read.
    pub first: Vec<Note>,
    /// What to do or to know next.
    pub next: Vec<Note>,
    /// What a person must not miss, whatever they asked for.
    pub warnings: Vec<Note>,
    /// What the answer puts before the caller. Confirm it with [`Desk::confirm`](crate::Desk::confirm) after it was
    /// printed, so that nothing counts as shown that nobody saw.
    pub marks: Vec<Mark>,
    /// What the verb wrote, for a surface that cannot show the answer.
    pub stored: Vec<Stored>,
    /// The answer tells of something that is not as it should be: nothing was found, or what was found is damaged. A
    /// surface gives the answer first, then this error.
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

    pub fn but(mut self, error: Error) -> Self {
        self.failed = Some(Box::new(error));
        self
    }

    /// Something was written that is no single record.
    pub fn stored(mut self, what: impl Into<String>) -> Self {
        self.stored.push(Stored { what: what.into(), id: None });
        self
    }

    /// As [`Self::but`], of an answer that goes past what is damaged: nobody may take what is left for the whole.
    pub fn damaged(mut self, damage: Vec<String>) -> Self {
        if damage.is_empty() {
            return self;
        }
        self.warnings.extend(damage.into_iter().map(Note::from));
        self.but(Error::damaged())
    }

    /// Everything that is said beside the answer.
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

/// Something that is put before the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    Shown(Vec<MessageNo>),
    ContextRead(ContextName, u64),
}

/// A write that is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// What it is, in a few words.
    pub what: String,
    /// `None`: it is no single record.
    pub id: Option<RecordId>,
}

/// The answer of verbs that change one message's delivery.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    pub number: MessageNo,
    /// The record that did it.
    pub position: Option<Position>,
    /// What happened, in a word: done, failed, released …
    pub what: String,
    /// The same change was made before, under the same id.
    pub repeat: bool,
}

impl Changed {
    pub(crate) fn new(number: MessageNo, what: &str, outcome: &Outcome) -> Self {
        Self { number, position: outcome.position, what: what.to_owned(), repeat: outcome.repeat }
    }
}
