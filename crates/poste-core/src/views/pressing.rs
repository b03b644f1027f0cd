//! Urgent mail: what a running session is notified of, and what it must not leave unhandled.

use std::collections::BTreeSet;

use super::inbox::{self, InboxLine, NewMail, NewsQuery, news};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Delivery, Message, State};
use crate::text::Session;
use crate::time::Timestamp;
use crate::vocabulary::{Priority, Urgency};

/// Mail that a session was notified of, in addition to what the log records as shown.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Everything up to here was checked, with the agent's current addresses.
    pub looked_until: Option<Position>,
    pub numbers: BTreeSet<MessageNo>,
}

/// Mail that a running session is notified of, and an idle one is woken for: it does not wait for the next session, can
/// be taken now, and was neither shown to this session nor reported to it. By priority; without a cursor there may be
/// more.
pub fn unreported(
    store: &Store,
    agent: &Agent,
    session: &Session,
    heard: &Heard,
    limit: usize,
) -> Result<NewMail, Error> {
    let query = NewsQuery {
        session: Some(session.clone()),
        urgencies: Urgency::SOON.to_vec(),
        looked_until: heard.looked_until,
        limit: limit + heard.numbers.len(),
        ..NewsQuery::default()
    };
    let mut mail = news(store, agent, &query)?;
    mail.messages.retain(|message| !heard.numbers.contains(&message.number));
    Ok(mail)
}

/// Urgent mail that can be taken now and was neither acked nor answered, by priority; at most `limit`.
pub fn unhandled(store: &Store, agent: &Agent, limit: usize, now: Timestamp) -> Result<Vec<InboxLine>, Error> {
    store.view(|tables| {
        let mut found = Vec::new();
        for address in agent.addresses() {
            found.extend(tables.scan_inbox(
                "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message",
                [&address],
                limit,
                |message, delivery| inbox::is_for(agent, message, delivery) && is_unhandled(message, delivery),
            )?);
        }
        found.sort_by_key(|(message, delivery)| (std::cmp::Reverse(delivery.priority), message.number));
        found.dedup_by_key(|(message, _)| message.number);
        found.truncate(limit);
        found.iter().map(|(message, delivery)| inbox::line(store, tables, message, delivery, now)).collect()
    })
}

/// An ack or answer by any member of a group counts.
fn is_unhandled(message: &Message, delivery: &Delivery) -> bool {
    let presses = message.urgency == Urgency::Now || delivery.priority == Priority::Urgent;
    presses && delivery.state == State::Pending && delivery.acked_at.is_none() && delivery.answer.is_none()
}
