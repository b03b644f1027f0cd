//! Deliveries and their history.

use rusqlite::params;
use serde::{Deserialize, Serialize};

use super::rows::Selected as _;
use super::{Due, DueItem, Tables, kept, late};
use crate::address::Address;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::text::{Name, Session, TypeName};
use crate::time::Timestamp;
use crate::vocabulary::{Priority, worded_enum};

worded_enum!(
    /// The named states; a delivery is always in exactly one. *Shown* and *acked* are marks, not states.
    State {
        Pending = 0 "pending",
        Claimed = 1 "claimed",
        Done = 2 "done",
        Failed = 3 "failed",
        Dead = 4 "dead",
        Expired = 5 "expired",
        Returned = 6 "returned",
    }
);

impl State {
    /// Pending or claimed: there may still be something to do.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Pending | Self::Claimed)
    }

    /// Ended in a way that its sender is notified of and may retry.
    pub fn is_bad_end(self) -> bool {
        matches!(self, Self::Failed | Self::Dead | Self::Expired | Self::Returned)
    }
}

worded_enum!(
    /// How a delivery ended.
    EndReason {
        Done = 0 "done",
        Acked = 1 "acked",
        Replied = 2 "replied",
        Forwarded = 3 "forwarded",
        Failed = 4 "failed",
        AttemptsExhausted = 5 "attempts_exhausted",
        Expired = 6 "expired",
        RecipientRetired = 7 "recipient_retired",
        ConversationClosed = 8 "conversation_closed",
        /// It was not answered by the deadline, and the default of the approval was applied.
        Defaulted = 10 "defaulted",
        /// The sender withdrew it.
        Withdrawn = 11 "withdrawn",
        /// Another agent decided it, or it answers a step and the workflow has it.
        Settled = 12 "settled",
        /// The deadline of an approval passed, and it had no default.
        Unanswered = 13 "unanswered",
        GateFailed = 9 "gate_failed",
        /// The workflow it was a step of has ended.
        Cancelled = 14 "cancelled",
        /// Its step timed out.
        TimedOut = 15 "timed_out",
    }
);

worded_enum!(
    /// A step in the life of a delivery.
    Event {
        Shown = 0 "shown",
        Claimed = 1 "claimed",
        Extended = 2 "extended",
        Released = 3 "released",
        LeaseExpired = 4 "lease_expired",
        Acked = 5 "acked",
        Done = 6 "done",
        Failed = 7 "failed",
        AttemptFailed = 8 "attempt_failed",
        Dead = 9 "dead",
        Expired = 10 "expired",
        Returned = 11 "returned",
        Retried = 12 "retried",
        Answered = 13 "answered",
        Late = 14 "late",
        Ready = 15 "ready",
        LeaseMoved = 16 "lease_moved",
        /// To an agent that subscribed after it was published.
        Delivered = 17 "delivered",
        /// The response deadline passed; the sender and the recipient's lead were notified.
        Reminded = 18 "reminded",
        /// It was dropped as a dead letter.
        Dropped = 19 "dropped",
        /// The gates of its message were run under its claim.
        GatePassed = 20 "gate_passed",
        GateFailed = 21 "gate_failed",
        /// An attempt to wake the recipient. The value is the way.
        WakeRequested = 22 "wake_requested",
        WakeFailed = 23 "wake_failed",
        /// A dispatcher does not start the recipient for it. The value is the reason.
        Held = 24 "held",
        RunStarted = 25 "run_started",
        /// The value is how.
        RunEnded = 26 "run_ended",
    }
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    pub number: DeliveryNo,
    pub message: MessageNo,
    pub address: Address,
    pub state: State,
    /// Whether it can be claimed now; false until its not-before or retry time.
    pub ready: bool,
    pub priority: Priority,
    /// Failed attempts: `fail --retry` and lost leases.
    pub attempts: u32,
    /// Number of claims ever made. Only the first can be finished without naming a token or session.
    pub claims: u32,
    /// The position of the last winning claim.
    pub token: Option<Position>,
    pub holder: Option<Name>,
    pub session: Option<Session>,
    pub lease_until: Option<Timestamp>,
    pub ready_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub respond_by: Option<Timestamp>,
    /// When its missing response was reported, which happens once.
    pub reminded_at: Option<Timestamp>,
    pub shown_at: Option<Timestamp>,
    pub acked_at: Option<Timestamp>,
    /// The recipient's first reply.
    pub answer: Option<MessageNo>,
    pub answered_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// The record that ended it; its content is the result or the reason.
    pub ended_by: Option<Position>,
    pub reason: Option<EndReason>,
    /// When its bad end was dropped, so that it is no longer a dead letter.
    pub dropped_at: Option<Timestamp>,
}

impl Delivery {
    /// Whether the requested response may still be given.
    pub fn is_awaited(&self) -> bool {
        self.state.is_open() && self.answer.is_none()
    }

    /// The rows of `due` for this delivery. Nothing else computes them.
    fn due(&self) -> impl Iterator<Item = DueItem> + '_ {
        let lease = self.lease_until.filter(|_| self.state == State::Claimed).map(|at| (at, Due::Lease));
        let pending = self.state == State::Pending;
        let ready = self.ready_at.filter(|_| pending && !self.ready).map(|at| (at, Due::Ready));
        let expiry = self.expires_at.filter(|_| pending).map(|at| (at, Due::Expiry));
        let awaited = self.is_awaited() && self.reminded_at.is_none();
        let response = self.respond_by.filter(|_| awaited).map(|at| (at, Due::Response));
        let due = lease.into_iter().chain(ready).chain(expiry).chain(response);
        due.map(|(at, what)| DueItem { at, what, subject: self.number.0 })
    }
}

/// A row of the history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventRow {
    pub position: Position,
    pub delivery: DeliveryNo,
    pub event: Event,
    pub at: Timestamp,
    #[serde(deserialize_with = "crate::text::name_in_log")]
    pub agent: Name,
    pub session: Option<Session>,
    /// Depends on the event: a token, a time, a message number.
    pub value: Option<i64>,
}

impl EventRow {
    /// Whether the record's content is about this step. A reply or a forward ends a delivery, but its content is its
    /// own.
    pub fn says_something(&self) -> bool {
        let by_message = [EndReason::Replied, EndReason::Forwarded, EndReason::Settled, EndReason::Defaulted]
            .map(|reason| Some(i64::from(reason.number())));
        match self.event {
            Event::Done => !by_message.contains(&self.value),
            Event::Acked | Event::Failed | Event::AttemptFailed | Event::Late => true,
            // If it was dropped together with another record, the content is about that record.
            Event::Dropped => self.value.is_none(),
            Event::GatePassed | Event::GateFailed => true,
            Event::WakeRequested | Event::WakeFailed | Event::RunEnded => true,
            _ => false,
        }
    }
}

stored!(Delivery in "deliveries": number, message, address, state, ready, priority as rank with rank, attempts, claims, token,
    holder, session, lease_until, ready_at, expires_at, shown_at, acked_at, answer, answered_at, ended_at, ended_by, reason,
    respond_by, reminded_at, dropped_at);

/// The most urgent come first in the inbox index, so their rank is 0.
mod rank {
    use crate::vocabulary::Priority;

    pub(super) fn get(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Priority> {
        let rank: u8 = row.get(column)?;
        let found = Priority::ALL.iter().copied().find(|priority| put(priority) == rank);
        found.ok_or(rusqlite::Error::IntegralValueOutOfRange(column, rank.into()))
    }

    pub(super) fn put(priority: &Priority) -> u8 {
        Priority::Urgent.number() - priority.number()
    }
}

stored!(EventRow in "events": position, delivery, event, at, agent, session, value);

/// No earlier step of the same numbered workflow is unfinished. Other deliveries have no row in `numbered_steps`.
pub(crate) const IN_ORDER: &str = "NOT EXISTS (SELECT 1 FROM numbered_steps own JOIN numbered_steps earlier
     ON earlier.workflow = own.workflow AND earlier.step < own.step WHERE own.delivery = deliveries.number)";

impl Tables<'_> {
    pub fn delivery(&self, number: DeliveryNo) -> Result<Option<Delivery>, Error> {
        self.one(select!(Delivery, "WHERE number = ?1"), [number])
    }

    pub fn delivery_to(&self, message: MessageNo, address: &Address) -> Result<Option<Delivery>, Error> {
        self.needs(late::MESSAGE)?;
        self.one(select!(Delivery, "WHERE message = ?1 AND address = ?2"), params![message, address])
    }

    pub fn deliveries_of(&self, message: MessageNo) -> Result<Vec<Delivery>, Error> {
        self.needs(late::MESSAGE)?;
        self.all(select!(Delivery, "WHERE message = ?1 ORDER BY number"), [message])
    }

    /// Open deliveries to an address, in inbox order.
    pub fn open_deliveries_to(&self, address: &Address, limit: usize) -> Result<Vec<Delivery>, Error> {
        self.needs(late::INBOX)?;
        let sql = select!(Delivery, "WHERE address = ?1 AND state <= 1 ORDER BY state, ready, rank, message LIMIT ?2");
        self.all(sql, params![address, limit])
    }

    /// What `holder` has claimed and not finished.
    pub fn held_by(&self, holder: &Name) -> Result<Vec<Delivery>, Error> {
        self.all(select!(Delivery, "WHERE holder = ?1 AND state = 1 ORDER BY token, message"), [holder])
    }

    /// The deliveries that one claim won and still holds.
    pub fn held_by_token(&self, holder: &Name, token: Position) -> Result<Vec<Delivery>, Error> {
        let sql = select!(Delivery, "WHERE holder = ?1 AND token = ?2 AND state = 1 ORDER BY rank, message");
        self.all(sql, params![holder, token])
    }

    /// The best deliveries to `address` that can be claimed now, by priority, then age. Reads one index range. With
    /// types, it scans that range until it has found enough.
    pub fn claimable(
        &self,
        address: &Address,
        types: &[TypeName],
        limit: u32,
        not_from: &Name,
    ) -> Result<Vec<Delivery>, Error> {
        self.needs(late::INBOX)?;
        if !types.is_empty() {
            let found = self.scan_inbox(
                "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message",
                [address],
                limit as usize,
                |message, delivery| {
                    let is_own = address.is_group() && message.sender == *not_from;
                    let is_asked = types.contains(&message.kind) && !is_own;
                    is_asked && matches!(self.held_up_by(delivery.number), Ok(None))
                },
            )?;
            return Ok(found.into_iter().map(|(_, delivery)| delivery).collect());
        }
        // The sender to a group cannot claim its own message.
        let not_own = match address.is_group() {
            true => "AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.number = message AND m.sender = ?3)",
            false => "AND ?3 IS NOT NULL",
        };
        let sql = format!(
            "{} WHERE address = ?1 AND state = 0 AND ready = 1 AND {IN_ORDER} {not_own} ORDER BY rank, message LIMIT ?2",
            Delivery::SELECT
        );
        self.all(&sql, params![address, limit, not_from])
    }

    /// Stores a new delivery, which is pending and untouched. Every parameter costs time, so only the columns that a
    /// new delivery can have are written.
    pub fn insert_delivery(&mut self, delivery: &Delivery) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO deliveries
             (number, message, address, state, ready, rank, attempts, claims, ready_at, expires_at, respond_by)
             VALUES (?1, ?2, ?3, 0, ?4, ?5, 0, 0, ?6, ?7, ?8)";
        kept(&mut self.kept.insert_delivery, self.conn, SQL)?.execute(params![
            delivery.number,
            delivery.message,
            delivery.address,
            delivery.ready,
            rank::put(&delivery.priority),
            delivery.ready_at,
            delivery.expires_at,
            delivery.respond_by
        ])?;
        debug_assert_eq!(self.delivery(delivery.number)?.as_ref(), Some(delivery));
        self.move_due(None, delivery.due())?;
        self.delivery_changed(None, delivery)
    }

    /// Writes a changed delivery and updates its rows in `due`.
    pub fn update_delivery(&mut self, before: &Delivery, after: &Delivery) -> Result<(), Error> {
        debug_assert_eq!(before.number, after.number);
        update!(self, after, "deliveries" SET state, ready, attempts, claims, token, holder, session, lease_until, ready_at,
            expires_at, shown_at, acked_at, answer, answered_at, ended_at, ended_by, reason, reminded_at, dropped_at
            WHERE number)?;
        self.move_due(before.due(), after.due())?;
        self.delivery_changed(Some(before), after)
    }

    /// Every claimed delivery, by number.
    pub fn claimed(&self) -> Result<Vec<Delivery>, Error> {
        let numbers: Vec<DeliveryNo> =
            self.column("SELECT subject FROM due WHERE what = ?1 ORDER BY subject", [Due::Lease])?;
        let mut claimed = Vec::with_capacity(numbers.len());
        for number in numbers {
            claimed.extend(self.delivery(number)?);
        }
        Ok(claimed)
    }

    pub fn insert_event(&mut self, message: MessageNo, row: &EventRow) -> Result<(), Error> {
        self.execute(
            "INSERT INTO events (message, position, ordinal, delivery, event, at, agent, session, value)
                 VALUES (?1, ?2,
                   (SELECT count(*) FROM events WHERE message = ?1 AND delivery = ?3 AND position = ?2),
                   ?3, ?4, ?5, ?6, ?7, ?8)",
            params![message, row.position, row.delivery, row.event, row.at, row.agent, row.session, row.value],
        )
    }

    /// The history of a message, oldest first.
    pub fn events_of(&self, message: MessageNo) -> Result<Vec<EventRow>, Error> {
        self.all(select!(EventRow, "WHERE message = ?1 ORDER BY position, delivery, ordinal"), [message])
    }

    /// The history of one delivery, oldest first.
    pub fn events_of_delivery(&self, delivery: &Delivery) -> Result<Vec<EventRow>, Error> {
        let sql = select!(EventRow, "WHERE message = ?1 AND delivery = ?2 ORDER BY position, ordinal");
        self.all(sql, params![delivery.message, delivery.number])
    }

    /// The messages that a claim won, by number, including archived ones.
    pub fn claimed_at(&self, position: Position) -> Result<Vec<MessageNo>, Error> {
        self.needs(late::EVENTS)?;
        self.column(
            "SELECT message FROM events WHERE position = ?1 AND event = ?2
                 UNION SELECT message FROM archived_events WHERE position = ?1 AND event = ?2 ORDER BY message",
            params![position, Event::Claimed],
        )
    }

    /// Whether the session's newest claim on the delivery ended because its lease expired. A claim that was released or
    /// failed was given up, not lost.
    pub fn session_lost(&self, delivery: &Delivery, agent: &Name, session: &Session) -> Result<bool, Error> {
        let end: Option<Event> = self.maybe(
            "SELECT event FROM events
                 WHERE message = ?1 AND delivery = ?2 AND event IN (?6, ?7, ?8, ?9, ?10)
                   AND (position, ordinal) > (
                     SELECT position, ordinal FROM events
                     WHERE message = ?1 AND delivery = ?2 AND event = ?3 AND agent = ?4 AND session = ?5
                     ORDER BY position DESC, ordinal DESC LIMIT 1)
                 ORDER BY position, ordinal LIMIT 1",
            params![
                delivery.message,
                delivery.number,
                Event::Claimed,
                agent,
                session,
                Event::Released,
                Event::LeaseExpired,
                Event::AttemptFailed,
                Event::Done,
                Event::Failed
            ],
        )?;
        Ok(end == Some(Event::LeaseExpired))
    }

    /// Whether the record at `token` is a claim with which this agent won the delivery.
    pub fn won_claim(&self, delivery: &Delivery, agent: &Name, token: Position) -> Result<bool, Error> {
        Ok(self.won_by(delivery.message, agent, token)?.is_some_and(|won| won.number == delivery.number))
    }

    /// The delivery of a message that an agent won with the claim at `token`.
    pub fn won_by(&self, message: MessageNo, agent: &Name, token: Position) -> Result<Option<Delivery>, Error> {
        self.needs(late::EVENTS)?;
        let number: Option<DeliveryNo> = self.maybe(
            "SELECT delivery FROM events
                 WHERE position = ?2 AND message = ?1 AND event = ?3 AND agent = ?4 ORDER BY delivery LIMIT 1",
            params![message, token, Event::Claimed, agent],
        )?;
        number.map(|number| self.delivery(number)).transpose().map(Option::flatten)
    }

    /// Whether the gates passed under the claim at `token`.
    pub fn gate_passed(&self, delivery: &Delivery, token: Position) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM events
                 WHERE message = ?1 AND delivery = ?2 AND position > ?3 AND event = ?4 AND value = ?3)",
            params![delivery.message, delivery.number, token, Event::GatePassed],
        )
    }

    /// How often there was an attempt to wake one of its recipients.
    pub fn wakes_of(&self, delivery: &Delivery) -> Result<u32, Error> {
        self.value(
            "SELECT count(*) FROM events WHERE message = ?1 AND delivery = ?2 AND event IN (?3, ?4)",
            params![delivery.message, delivery.number, Event::WakeRequested, Event::WakeFailed],
        )
    }

    /// The delivery of a message that an agent holds.
    pub fn held_of(&self, message: MessageNo, holder: &Name) -> Result<Option<Delivery>, Error> {
        let sql = select!(Delivery, "WHERE holder = ?1 AND state = 1 AND message = ?2 ORDER BY number LIMIT 1");
        self.one(sql, params![holder, message])
    }

    /// Whether it was shown to the agent, in any session.
    pub fn was_shown_to(&self, delivery: DeliveryNo, agent: &Name) -> Result<bool, Error> {
        self.value("SELECT EXISTS (SELECT 1 FROM shown WHERE delivery = ?1 AND agent = ?2)", params![delivery, agent])
    }

    pub fn was_shown(&self, delivery: DeliveryNo, agent: &Name, session: &str) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM shown WHERE delivery = ?1 AND agent = ?2 AND session = ?3)",
            params![delivery, agent, session],
        )
    }

    pub fn insert_shown(
        &mut self,
        delivery: DeliveryNo,
        agent: &Name,
        session: &str,
        at: Timestamp,
    ) -> Result<(), Error> {
        self.execute(
            "INSERT INTO shown (delivery, agent, session, at) VALUES (?1, ?2, ?3, ?4)",
            params![delivery, agent, session, at],
        )?;
        self.settle_ring(delivery, agent)
    }
}

impl Tables<'_> {
    /// Scans one range of the inbox index and keeps what `takes` accepts, up to `limit`.
    pub fn scan_inbox(
        &self,
        condition: &str,
        params: impl rusqlite::Params,
        limit: usize,
        mut takes: impl FnMut(&super::Message, &Delivery) -> bool,
    ) -> Result<Vec<(super::Message, Delivery)>, Error> {
        let mut statement = self.conn.prepare_cached(&format!("{} WHERE {condition}", Delivery::SELECT))?;
        let mut rows = statement.query(params)?;
        let mut found = Vec::new();
        while found.len() < limit
            && let Some(row) = rows.next()?
        {
            let delivery = Delivery::try_from(row)?;
            let message = self.message_of(&delivery)?;
            if takes(&message, &delivery) {
                found.push((message, delivery));
            }
        }
        Ok(found)
    }

    fn message_of(&self, delivery: &Delivery) -> Result<super::Message, Error> {
        self.message(delivery.message)?
            .ok_or_else(|| Error::Damaged(format!("message {} has deliveries but no row", delivery.message)))
    }

    /// Visits what can be claimed at an address with one priority, starting at a message, for as long as `look` wants
    /// more.
    pub fn walk_stored(
        &self,
        address: &Address,
        priority: Priority,
        from: MessageNo,
        mut look: impl FnMut(super::Message, Delivery) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(select!(
            Delivery,
            "WHERE address = ?1 AND state = 0 AND ready = 1 AND rank = ?2 AND message >= ?3 ORDER BY message"
        ))?;
        let mut rows = statement.query(params![address, rank::put(&priority), from])?;
        while let Some(row) = rows.next()? {
            let delivery = Delivery::try_from(row)?;
            let message = self.message_of(&delivery)?;
            if !look(message, delivery)? {
                break;
            }
        }
        Ok(())
    }

    /// Visits the deliveries that one of four events happened to after a position, for as long as `look` wants more.
    pub fn walk_came_back(
        &self,
        after: Position,
        events: &[Event; 4],
        mut look: impl FnMut(Position, Delivery) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let mut statement = self.conn.prepare_cached(
            "SELECT position, delivery FROM events
             WHERE position > ?1 AND event IN (?2, ?3, ?4, ?5) ORDER BY position",
        )?;
        let mut rows = statement.query(params![after, events[0], events[1], events[2], events[3]])?;
        while let Some(row) = rows.next()? {
            let (position, number): (Position, DeliveryNo) = (row.get(0)?, row.get(1)?);
            let Some(delivery) = self.delivery(number)? else { continue }; // archived since
            if !look(position, delivery)? {
                break;
            }
        }
        Ok(())
    }
}
