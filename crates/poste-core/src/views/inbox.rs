//! An inbox: what waits for an agent, best first; and what is new to a session.

use schemars::JsonSchema;
use serde::Serialize;

use super::message::{subject, view};
use super::{COUNT_MAX, MessageView, count_up_to};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Delivery, Event, Message, State, Tables};
use crate::text::{Label, Name, Session, Topic, TypeName};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::{Priority, TrustLabel, Urgency};

/// One line of an inbox.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InboxLine {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    pub trust: TrustLabel,
    /// The group it came to, when it did not come by name.
    pub to: String,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Priority,
    pub urgency: Urgency,
    pub state: State,
    /// False until a not-before or retry time has come.
    pub ready: bool,
    #[serde(serialize_with = "rfc3339_option")]
    pub ready_at: Option<Timestamp>,
    pub shown: bool,
    pub acked: bool,
    pub attempts: u32,
    #[serde(serialize_with = "rfc3339_option")]
    pub lease_until: Option<Timestamp>,
    pub wants_response: bool,
    pub answered: bool,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    pub conversation: Label,
    pub subject: String,
    /// Something about it is due and could not be settled yet: the state may be about to change.
    pub unconfirmed: bool,
}

/// What did not fit on the page.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema, PartialEq, Eq)]
pub struct More {
    pub count: u64,
    /// There are more still; counting stops at a thousand.
    pub at_least: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InboxPage {
    pub agent: Name,
    /// The log position this was read at: a cursor for `wait --after`.
    pub as_of: Position,
    pub messages: Vec<InboxLine>,
    pub left_out: More,
}

#[derive(Debug, Clone, Default)]
pub struct InboxQuery {
    pub unread: bool,
    pub kind: Option<TypeName>,
    pub from: Option<String>,
    /// Ended ones too, newest first, after the open ones.
    pub all: bool,
    pub limit: usize,
}

impl InboxQuery {
    fn takes(&self, agent: &Agent, message: &Message, delivery: &Delivery) -> bool {
        is_for(agent, message, delivery)
            && !(self.unread && delivery.shown_at.is_some())
            && self.kind.as_ref().is_none_or(|kind| *kind == message.kind)
            && self.from.as_ref().is_none_or(|from| message.sender == from.as_str())
    }

    fn filters(&self) -> bool {
        self.unread || self.kind.is_some() || self.from.is_some()
    }
}

/// A group's mail is not for its sender, nor for a member while another one holds or has ended it.
fn is_for(agent: &Agent, message: &Message, delivery: &Delivery) -> bool {
    if !delivery.address.is_group() {
        return true;
    }
    let taken_by_other = delivery.state != State::Pending && delivery.holder.as_ref() != Some(&agent.name);
    message.sender != agent.name && !taken_by_other
}

/// A page of an agent's inbox, by priority, then age.
pub fn inbox(store: &Store, agent: &Agent, query: &InboxQuery, now: Timestamp) -> Result<InboxPage, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut found = Vec::new();
        for address in agent.addresses() {
            for (state, ready) in [(State::Pending, true), (State::Claimed, true), (State::Pending, false)] {
                found.extend(open_range(&tables, agent, query, &address, state, ready)?);
            }
        }
        found.sort_by_key(|(message, delivery)| {
            let waits = delivery.state == State::Pending && !delivery.ready;
            (waits, std::cmp::Reverse(delivery.priority), message.number)
        });
        found.truncate(query.limit);
        let open = found.len() as u64;
        if query.all && found.len() < query.limit {
            let room = query.limit - found.len();
            found.extend(ended(&tables, agent, query, room)?);
        }
        let messages = found
            .iter()
            .map(|(message, delivery)| line(store, &tables, message, delivery, now))
            .collect::<Result<_, _>>()?;
        let left_out = if query.filters() { More::default() } else { left_out(store, agent, open)? };
        Ok(InboxPage { agent: agent.name.clone(), as_of: tables.cursor.head.position, messages, left_out })
    })
}

/// Claimed deliveries stay `ready`, so each of these is one range of the inbox index.
fn open_range(
    tables: &Tables<'_>,
    agent: &Agent,
    query: &InboxQuery,
    address: &Address,
    state: State,
    ready: bool,
) -> Result<Vec<(Message, Delivery)>, Error> {
    tables.scan_inbox(
        "address = ?1 AND state = ?2 AND ready = ?3 ORDER BY rank, message",
        rusqlite::params![address, state, ready],
        query.limit,
        |message, delivery| query.takes(agent, message, delivery),
    )
}

/// The newest ended deliveries: a few from each range of the index, then the newest of those.
fn ended(
    tables: &Tables<'_>,
    agent: &Agent,
    query: &InboxQuery,
    room: usize,
) -> Result<Vec<(Message, Delivery)>, Error> {
    let mut found = Vec::new();
    for address in agent.addresses() {
        for state in State::ALL.iter().filter(|state| !state.is_open()) {
            for priority in Priority::ALL {
                found.extend(tables.scan_inbox(
                    "address = ?1 AND state = ?2 AND ready = 0 AND rank = ?3 ORDER BY message DESC",
                    rusqlite::params![address, state, 3 - priority.number()],
                    room,
                    |message, delivery| query.takes(agent, message, delivery),
                )?);
            }
        }
    }
    found.sort_by_key(|(message, _)| std::cmp::Reverse(message.number));
    found.truncate(room);
    Ok(found)
}

fn left_out(store: &Store, agent: &Agent, shown: u64) -> Result<More, Error> {
    let mut total = 0;
    for address in agent.addresses() {
        let waiting = "deliveries WHERE address = ?1 AND state <= 1";
        total += if address.is_group() {
            count_up_to(
                store,
                &format!(
                    "{waiting} AND (state = 0 OR holder = ?2)
                     AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.number = message AND m.sender = ?2)"
                ),
                rusqlite::params![address, agent.name],
            )?
        } else {
            count_up_to(store, waiting, [address])?
        };
    }
    Ok(More { count: total.saturating_sub(shown), at_least: total >= COUNT_MAX })
}

fn line(
    store: &Store,
    tables: &Tables<'_>,
    message: &Message,
    delivery: &Delivery,
    now: Timestamp,
) -> Result<InboxLine, Error> {
    Ok(InboxLine {
        number: message.number,
        at: message.at,
        from: message.sender.to_string(),
        trust: message.label,
        to: delivery.address.to_string(),
        kind: message.kind.clone(),
        priority: delivery.priority,
        urgency: message.urgency,
        state: delivery.state,
        ready: delivery.ready,
        ready_at: delivery.ready_at,
        shown: delivery.shown_at.is_some(),
        acked: delivery.acked_at.is_some(),
        attempts: delivery.attempts,
        lease_until: delivery.lease_until,
        wants_response: message.wants_response,
        answered: delivery.answer.is_some(),
        respond_by: message.respond_by,
        conversation: message.conversation.clone(),
        subject: subject(store, tables, message)?,
        unconfirmed: is_due(delivery, now),
    })
}

/// Whether the next tick would change it.
pub(super) fn is_due(delivery: &Delivery, now: Timestamp) -> bool {
    let over = |at: Option<Timestamp>| at.is_some_and(|at| at <= now);
    match delivery.state {
        State::Claimed => over(delivery.lease_until),
        State::Pending => over(delivery.expires_at) || (!delivery.ready && over(delivery.ready_at)),
        _ => false,
    }
}

/// What `wait` looks for.
#[derive(Debug, Clone, Default)]
pub struct NewsQuery {
    pub session: Option<Session>,
    pub kind: Option<TypeName>,
    pub from: Option<String>,
    pub topic: Option<Topic>,
    /// Everything that became available after this position, whether it was shown or not.
    pub after: Option<Position>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NewMail {
    pub messages: Vec<MessageView>,
    /// Give this to the next `wait --after`.
    pub cursor: Position,
}

/// Deliveries that can be taken now and are new to this session, or to this agent if it has none.
pub fn news(store: &Store, agent: &Agent, query: &NewsQuery) -> Result<NewMail, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut found = Vec::new();
        for address in agent.addresses() {
            let mut failed = None;
            found.extend(tables.scan_inbox(
                "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message",
                [&address],
                query.limit,
                |message, delivery| {
                    let is_new = match query.after {
                        Some(after) => became_available_after(&tables, message, delivery, after),
                        None => is_unseen(&tables, agent, query, delivery),
                    };
                    match is_new {
                        Ok(is_new) => is_new && is_for(agent, message, delivery) && query.takes(message),
                        Err(error) => {
                            failed.get_or_insert(error);
                            false
                        }
                    }
                },
            )?);
            if let Some(error) = failed {
                return Err(error);
            }
        }
        found.sort_by_key(|(message, delivery)| (std::cmp::Reverse(delivery.priority), message.number));
        found.dedup_by_key(|(message, _)| message.number);
        found.truncate(query.limit);
        let messages = found.into_iter().map(|(message, _)| view(store, &tables, message)).collect::<Result<_, _>>()?;
        Ok(NewMail { messages, cursor: tables.cursor.head.position })
    })
}

/// Not shown to this session yet; without one, to this agent.
fn is_unseen(tables: &Tables<'_>, agent: &Agent, query: &NewsQuery, delivery: &Delivery) -> Result<bool, Error> {
    let shown = match &query.session {
        Some(session) => tables.was_shown(delivery.number, &agent.name, session.as_str())?,
        None => tables.was_shown_to(delivery.number, &agent.name)?,
    };
    Ok(!shown)
}

impl NewsQuery {
    fn takes(&self, message: &Message) -> bool {
        self.kind.as_ref().is_none_or(|kind| *kind == message.kind)
            && self.from.as_ref().is_none_or(|from| message.sender == from.as_str())
            && self.topic.as_ref().is_none_or(|topic| message.topic.as_ref() == Some(topic))
    }
}

/// Stored after the position, or come back to be taken after it.
fn became_available_after(
    tables: &Tables<'_>,
    message: &Message,
    delivery: &Delivery,
    after: Position,
) -> Result<bool, Error> {
    if message.position > after {
        return Ok(true);
    }
    let back = [Event::Ready, Event::Released, Event::Retried, Event::Delivered];
    Ok(tables
        .events_of(message.number)?
        .into_iter()
        .any(|event| event.delivery == delivery.number && event.position > after && back.contains(&event.event)))
}

/// Whether a claim without a number would win something now. One look at an index an address.
pub fn has_claimable(store: &Store, agent: &Agent) -> Result<bool, Error> {
    let tables = store.tables()?;
    for address in agent.addresses() {
        if !tables.claimable(&address, 1, &agent.name)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}
