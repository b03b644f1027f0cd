//! Approvals: questions that need a decision, and their outcomes.

use super::{Concern, Due, DueItem, Tables};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::{Label, Name, Word};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// The state of a question.
    ApprovalState {
        Open = 0 "open",
        Answered = 1 "answered",
        /// It was not answered by the deadline, so its default was applied.
        Defaulted = 2 "defaulted",
        /// The deadline passed, and there was no default.
        Unanswered = 3 "unanswered",
        /// Its conversation was closed before.
        Closed = 4 "closed",
        /// The asker retired before.
        Withdrawn = 5 "withdrawn",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// The number of the message that asks.
    pub number: MessageNo,
    pub position: Position,
    pub at: Timestamp,
    pub asker: Name,
    pub conversation: Label,
    /// A plan instead of a question; its answer has another type.
    pub plan: bool,
    pub choices: Vec<Word>,
    pub default: Option<Word>,
    pub deadline: Option<Timestamp>,
    pub state: ApprovalState,
    pub choice: Option<Word>,
    /// The agent that answered.
    pub decided_by: Option<Name>,
    /// The message that answers.
    pub answer: Option<MessageNo>,
    pub ended_at: Option<Timestamp>,
    /// The record that decided or ended it.
    pub ended_by: Option<Position>,
}

impl Approval {
    pub fn is_open(&self) -> bool {
        self.state == ApprovalState::Open
    }

    /// The row of `due` for this approval.
    fn due(&self) -> Option<DueItem> {
        let at = self.deadline.filter(|_| self.is_open())?;
        Some(DueItem { at, what: Due::Approval, subject: self.number.0 })
    }
}

stored!(Approval in "approvals": number, position, at, asker, conversation, plan, choices with words,
    default as fallback, deadline, state, choice, decided_by, answer, ended_at, ended_by);

/// Several words in one column, separated by spaces.
mod words {
    use rusqlite::types::Type;

    use crate::text::Word;

    pub(super) fn get(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<Word>> {
        let text: String = row.get(column)?;
        let words: Result<_, _> = text.split(' ').map(str::parse).collect();
        words.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
    }

    pub(super) fn put(words: &[Word]) -> String {
        words.iter().map(Word::as_str).collect::<Vec<_>>().join(" ")
    }
}

impl Tables<'_> {
    pub fn approval(&self, number: MessageNo) -> Result<Option<Approval>, Error> {
        self.one(select!(Approval, "WHERE number = ?1"), [number])
    }

    /// The open approvals of an asker, by number.
    pub fn open_approvals_of(&self, asker: &Name) -> Result<Vec<Approval>, Error> {
        self.all(select!(Approval, "WHERE asker = ?1 AND state = 0 ORDER BY number"), [asker])
    }

    /// The open approvals of a conversation, by number.
    pub fn open_approvals_in(&self, conversation: &Label) -> Result<Vec<Approval>, Error> {
        self.all(select!(Approval, "WHERE conversation = ?1 AND state = 0 ORDER BY number"), [conversation])
    }

    /// Every open approval, oldest first.
    pub fn open_approvals(&self) -> Result<Vec<Approval>, Error> {
        self.all(select!(Approval, "WHERE state = 0 ORDER BY number"), [])
    }

    /// The newest approvals, decided or not.
    pub fn newest_approvals(&self, limit: usize) -> Result<Vec<Approval>, Error> {
        self.all(select!(Approval, "ORDER BY number DESC LIMIT ?1"), [limit])
    }

    pub fn insert_approval(&mut self, approval: &Approval) -> Result<(), Error> {
        self.insert(approval)?;
        self.concern(|| Concern::Approval(approval.number));
        self.move_due(None, approval.due())
    }

    /// Writes how an approval ended, and removes its deadline.
    pub fn end_approval(&mut self, before: &Approval, after: &Approval) -> Result<(), Error> {
        update!(self, after, "approvals" SET state, choice, decided_by, answer, ended_at, ended_by WHERE number)?;
        self.concern(|| Concern::Approval(after.number));
        self.move_due(before.due(), None)
    }
}
