//! Inboxes: open mail of an agent by priority, and mail that is new to a session.

use std::cmp::Reverse;

use schemars::JsonSchema;
use serde::Serialize;

use super::context::{StaleContext, stale_contexts};
use super::message::view;
use super::rows::subject;
use super::{MessageView, count_within};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Delivery, Event, IN_ORDER, Message, State, Tables};
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
    /// The recipient: the agent, or a group it is in.
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
    /// A change of it is due but not recorded yet: the state may change.
    pub unconfirmed: bool,
}

/// Messages that did not fit on the page.
#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema, PartialEq, Eq)]
pub struct More {
    pub count: u64,
    /// There are more; counting stops at 300.
    pub at_least: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct InboxPage {
    pub agent: Name,
    /// The log position this was read at: a cursor for `wait --after`.
    pub as_of: Position,
    pub messages: Vec<InboxLine>,
    pub left_out: More,
    /// Shared contexts that the agent has seen only in an older version.
    pub stale_contexts: Vec<StaleContext>,
    /// There are more of them.
    pub more_stale_contexts: bool,
}

/// Maximum number of stale contexts listed in an inbox.
const STALE_CONTEXTS_MAX: usize = 10;

/// Counting stops here, so that a page of a full inbox costs no more than one of a small inbox.
const LEFT_OUT_MAX: u64 = 300;

#[derive(Debug, Clone, Default)]
pub struct InboxQuery {
    pub unread: bool,
    pub kind: Option<TypeName>,
    pub from: Option<String>,
    /// Also ended ones, newest first, after the open ones.
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

    /// Whether it excludes some of the mail.
    pub fn filters(&self) -> bool {
        self.unread || self.kind.is_some() || self.from.is_some()
    }
}

/// A group's mail is not for its sender, nor for a member while another one holds or has ended it.
pub(super) fn is_for(agent: &Agent, message: &Message, delivery: &Delivery) -> bool {
    if !delivery.address.is_group() {
        return true;
    }
    let taken_by_other = delivery.state != State::Pending && delivery.holder.as_ref() != Some(&agent.name);
    message.sender != agent.name && !taken_by_other
}

/// A page of an agent's inbox, by priority, then age.
pub fn inbox(store: &Store, agent: &Agent, query: &InboxQuery, now: Timestamp) -> Result<InboxPage, Error> {
    store.view(|tables| {
        // With filters, matches must be counted one by one; without them, in the index.
        let look_for = query.limit + if query.filters() { LEFT_OUT_MAX as usize } else { 0 };
        let mut found = Vec::new();
        for address in agent.addresses() {
            for (state, ready) in [(State::Pending, true), (State::Claimed, true), (State::Pending, false)] {
                found.extend(open_range(tables, agent, query, look_for, &address, state, ready)?);
            }
        }
        found.sort_by_key(|(message, delivery)| {
            let waits = delivery.state == State::Pending && !delivery.ready;
            (waits, std::cmp::Reverse(delivery.priority), message.number)
        });
        // Mail that came by name and by group is one message; the sort is stable, so its own name comes first.
        let mut numbers = std::collections::BTreeSet::new();
        let with_duplicates = found.len();
        found.retain(|(message, _)| numbers.insert(message.number));
        let duplicates = (with_duplicates - found.len()) as u64;
        let matching = found.len() as u64;
        found.truncate(query.limit);
        let mut left_out = if query.filters() {
            let count = matching - found.len() as u64;
            More { count, at_least: count >= LEFT_OUT_MAX }
        } else {
            left_out(tables, agent, found.len() as u64 + duplicates)?
        };
        if query.all {
            let room = query.limit - found.len();
            let mut over = ended(tables, agent, query, room + 1)?;
            if over.len() > room {
                left_out = More { count: left_out.count + 1, at_least: true };
                over.truncate(room);
            }
            found.extend(over);
        }
        let messages = found
            .iter()
            .map(|(message, delivery)| line(store, tables, message, delivery, now))
            .collect::<Result<_, _>>()?;
        let (stale_contexts, more_stale_contexts) = stale_contexts(tables, &agent.name, STALE_CONTEXTS_MAX)?;
        Ok(InboxPage {
            agent: agent.name.clone(),
            as_of: tables.cursor.head.position,
            messages,
            left_out,
            stale_contexts,
            more_stale_contexts,
        })
    })
}

/// Claimed deliveries stay `ready`, so each of these is one range of the inbox index.
fn open_range(
    tables: &Tables<'_>,
    agent: &Agent,
    query: &InboxQuery,
    look_for: usize,
    address: &Address,
    state: State,
    ready: bool,
) -> Result<Vec<(Message, Delivery)>, Error> {
    tables.scan_inbox(
        "address = ?1 AND state = ?2 AND ready = ?3 ORDER BY rank, message",
        rusqlite::params![address, state, ready],
        look_for,
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

fn left_out(tables: &Tables<'_>, agent: &Agent, shown: u64) -> Result<More, Error> {
    let mut total = 0;
    let total_max = shown + LEFT_OUT_MAX;
    for address in agent.addresses() {
        let waiting = "deliveries WHERE address = ?1 AND state <= 1";
        total += if address.is_group() {
            count_within(
                tables,
                total_max,
                &format!(
                    "{waiting} AND (state = 0 OR holder = ?2)
                     AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.number = message AND m.sender = ?2)"
                ),
                rusqlite::params![address, agent.name],
            )?
        } else {
            count_within(tables, total_max, waiting, [address])?
        };
    }
    Ok(More { count: total.saturating_sub(shown), at_least: total >= total_max })
}

pub(super) fn line(
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

/// Whether the next tick would change a delivery.
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
    /// Only these; empty: all.
    pub urgencies: Vec<Urgency>,
    /// Everything that became available after this position, even if it was shown.
    pub after: Option<Position>,
    /// An earlier look found nothing up to here, so only later mail can be new. Valid while the agent keeps the same
    /// addresses.
    pub looked_until: Option<Position>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NewMail {
    pub messages: Vec<MessageView>,
    /// Pass this to the next `wait --after`. Null if there is more than was asked for: then wait again without it.
    pub cursor: Option<Position>,
}

/// Deliveries that can be taken now and are new to this session, or to this agent if it has none; or, with a
/// cursor, that became available after it.
pub fn news(store: &Store, agent: &Agent, query: &NewsQuery) -> Result<NewMail, Error> {
    store.view(|tables| {
        let (found, cursor) = match query.after {
            Some(after) => available_after(tables, agent, query, after)?,
            None => unseen(tables, agent, query)?,
        };
        let messages = found.into_iter().map(|message| view(store, tables, message)).collect::<Result<_, _>>()?;
        Ok(NewMail { messages, cursor })
    })
}

/// By priority, then age.
fn unseen(tables: &Tables<'_>, agent: &Agent, query: &NewsQuery) -> Result<(Vec<Message>, Option<Position>), Error> {
    let mut found = Vec::new();
    match query.looked_until {
        Some(looked) => {
            let enough = Enough { stored: query.limit + 1, came_back: usize::MAX };
            let since = since(tables, agent, query, looked, enough, |delivery| {
                Ok(tables.held_up_by(delivery.number)?.is_none() && is_unseen(tables, agent, query, delivery)?)
            })?;
            found.extend(since.into_iter().map(|(_, message, delivery)| (message, delivery)));
            // No row tells since when a step is in order, so all open steps are checked: there are few.
            for address in agent.addresses() {
                found.extend(all_unseen(tables, agent, query, &address, STEPS_AT)?);
            }
        }
        None => {
            for address in agent.addresses() {
                found.extend(all_unseen(tables, agent, query, &address, WAITING_AT)?);
            }
        }
    }
    found.sort_by_key(|(message, delivery)| (std::cmp::Reverse(delivery.priority), message.number));
    found.dedup_by_key(|(message, _)| message.number);
    let cursor = (found.len() <= query.limit).then_some(tables.cursor.head.position);
    found.truncate(query.limit);
    Ok((found.into_iter().map(|(message, _)| message).collect(), cursor))
}

/// Everything that waits at an address (?1).
const WAITING_AT: &str = "address = ?1 AND state = 0 AND ready = 1";
/// The numbered steps of it. They are looked up one by one: there may be far more other mail at the address.
const STEPS_AT: &str =
    "number IN (SELECT delivery FROM numbered_steps) AND +address = ?1 AND +state = 0 AND +ready = 1";

/// Mail that can be taken at an address and was not shown. Shown mail is skipped using indexes alone. Mail that an
/// earlier step holds up cannot be taken yet.
fn all_unseen(
    tables: &Tables<'_>,
    agent: &Agent,
    query: &NewsQuery,
    address: &Address,
    waiting: &str,
) -> Result<Vec<(Message, Delivery)>, Error> {
    let condition = format!(
        "{waiting}
         AND NOT EXISTS (SELECT 1 FROM shown s
                         WHERE s.delivery = number AND s.agent = ?2 AND (?3 IS NULL OR s.session = ?3))
         AND {IN_ORDER} ORDER BY rank, message"
    );
    tables.scan_inbox(
        &condition,
        rusqlite::params![address, agent.name, query.session],
        query.limit + 1,
        |message, delivery| is_for(agent, message, delivery) && query.takes(message),
    )
}

/// In the order they became available, so that a cursor can be between any two of them. Messages made available by one
/// record stay together regardless of the limit, because a cursor cannot split a record.
fn available_after(
    tables: &Tables<'_>,
    agent: &Agent,
    query: &NewsQuery,
    after: Position,
) -> Result<(Vec<Message>, Option<Position>), Error> {
    let after = after.max(query.looked_until.unwrap_or_default());
    // One more than fits, to know whether there is more.
    let enough = Enough { stored: query.limit + 1, came_back: query.limit + 1 };
    let mut found = since(tables, agent, query, after, enough, |_| Ok(true))?;
    found.sort_by_key(|(at, message, _)| (*at, message.number));
    let mut numbers = std::collections::BTreeSet::new();
    found.retain(|(_, message, _)| numbers.insert(message.number));
    let cut = found.get(query.limit.saturating_sub(1)).map(|(at, ..)| *at);
    let mut cursor = tables.cursor.head.position;
    if let Some(cut) = cut
        && found.iter().any(|(at, ..)| *at > cut)
    {
        found.retain(|(at, ..)| *at <= cut);
        cursor = cut;
    }
    Ok((found.into_iter().map(|(_, message, _)| message).collect(), Some(cursor)))
}

/// How many to look for: newly stored ones in each range of the index, and ones that became available again.
#[derive(Clone, Copy)]
struct Enough {
    stored: usize,
    came_back: usize,
}

/// Mail that can be taken now and became available after a position, and by which record. The cost grows with what
/// happened since, not with the open mail: new mail is a range of the inbox index, and other mail left an event.
///
/// Each range ends once it yielded enough: nothing after that became available earlier.
fn since(
    tables: &Tables<'_>,
    agent: &Agent,
    query: &NewsQuery,
    after: Position,
    enough: Enough,
    mut wanted: impl FnMut(&Delivery) -> Result<bool, Error>,
) -> Result<Vec<(Position, Message, Delivery)>, Error> {
    let addresses = agent.addresses();
    let first = tables.first_number_after(after)?;
    let mut found = Vec::new();
    for address in &addresses {
        for priority in Priority::ALL {
            let mut given = 0;
            let mut last = None;
            tables.walk_stored(address, *priority, first, |message, delivery| {
                if given >= enough.stored && last != Some(message.position) {
                    return Ok(false);
                }
                let at = available_at(tables, &message, &delivery)?;
                if is_for(agent, &message, &delivery) && query.takes(&message) && wanted(&delivery)? {
                    given += usize::from(at == message.position);
                    last = Some(message.position);
                    found.push((at, message, delivery));
                }
                Ok(true)
            })?;
        }
    }
    let mut given = 0;
    let mut last = None;
    tables.walk_came_back(after, &BACK, |at, delivery| {
        if given >= enough.came_back && last != Some(at) {
            return Ok(false);
        }
        if delivery.state == State::Pending && delivery.ready && addresses.contains(&delivery.address) {
            let message = tables
                .message(delivery.message)?
                .ok_or_else(|| Error::Damaged(format!("message {} has deliveries but no row", delivery.message)))?;
            let is_newest = available_at(tables, &message, &delivery)? == at;
            if is_newest && is_for(agent, &message, &delivery) && query.takes(&message) && wanted(&delivery)? {
                given += 1;
                last = Some(at);
                found.push((at, message, delivery));
            }
        }
        Ok(true)
    })?;
    Ok(found)
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
            && (self.urgencies.is_empty() || self.urgencies.contains(&message.urgency))
    }
}

/// Events that make a delivery available again.
const BACK: [Event; 4] = [Event::Ready, Event::Released, Event::Retried, Event::Delivered];

/// The record that made it available: the one that stored it, or the last that made it available again.
fn available_at(tables: &Tables<'_>, message: &Message, delivery: &Delivery) -> Result<Position, Error> {
    let again = tables
        .events_of_delivery(delivery)?
        .into_iter()
        .filter(|event| BACK.contains(&event.event))
        .map(|event| event.position)
        .max();
    Ok(again.unwrap_or(message.position))
}

/// Whether a message is a numbered step that an earlier one holds up.
pub fn is_held_up(store: &Store, number: MessageNo) -> Result<bool, Error> {
    let tables = store.tables()?;
    for delivery in tables.deliveries_of(number)? {
        if tables.held_up_by(delivery.number)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a claim without a number would win something now. One index lookup per address; with types, a scan to the
/// first match.
pub fn has_claimable(store: &Store, agent: &Agent, types: &[TypeName]) -> Result<bool, Error> {
    let tables = store.tables()?;
    for address in agent.addresses() {
        if !tables.claimable(&address, types, 1, &agent.name)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What a claim by this agent would win now, over all its addresses: the highest priority first, then the oldest.
pub fn claimable(store: &Store, agent: &Agent, limit: u32) -> Result<Vec<MessageNo>, Error> {
    let tables = store.tables()?;
    let mut found = Vec::new();
    for address in agent.addresses() {
        let claimable = tables.claimable(&address, &[], limit, &agent.name)?;
        found.extend(claimable.into_iter().map(|delivery| (Reverse(delivery.priority.number()), delivery.message)));
    }
    found.sort_unstable();
    // A message may have come by several addresses.
    found.dedup_by_key(|(_, message)| *message);
    found.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    Ok(found.into_iter().map(|(_, message)| message).collect())
}
