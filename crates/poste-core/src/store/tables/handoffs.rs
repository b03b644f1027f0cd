//! Handoffs: their sender, recipient and outcome.

use rusqlite::params;

use super::rows::Selected as _;
use super::{Concern, State, Tables};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::text::Name;
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// The state of a handoff. The last four are set by the end of its delivery.
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
    /// What the end of its delivery means for an undecided handoff.
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
    /// The number of its message.
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
    /// The message that notified the sender.
    pub answer: Option<MessageNo>,
}

stored!(Handoff in "handoffs": number, position, at, sender, recipient, checks, verifies, state, overridden, decision,
    decided_at, decided_by, answer);

/// Handoffs that meet a condition.
pub fn handoff_where(
    conn: &rusqlite::Connection,
    condition: &str,
    params: impl rusqlite::Params,
) -> Result<Vec<Handoff>, Error> {
    let mut statement = conn.prepare_cached(&format!("{} WHERE {condition}", Handoff::SELECT))?;
    Ok(statement.query_map(params, |row| row.try_into())?.collect::<Result<_, _>>()?)
}

impl Tables<'_> {
    pub fn handoff(&self, number: MessageNo) -> Result<Option<Handoff>, Error> {
        self.one(select!(Handoff, "WHERE number = ?1"), [number])
    }

    pub fn insert_handoff(&mut self, handoff: &Handoff) -> Result<(), Error> {
        self.insert(handoff)?;
        self.concern(|| Concern::Handoff(handoff.number));
        Ok(())
    }

    /// Writes the decision on a handoff.
    pub fn decide_handoff(&mut self, handoff: &Handoff) -> Result<(), Error> {
        update!(self, handoff, "handoffs" SET state, overridden, decision, decided_at, decided_by, answer WHERE number)?;
        self.concern(|| Concern::Handoff(handoff.number));
        Ok(())
    }

    /// Updates an undecided handoff when its delivery ended or is pending again.
    pub fn move_handoff(&mut self, number: MessageNo, state: State) -> Result<(), Error> {
        let moved = match HandoffState::of_end(state) {
            Some(moved) => moved,
            None if state == State::Pending => HandoffState::Pending,
            None => return Ok(()),
        };
        self.execute("UPDATE handoffs SET state = ?2 WHERE number = ?1 AND decision IS NULL", params![number, moved])?;
        self.concern(|| Concern::Handoff(number));
        Ok(())
    }
}
