//! Conversations: what was said by whom in reply to what, and how they stand.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{MessageRows, rows, subject};
use super::track::whole_text;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Delivery, Notice, State, Tables};
use crate::text::{Label, Name, TypeName};
use crate::time::{Timestamp, rfc3339};
use crate::vocabulary::{Priority, TrustLabel, worded_enum};

worded_enum!(
    /// How a conversation stands.
    ThreadStatus {
        /// Something in it is pending or claimed.
        Open = 0 "open",
        Finished = 1 "finished",
        /// Somebody said with what outcome it is over.
        Closed = 2 "closed",
        Archived = 3 "archived",
    }
);

/// The messages of one conversation, in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Thread {
    pub conversation: Label,
    pub messages: Vec<ThreadLine>,
    /// Go on with `--after` this; null when this is the end.
    pub next: Option<MessageNo>,
    pub status: ThreadStatus,
    pub outcome: Option<ThreadOutcome>,
    pub as_of: Position,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ThreadLine {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    pub trust: TrustLabel,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Priority,
    pub reply_to: Option<MessageNo>,
    pub forward_of: Option<MessageNo>,
    pub notice: Option<Notice>,
    pub subject: String,
    /// Each recipient and how its delivery stands.
    pub recipients: Vec<ThreadRecipient>,
    pub archived: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ThreadRecipient {
    pub recipient: String,
    pub state: State,
    pub shown: bool,
    pub answer: Option<MessageNo>,
}

/// With what words somebody closed a conversation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ThreadOutcome {
    pub by: String,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub text: String,
}

/// A conversation in a few lines.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ThreadSummary {
    pub conversation: Label,
    /// The subject of its first message.
    pub subject: String,
    pub participants: Vec<String>,
    pub messages: usize,
    /// Deliveries that are pending or claimed.
    pub open: usize,
    #[serde(serialize_with = "rfc3339")]
    pub began_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub last_at: Timestamp,
    pub last: MessageNo,
    pub status: ThreadStatus,
    pub outcome: Option<ThreadOutcome>,
}

/// The conversation a message belongs to.
pub fn conversation_of(store: &Store, number: MessageNo) -> Result<Option<Label>, Error> {
    let tables = store.tables()?;
    if let Some(message) = tables.message(number)? {
        return Ok(Some(message.conversation));
    }
    Ok(tables.archived_message(number)?.map(|archived| archived.conversation))
}

/// At most `limit` messages of a conversation after a number, oldest first.
pub fn thread(store: &Store, conversation: &Label, after: MessageNo, limit: usize) -> Result<Thread, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut numbers = numbers_after(conn, conversation, after, limit + 1)?;
        let next = if numbers.len() > limit { numbers.get(limit - 1).copied() } else { None };
        numbers.truncate(limit);
        let mut messages = Vec::with_capacity(numbers.len());
        for number in numbers {
            if let Some(found) = rows(store, &tables, number)? {
                messages.push(line(store, &tables, found)?);
            }
        }
        Ok(Thread {
            conversation: conversation.clone(),
            messages,
            next,
            status: status(&tables, conversation)?,
            outcome: outcome(store, &tables, conversation)?,
            as_of: tables.cursor.head.position,
        })
    })
}

/// Live and archived ones: a conversation that went on after it was archived has both.
fn numbers_after(
    conn: &Connection,
    conversation: &Label,
    after: MessageNo,
    limit: usize,
) -> Result<Vec<MessageNo>, Error> {
    Ok(conn
        .prepare_cached(
            "SELECT number FROM messages WHERE conversation = ?1 AND number > ?2
             UNION ALL SELECT number FROM archived_messages WHERE conversation = ?1 AND number > ?2
             ORDER BY number LIMIT ?3",
        )?
        .query_map(params![conversation, after, limit], |row| row.get(0))?
        .collect::<Result<_, _>>()?)
}

fn line(store: &Store, tables: &Tables<'_>, found: MessageRows) -> Result<ThreadLine, Error> {
    let MessageRows { message, deliveries, archive, .. } = found;
    Ok(ThreadLine {
        subject: subject(store, tables, &message)?,
        number: message.number,
        at: message.at,
        from: message.sender.to_string(),
        trust: message.label,
        kind: message.kind,
        priority: message.priority,
        reply_to: message.reply_to,
        forward_of: message.forward_of,
        notice: message.notice,
        recipients: deliveries.iter().map(recipient).collect(),
        archived: archive.is_some(),
    })
}

fn recipient(delivery: &Delivery) -> ThreadRecipient {
    ThreadRecipient {
        recipient: delivery.address.to_string(),
        state: delivery.state,
        shown: delivery.shown_at.is_some(),
        answer: delivery.answer,
    }
}

fn status(tables: &Tables<'_>, conversation: &Label) -> Result<ThreadStatus, Error> {
    if tables.is_open(conversation)? {
        return Ok(ThreadStatus::Open);
    }
    let is_live: bool = tables
        .conn()
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1)")?
        .query_row([conversation], |row| row.get(0))?;
    Ok(match (is_live, tables.closed(conversation)?) {
        (false, _) => ThreadStatus::Archived,
        (true, Some(_)) => ThreadStatus::Closed,
        (true, None) => ThreadStatus::Finished,
    })
}

/// The outcome it was closed with, while it stays closed.
fn outcome(store: &Store, tables: &Tables<'_>, conversation: &Label) -> Result<Option<ThreadOutcome>, Error> {
    if let Some(closed) = tables.closed(conversation)? {
        let text = whole_text(store, closed.position)?.unwrap_or_default();
        return Ok(Some(ThreadOutcome { by: closed.by.to_string(), at: closed.at, text }));
    }
    Ok(None)
}

/// Everything about a conversation in a few lines. Reads all of it.
pub fn thread_summary(store: &Store, conversation: &Label) -> Result<ThreadSummary, Error> {
    store.read(|conn| summary(store, &Tables::load(conn)?, conversation))
}

fn summary(store: &Store, tables: &Tables<'_>, conversation: &Label) -> Result<ThreadSummary, Error> {
    let mut participants = BTreeSet::new();
    let (mut messages, mut open) = (0, 0);
    let mut first = None;
    let mut last = MessageNo(0);
    let mut last_at = Timestamp::ZERO;
    for number in numbers_after(tables.conn(), conversation, MessageNo(0), usize::MAX >> 1)? {
        let Some(MessageRows { message, deliveries, .. }) = rows(store, tables, number)? else { continue };
        if !message.sender.is_poste() {
            participants.insert(message.sender.to_string());
        }
        // A group is there as whoever took its mail.
        let who = |delivery: &Delivery| delivery.holder.as_ref().map_or(delivery.address.to_string(), Name::to_string);
        participants.extend(deliveries.iter().map(who));
        open += deliveries.iter().filter(|delivery| delivery.state.is_open()).count();
        let ended = deliveries.iter().filter_map(|delivery| delivery.ended_at).max();
        last_at = last_at.max(message.at).max(ended.unwrap_or(Timestamp::ZERO));
        last = number;
        messages += 1;
        if first.is_none() {
            first = Some((message.at, subject(store, tables, &message)?));
        }
    }
    let (began_at, subject) = first.unwrap_or_default();
    Ok(ThreadSummary {
        conversation: conversation.clone(),
        subject,
        participants: participants.into_iter().collect(),
        messages,
        open,
        began_at,
        last_at,
        last,
        status: status(tables, conversation)?,
        outcome: outcome(store, tables, conversation)?,
    })
}

/// Which conversations to list.
#[derive(Debug, Clone, Default)]
pub struct ThreadsQuery {
    pub status: Option<ThreadStatus>,
    /// In which this agent takes part.
    pub agent: Option<String>,
    /// Whose newest message is before this one.
    pub before: Option<MessageNo>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Threads {
    /// The one with the newest message first.
    pub threads: Vec<ThreadSummary>,
    /// Go on with `--before` this; null when everything was looked at.
    pub next: Option<MessageNo>,
    pub as_of: Position,
}

/// So many messages are looked at for one page, however few of them match.
const LOOKED_AT_MAX: usize = 10_000;

/// Live conversations, newest message first.
pub fn threads(store: &Store, query: &ThreadsQuery) -> Result<Threads, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let before = query.before.unwrap_or(tables.cursor.message_last.next());
        let mut statement = conn.prepare_cached(
            "SELECT number, conversation FROM messages WHERE number < ?1 ORDER BY number DESC LIMIT ?2",
        )?;
        let mut newest = statement.query(params![before, LOOKED_AT_MAX])?;
        let mut page = Threads { threads: Vec::new(), next: None, as_of: tables.cursor.head.position };
        let mut seen = BTreeSet::new();
        let mut looked_at = 0;
        let mut last = before;
        while let Some(row) = newest.next()? {
            let (number, conversation): (MessageNo, Label) = (row.get(0)?, row.get(1)?);
            looked_at += 1;
            if page.threads.len() == query.limit {
                page.next = Some(last);
                return Ok(page);
            }
            last = number;
            // One that has a newer message was on an earlier page.
            if !seen.insert(conversation.clone()) || has_newer(conn, &conversation, before)? {
                continue;
            }
            let summary = summary(store, &tables, &conversation)?;
            let is_wanted = query.status.is_none_or(|status| summary.status == status)
                && query.agent.as_ref().is_none_or(|agent| summary.participants.contains(agent));
            if is_wanted {
                page.threads.push(summary);
            }
        }
        page.next = (looked_at == LOOKED_AT_MAX).then_some(last);
        Ok(page)
    })
}

fn has_newer(conn: &Connection, conversation: &Label, before: MessageNo) -> Result<bool, Error> {
    Ok(conn
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1 AND number >= ?2)")?
        .query_row(params![conversation, before], |row| row.get(0))?)
}
