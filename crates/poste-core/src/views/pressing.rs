//! Mail that does not wait until somebody looks: what a session is told of while it runs, and what it must not leave behind.

use std::collections::BTreeSet;

use super::inbox::{self, InboxLine, NewMail, NewsQuery, news};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Delivery, Message, State};
use crate::text::Session;
use crate::time::Timestamp;
use crate::vocabulary::{Priority, Urgency};

/// What a session was told of, beside what the log says it was shown.
#[derive(Debug, Clone, Default)]
pub struct Heard {
    /// Everything up to here was looked at, with the addresses the agent has now.
    pub looked_until: Option<Position>,
    pub numbers: BTreeSet<MessageNo>,
}

/// Mail a session is told of while it runs, and woken for when it is idle: it does not wait for the next session, can be
/// taken now, and this one was neither shown it nor told of it. The best first; without a cursor there may be more.
pub fn unheard(store: &Store, agent: &Agent, session: &Session, heard: &Heard, limit: usize) -> Result<NewMail, Error> {
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

/// Mail that nobody may leave lying: it presses, it can be taken now, and nobody took note of it. The best first; at most so
/// many.
pub fn neglected(store: &Store, agent: &Agent, limit: usize, now: Timestamp) -> Result<Vec<InboxLine>, Error> {
    store.view(|tables| {
        let mut found = Vec::new();
        for address in agent.addresses() {
            found.extend(tables.scan_inbox(
                "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message",
                [&address],
                limit,
                |message, delivery| inbox::is_for(agent, message, delivery) && is_neglected(message, delivery),
            )?);
        }
        found.sort_by_key(|(message, delivery)| (std::cmp::Reverse(delivery.priority), message.number));
        found.dedup_by_key(|(message, _)| message.number);
        found.truncate(limit);
        found.iter().map(|(message, delivery)| inbox::line(store, tables, message, delivery, now)).collect()
    })
}

/// What was acked or answered, by whichever member of a group, somebody took note of.
fn is_neglected(message: &Message, delivery: &Delivery) -> bool {
    let presses = message.urgency == Urgency::Now || delivery.priority == Priority::Urgent;
    presses && delivery.state == State::Pending && delivery.acked_at.is_none() && delivery.answer.is_none()
}
