//! Queries of supervisors and sweeps: which runs are in progress, and whether a run still holds its messages.

use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Delivery, Event, EventRow, RunRow, State};
use crate::text::{Name, Session};
use crate::time::Timestamp;

/// A run as recorded, without its output.
pub fn run_row(store: &Store, run: &Session) -> Result<Option<RunRow>, Error> {
    store.tables()?.run(run)
}

/// Runs that have not ended, of one agent or of all.
pub fn running_rows(store: &Store, agent: Option<&Name>) -> Result<Vec<RunRow>, Error> {
    let tables = store.tables()?;
    match agent {
        Some(agent) => tables.running(agent),
        None => tables.all_running(),
    }
}

/// Runs that took a message and have not ended.
pub fn running_rows_of(store: &Store, message: MessageNo) -> Result<Vec<RunRow>, Error> {
    let mut rows = store.tables()?.runs_of_message(message)?;
    rows.retain(RunRow::is_running);
    Ok(rows)
}

/// The messages a run took.
pub fn messages_of_run(store: &Store, run: &Session) -> Result<Vec<MessageNo>, Error> {
    store.tables()?.messages_of_run(run)
}

/// Every delivery of a message.
pub fn deliveries_of(store: &Store, message: MessageNo) -> Result<Vec<Delivery>, Error> {
    store.tables()?.deliveries_of(message)
}

/// The default lease.
pub fn lease_ms(store: &Store) -> Result<i64, Error> {
    Ok(store.tables()?.policy()?.settings.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT))
}

/// The standing of a run's message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    Held,
    /// The program finished it, in the session of the run.
    Finished,
    /// The program released it.
    GivenBack,
    /// Another agent took it, or the lease expired.
    Lost,
}

impl Standing {
    /// The run no longer has it: another agent has it, ended it, or may take it.
    pub fn is_lost(self) -> bool {
        matches!(self, Self::GivenBack | Self::Lost)
    }
}

/// A run that took messages, and the token of its claim.
#[derive(Debug, Clone)]
pub struct Holder {
    pub agent: Name,
    pub run: Session,
    pub token: Position,
}

impl Holder {
    /// The delivery it won; none if its conversation is archived.
    pub fn delivery(&self, store: &Store, message: MessageNo) -> Result<Option<Delivery>, Error> {
        store.tables()?.won_by(message, &self.agent, self.token)
    }

    pub fn standing(&self, store: &Store, message: MessageNo) -> Result<Standing, Error> {
        let Some(delivery) = self.delivery(store, message)? else { return Ok(Standing::Lost) };
        let is_latest = delivery.token == Some(self.token);
        if is_latest && delivery.state == State::Claimed {
            return Ok(Standing::Held);
        }
        let events = store.tables()?.events_of_delivery(&delivery)?;
        let by_itself = |row: Option<&EventRow>| row.is_some_and(|row| row.session.as_ref() == Some(&self.run));
        if !is_latest || delivery.state == State::Pending {
            let by_itself = by_itself(self.first_let_go(&events));
            return Ok(if by_itself { Standing::GivenBack } else { Standing::Lost });
        }
        let by_itself = by_itself(events.iter().rfind(|row| ends(row.event)));
        Ok(if by_itself { Standing::Finished } else { Standing::Lost })
    }

    /// When it stopped holding a message, if it did.
    pub fn let_go_at(&self, store: &Store, message: MessageNo) -> Result<Option<Timestamp>, Error> {
        let Some(delivery) = self.delivery(store, message)? else { return Ok(None) };
        let events = store.tables()?.events_of_delivery(&delivery)?;
        Ok(self.first_let_go(&events).map(|row| row.at))
    }

    fn first_let_go<'e>(&self, events: &'e [EventRow]) -> Option<&'e EventRow> {
        events.iter().find(|row| row.position > self.token && lets_go(row.event))
    }
}

fn ends(event: Event) -> bool {
    matches!(event, Event::Done | Event::Failed | Event::Dead | Event::Returned)
}

/// Whether a delivery is no longer held after this event.
fn lets_go(event: Event) -> bool {
    ends(event) || matches!(event, Event::Released | Event::LeaseExpired | Event::AttemptFailed | Event::Expired)
}
