//! Approvals: questions that want a decision, and what became of them.

use std::sync::LazyLock;

use rusqlite::{Row, params};

use super::{Concern, Due, DueItem, Optional as _, Tables};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::{Label, Name, Word};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// What became of a question.
    ApprovalState {
        Open = 0 "open",
        Answered = 1 "answered",
        /// Nobody answered by the deadline; the default is the decision.
        Defaulted = 2 "defaulted",
        /// The deadline passed, and there was no default.
        Unanswered = 3 "unanswered",
        /// Its conversation was closed before.
        Closed = 4 "closed",
        /// Whoever asked retired before.
        Withdrawn = 5 "withdrawn",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approval {
    /// Of the message that asks.
    pub number: MessageNo,
    pub position: Position,
    pub at: Timestamp,
    pub asker: Name,
    pub conversation: Label,
    /// A plan, not a question: its answer has another type.
    pub plan: bool,
    pub choices: Vec<Word>,
    pub default: Option<Word>,
    pub deadline: Option<Timestamp>,
    pub state: ApprovalState,
    pub choice: Option<Word>,
    /// Who answered.
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

    /// The row of `due` it stands for.
    fn due(&self) -> Option<DueItem> {
        let at = self.deadline.filter(|_| self.is_open())?;
        Some(DueItem { at, what: Due::Approval, subject: self.number.0 })
    }
}

const COLUMNS: &str = "number, position, at, asker, conversation, plan, choices, fallback, deadline, state, choice, \
     decided_by, answer, ended_at, ended_by";

fn approval_row(row: &Row<'_>) -> rusqlite::Result<Approval> {
    let choices: String = row.get(6)?;
    let choices = choices.split(' ').map(str::parse).collect::<Result<_, _>>();
    Ok(Approval {
        number: row.get(0)?,
        position: row.get(1)?,
        at: row.get(2)?,
        asker: row.get(3)?,
        conversation: row.get(4)?,
        plan: row.get(5)?,
        choices: choices.map_err(|error| {
            rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, Box::new(error))
        })?,
        default: row.get(7)?,
        deadline: row.get(8)?,
        state: row.get(9)?,
        choice: row.get(10)?,
        decided_by: row.get(11)?,
        answer: row.get(12)?,
        ended_at: row.get(13)?,
        ended_by: row.get(14)?,
    })
}

impl Tables<'_> {
    pub fn approval(&self, number: MessageNo) -> Result<Option<Approval>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM approvals WHERE number = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([number], approval_row).optional()
    }

    /// What an agent asked and nobody decided yet, by number.
    pub fn open_approvals_of(&self, asker: &Name) -> Result<Vec<Approval>, Error> {
        self.approvals_where("asker = ?1 AND state = 0 ORDER BY number", [asker])
    }

    /// Questions of a conversation that nobody decided yet, by number.
    pub fn open_approvals_in(&self, conversation: &Label) -> Result<Vec<Approval>, Error> {
        self.approvals_where("conversation = ?1 AND state = 0 ORDER BY number", [conversation])
    }

    /// Every question nobody decided yet, the oldest first.
    pub fn open_approvals(&self) -> Result<Vec<Approval>, Error> {
        self.approvals_where("state = 0 ORDER BY number", [])
    }

    /// The newest questions, decided or not.
    pub fn newest_approvals(&self, limit: usize) -> Result<Vec<Approval>, Error> {
        self.approvals_where("TRUE ORDER BY number DESC LIMIT ?1", [limit])
    }

    fn approvals_where(&self, condition: &str, params: impl rusqlite::Params) -> Result<Vec<Approval>, Error> {
        Ok(self
            .conn
            .prepare_cached(&format!("SELECT {COLUMNS} FROM approvals WHERE {condition}"))?
            .query_map(params, approval_row)?
            .collect::<Result<_, _>>()?)
    }

    pub fn insert_approval(&mut self, approval: &Approval) -> Result<(), Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "INSERT INTO approvals ({COLUMNS})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"
            )
        });
        let choices: Vec<&str> = approval.choices.iter().map(Word::as_str).collect();
        self.conn.prepare_cached(&SQL)?.execute(params![
            approval.number,
            approval.position,
            approval.at,
            approval.asker,
            approval.conversation,
            approval.plan,
            choices.join(" "),
            approval.default,
            approval.deadline,
            approval.state,
            approval.choice,
            approval.decided_by,
            approval.answer,
            approval.ended_at,
            approval.ended_by
        ])?;
        self.concern(|| Concern::Approval(approval.number));
        match approval.due() {
            Some(due) => self.insert_due(due),
            None => Ok(()),
        }
    }

    /// Writes how a question ended; its deadline goes with it.
    pub fn end_approval(&mut self, before: &Approval, after: &Approval) -> Result<(), Error> {
        if let Some(due) = before.due() {
            self.delete_due(due)?;
        }
        self.conn
            .prepare_cached(
                "UPDATE approvals SET state = ?2, choice = ?3, decided_by = ?4, answer = ?5, ended_at = ?6, ended_by = ?7
                 WHERE number = ?1",
            )?
            .execute(params![
                after.number,
                after.state,
                after.choice,
                after.decided_by,
                after.answer,
                after.ended_at,
                after.ended_by
            ])?;
        self.concern(|| Concern::Approval(after.number));
        Ok(())
    }
}
