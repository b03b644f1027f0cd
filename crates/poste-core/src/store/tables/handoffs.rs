//! Handoffs: who offered what to whom, and what became of it.

use std::sync::LazyLock;

use rusqlite::{Row, params};

use super::{Concern, Optional as _, State, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::Name;
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// What became of a handoff. The first four are somebody's word, the others what became of its delivery.
    HandoffState {
        Pending = 0 "pending",
        Accepted = 1 "accepted",
        Rejected = 2 "rejected",
        Withdrawn = 3 "withdrawn",
        Failed = 4 "failed",
        Dead = 5 "dead",
        Expired = 6 "expired",
        Returned = 7 "returned",
    }
);

impl HandoffState {
    /// What the end of its delivery means for a handoff that nobody has decided about.
    fn of_end(state: State) -> Option<Self> {
        match state {
            State::Failed => Some(Self::Failed),
            State::Dead => Some(Self::Dead),
            State::Expired => Some(Self::Expired),
            State::Returned => Some(Self::Returned),
            State::Pending | State::Claimed | State::Done => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handoff {
    /// That of its message.
    pub number: MessageNo,
    pub position: Position,
    pub at: Timestamp,
    pub sender: Name,
    pub recipient: Address,
    pub checks: u32,
    pub verifies: u32,
    pub state: HandoffState,
    /// It was accepted although something was missing or failed.
    pub overridden: bool,
    /// The record that accepted, rejected or withdrew it.
    pub decision: Option<Position>,
    pub decided_at: Option<Timestamp>,
    pub decided_by: Option<Name>,
    /// The message that told the sender.
    pub answer: Option<MessageNo>,
}

const COLUMNS: &str = "number, position, at, sender, recipient, checks, verifies, state, overridden, decision, \
     decided_at, decided_by, answer";

fn handoff_row(row: &Row<'_>) -> rusqlite::Result<Handoff> {
    Ok(Handoff {
        number: row.get(0)?,
        position: row.get(1)?,
        at: row.get(2)?,
        sender: row.get(3)?,
        recipient: row.get(4)?,
        checks: row.get(5)?,
        verifies: row.get(6)?,
        state: row.get(7)?,
        overridden: row.get(8)?,
        decision: row.get(9)?,
        decided_at: row.get(10)?,
        decided_by: row.get(11)?,
        answer: row.get(12)?,
    })
}

/// Handoffs that meet a condition.
pub fn handoff_where(
    conn: &rusqlite::Connection,
    condition: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<Handoff>, Error> {
    Ok(conn
        .prepare_cached(&format!("SELECT {COLUMNS} FROM handoffs WHERE {condition}"))?
        .query_map(params, handoff_row)?
        .collect::<Result<_, _>>()?)
}

impl Tables<'_> {
    pub fn handoff(&self, number: MessageNo) -> Result<Option<Handoff>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM handoffs WHERE number = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([number], handoff_row).optional()
    }

    pub fn insert_handoff(&mut self, handoff: &Handoff) -> Result<(), Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!("INSERT INTO handoffs ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")
        });
        self.conn.prepare_cached(&SQL)?.execute(params![
            handoff.number,
            handoff.position,
            handoff.at,
            handoff.sender,
            handoff.recipient,
            handoff.checks,
            handoff.verifies,
            handoff.state,
            handoff.overridden,
            handoff.decision,
            handoff.decided_at,
            handoff.decided_by,
            handoff.answer
        ])?;
        self.concern(|| Concern::Handoff(handoff.number));
        Ok(())
    }

    /// Writes somebody's word about a handoff.
    pub fn decide_handoff(&mut self, handoff: &Handoff) -> Result<(), Error> {
        self.conn
            .prepare_cached(
                "UPDATE handoffs SET state = ?2, overridden = ?3, decision = ?4, decided_at = ?5, decided_by = ?6,
                 answer = ?7 WHERE number = ?1",
            )?
            .execute(params![
                handoff.number,
                handoff.state,
                handoff.overridden,
                handoff.decision,
                handoff.decided_at,
                handoff.decided_by,
                handoff.answer
            ])?;
        self.concern(|| Concern::Handoff(handoff.number));
        Ok(())
    }

    /// A delivery ended or began anew: a handoff that nobody has decided about goes with it.
    pub fn move_handoff(&mut self, number: MessageNo, state: State) -> Result<(), Error> {
        let moved = match HandoffState::of_end(state) {
            Some(moved) => moved,
            None if state == State::Pending => HandoffState::Pending,
            None => return Ok(()),
        };
        self.conn
            .prepare_cached("UPDATE handoffs SET state = ?2 WHERE number = ?1 AND decision IS NULL")?
            .execute(params![number, moved])?;
        self.concern(|| Concern::Handoff(number));
        Ok(())
    }
}
