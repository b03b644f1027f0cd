//! Conversations: their messages, status and outcome.

use std::collections::BTreeSet;

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{MessageRows, UNREADABLE, in_log, or_damage, rows, subject};
use super::track::whole_text;
use super::{COUNT_MAX, Count, count_up_to};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Delivery, Notice, State, Tables};
use crate::text::{Label, Name, POSTE, TypeName};
use crate::time::{Timestamp, rfc3339};
use crate::vocabulary::{Priority, TrustLabel, worded_enum};

worded_enum!(
    /// The status of a conversation.
    ThreadStatus {
        /// Something in it is pending or claimed.
        Open = 0 "open",
        Finished = 1 "finished",
        /// It was closed with an outcome.
        Closed = 2 "closed",
        Archived = 3 "archived",
    }
);

/// The messages of one conversation, in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Thread {
    pub conversation: Label,
    pub messages: Vec<ThreadLine>,
    /// Continue with `--after` this; null if this is the end.
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
    /// Each recipient and the state of its delivery.
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

/// The outcome that a conversation was closed with.
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
    /// Only its oldest and newest messages were read, as in a listing of long ones: participants may be missing. The
    /// status is always that of the whole conversation.
    pub partial: bool,
    pub messages: Count,
    /// Deliveries that are pending or claimed.
    pub open: Count,
    #[serde(serialize_with = "rfc3339")]
    pub began_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub last_at: Timestamp,
    pub last: MessageNo,
    pub status: ThreadStatus,
    pub outcome: Option<ThreadOutcome>,
    /// What is missing or damaged, so that not everything could be read. Participants may be missing then.
    pub damage: Vec<String>,
}

/// The conversation a message belongs to.
pub fn conversation_of(store: &Store, number: MessageNo) -> Result<Option<Label>, Error> {
    conversation_in(&store.tables()?, number)
}

pub(super) fn conversation_in(tables: &Tables<'_>, number: MessageNo) -> Result<Option<Label>, Error> {
    if let Some(message) = tables.message(number)? {
        return Ok(Some(message.conversation));
    }
    Ok(tables.archived_message(number)?.map(|archived| archived.conversation))
}

/// At most `limit` messages of a conversation after a number, oldest first.
pub fn thread(store: &Store, conversation: &Label, after: MessageNo, limit: usize) -> Result<Thread, Error> {
    store.view(|tables| {
        let mut numbers = numbers_after(tables, conversation, after, limit + 1)?;
        let next = if numbers.len() > limit { numbers.get(limit - 1).copied() } else { None };
        numbers.truncate(limit);
        let mut messages = Vec::with_capacity(numbers.len());
        for number in numbers {
            if let Some(found) = rows(store, tables, number)? {
                messages.push(line(store, tables, found)?);
            }
        }
        Ok(Thread {
            conversation: conversation.clone(),
            messages,
            next,
            status: status(tables, conversation)?,
            outcome: outcome(store, tables, conversation, None)?,
            as_of: tables.cursor.head.position,
        })
    })
}

/// Live and archived ones: a conversation that continued after it was archived has both.
pub(super) fn numbers_after(
    tables: &Tables<'_>,
    conversation: &Label,
    after: MessageNo,
    limit: usize,
) -> Result<Vec<MessageNo>, Error> {
    tables.column(
        "SELECT number FROM messages WHERE conversation = ?1 AND number > ?2
         UNION ALL SELECT number FROM archived_messages WHERE conversation = ?1 AND number > ?2
         ORDER BY number LIMIT ?3",
        params![conversation, after, limit],
    )
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

/// The status of a conversation. Open notices of the office do not make a closed one open: closing it causes such
/// notices, and they wait until they are acknowledged.
pub(super) fn status(tables: &Tables<'_>, conversation: &Label) -> Result<ThreadStatus, Error> {
    let has_live: bool =
        tables.value("SELECT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1)", [conversation])?;
    if !has_live {
        return Ok(ThreadStatus::Archived);
    }
    if tables.closed(conversation)?.is_none() {
        return Ok(if tables.is_open(conversation)? { ThreadStatus::Open } else { ThreadStatus::Finished });
    }
    let is_taken_up_again = tables.value(
        "SELECT EXISTS (SELECT 1 FROM messages m JOIN deliveries d ON d.message = m.number
         WHERE m.conversation = ?1 AND m.notice IS NULL AND d.state <= 1)",
        [conversation],
    )?;
    Ok(if is_taken_up_again { ThreadStatus::Open } else { ThreadStatus::Closed })
}

/// The outcome a conversation was closed with. With `damage`, damage is noted there instead of returned as an error.
fn outcome(
    store: &Store,
    tables: &Tables<'_>,
    conversation: &Label,
    damage: Option<&mut BTreeSet<String>>,
) -> Result<Option<ThreadOutcome>, Error> {
    let Some(closed) = tables.closed(conversation)? else { return Ok(None) };
    let text = match (or_damage(whole_text(store, closed.position))?, damage) {
        (Ok(text), _) => text.unwrap_or_default(),
        (Err(why), None) => return Err(Error::Damaged(why)),
        (Err(why), Some(damage)) => {
            damage.insert(why);
            UNREADABLE.to_owned()
        }
    };
    Ok(Some(ThreadOutcome { by: closed.by.to_string(), at: closed.at, text }))
}

/// Everything about a conversation in a few lines. Reads all of it.
pub fn thread_summary(store: &Store, conversation: &Label) -> Result<ThreadSummary, Error> {
    store.view(|tables| whole_summary(store, tables, conversation))
}

pub(super) fn whole_summary(store: &Store, tables: &Tables<'_>, conversation: &Label) -> Result<ThreadSummary, Error> {
    let mut facts = Facts::default();
    // Archived messages are older than all live ones: an archive takes every live message of a conversation.
    for archived in tables.archived_conversation(conversation)? {
        facts.add_archived(store, tables, archived.number)?;
    }
    facts.add_live(tables, conversation, MessageNo(0), MessageNo(u64::MAX >> 1))?;
    let messages = Count { count: facts.messages, at_least: false };
    let open = Count { count: facts.open, at_least: false };
    summary(store, tables, conversation, facts, messages, open)
}

/// Messages at either end of a long conversation that a listing reads.
const ENDS_MAX: usize = 200;

/// A conversation as a line of a list: the cost of a line must not grow with the conversation.
fn brief_summary(store: &Store, tables: &Tables<'_>, conversation: &Label) -> Result<ThreadSummary, Error> {
    let oldest = numbers_after(tables, conversation, MessageNo(0), ENDS_MAX)?;
    let newest: Vec<MessageNo> = tables.column(
        "SELECT number FROM messages WHERE conversation = ?1 ORDER BY number DESC LIMIT ?2",
        params![conversation, ENDS_MAX],
    )?;
    let (Some(newest_first), Some(newest_last)) = (newest.last().copied(), newest.first().copied()) else {
        return Err(Error::Damaged(format!("conversation {conversation} has no live message")));
    };
    let mut facts = Facts::default();
    for number in oldest.into_iter().filter(|number| *number < newest_first) {
        if tables.message(number)?.is_some() {
            facts.add_live(tables, conversation, number, number)?;
        } else {
            facts.add_archived(store, tables, number)?;
        }
    }
    facts.add_live(tables, conversation, newest_first, newest_last)?;
    let messages = Count::of(count_messages(tables, conversation)?);
    facts.partial = messages.count > facts.messages;
    let open = Count { count: facts.open.min(COUNT_MAX), at_least: facts.partial && facts.open > 0 };
    summary(store, tables, conversation, facts, messages, open)
}

fn count_messages(tables: &Tables<'_>, conversation: &Label) -> Result<u64, Error> {
    let live = count_up_to(tables, "messages WHERE conversation = ?1", [conversation])?;
    let archived = count_up_to(tables, "archived_messages WHERE conversation = ?1", [conversation])?;
    Ok((live + archived).min(COUNT_MAX))
}

/// Facts collected from the messages of a conversation.
#[derive(Debug, Default)]
struct Facts {
    participants: BTreeSet<String>,
    messages: u64,
    open: u64,
    first: Option<MessageNo>,
    last: MessageNo,
    last_at: Timestamp,
    partial: bool,
    damage: BTreeSet<String>,
}

impl Facts {
    /// Adds live messages from one number to another. For a group, the agent that took its mail counts.
    fn add_live(
        &mut self,
        tables: &Tables<'_>,
        conversation: &Label,
        from: MessageNo,
        to: MessageNo,
    ) -> Result<(), Error> {
        let mut statement = tables.conn().prepare_cached(
            "SELECT m.number, m.at, m.sender, coalesce(d.holder, d.address), d.state, d.ended_at
             FROM messages m LEFT JOIN deliveries d ON d.message = m.number
             WHERE m.conversation = ?1 AND m.number BETWEEN ?2 AND ?3 ORDER BY m.number",
        )?;
        let mut rows = statement.query(params![conversation, from, to])?;
        while let Some(row) = rows.next()? {
            let number: MessageNo = row.get(0)?;
            self.see_message(number, row.get(1)?, row.get_ref(2)?.as_str().unwrap_or_default());
            if let (Some(who), Some(state)) = (row.get::<_, Option<String>>(3)?, row.get(4)?) {
                self.see_delivery(&who, state, row.get(5)?);
            }
        }
        Ok(())
    }

    fn add_archived(&mut self, store: &Store, tables: &Tables<'_>, number: MessageNo) -> Result<(), Error> {
        let found = match or_damage(rows(store, tables, number))? {
            Ok(found) => found,
            Err(damage) => return self.add_unreadable(tables, number, damage),
        };
        let Some(MessageRows { message, deliveries, .. }) = found else { return Ok(()) };
        self.see_message(number, message.at, message.sender.as_str());
        for delivery in deliveries {
            let who = delivery.holder.as_ref().map_or(delivery.address.to_string(), Name::to_string);
            self.see_delivery(&who, delivery.state, delivery.ended_at);
        }
        Ok(())
    }

    /// Adds an unreadable archived message. It has ended, so nothing of it is open.
    fn add_unreadable(&mut self, tables: &Tables<'_>, number: MessageNo, damage: String) -> Result<(), Error> {
        self.damage.insert(damage);
        let Some(said) = in_log(tables, number)? else { return Ok(()) };
        self.see_message(number, said.at, said.sender.as_str());
        let to = said.header.into_iter().flat_map(|header| header.to);
        self.participants.extend(to.filter(|to| matches!(to, Address::Agent(_))).map(|to| to.to_string()));
        Ok(())
    }

    /// Called in order, once for each delivery.
    fn see_message(&mut self, number: MessageNo, at: Timestamp, sender: &str) {
        self.messages += u64::from(number > self.last);
        self.first.get_or_insert(number);
        self.last = self.last.max(number);
        self.last_at = self.last_at.max(at);
        if sender != POSTE && !self.participants.contains(sender) {
            self.participants.insert(sender.to_owned());
        }
    }

    fn see_delivery(&mut self, who: &str, state: State, ended_at: Option<Timestamp>) {
        if !self.participants.contains(who) {
            self.participants.insert(who.to_owned());
        }
        self.open += u64::from(state.is_open());
        self.last_at = self.last_at.max(ended_at.unwrap_or(Timestamp::ZERO));
    }
}

fn summary(
    store: &Store,
    tables: &Tables<'_>,
    conversation: &Label,
    mut facts: Facts,
    messages: Count,
    open: Count,
) -> Result<ThreadSummary, Error> {
    let (began_at, subject) = match facts.first {
        Some(first) => beginning(store, tables, first, &mut facts.damage)?,
        None => Default::default(),
    };
    let outcome = outcome(store, tables, conversation, Some(&mut facts.damage))?;
    Ok(ThreadSummary {
        conversation: conversation.clone(),
        subject,
        participants: facts.participants.into_iter().collect(),
        partial: facts.partial,
        messages,
        open,
        began_at,
        last_at: facts.last_at,
        last: facts.last,
        status: status(tables, conversation)?,
        outcome,
        damage: facts.damage.into_iter().collect(),
    })
}

/// When a conversation began, and its subject.
fn beginning(
    store: &Store,
    tables: &Tables<'_>,
    first: MessageNo,
    damage: &mut BTreeSet<String>,
) -> Result<(Timestamp, String), Error> {
    let begun = rows(store, tables, first).and_then(|found| {
        found.map(|found| Ok((found.message.at, subject(store, tables, &found.message)?))).transpose()
    });
    match or_damage(begun)? {
        Ok(begun) => Ok(begun.unwrap_or_default()),
        Err(why) => {
            damage.insert(why);
            let at = in_log(tables, first)?.map(|said| said.at).unwrap_or_default();
            Ok((at, UNREADABLE.to_owned()))
        }
    }
}

/// Which conversations to list.
#[derive(Debug, Clone, Default)]
pub struct ThreadsQuery {
    pub status: Option<ThreadStatus>,
    /// Only those with this participant.
    pub agent: Option<String>,
    /// Only those whose newest message is before this one.
    pub before: Option<MessageNo>,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Threads {
    /// The one with the newest message first.
    pub threads: Vec<ThreadSummary>,
    /// Continue with `--before` this; null if this is the end.
    pub next: Option<MessageNo>,
    /// What is missing or damaged, so that not everything could be read, including conversations not listed.
    pub damage: Vec<String>,
    pub as_of: Position,
}

/// A page ends after this many changes from one conversation to another, even if few match …
const LOOKED_AT_MAX: usize = 10_000;
/// … and after this many messages, even if most are of one conversation.
const NUMBERS_MAX: u64 = 200_000;

/// Live conversations, newest message first. Only the ends of a long one are read.
pub fn threads(store: &Store, query: &ThreadsQuery) -> Result<Threads, Error> {
    store.view(|tables| {
        let before = query.before.unwrap_or(tables.cursor.message_last.next());
        let floor = MessageNo(before.0.saturating_sub(NUMBERS_MAX));
        let as_of = tables.cursor.head.position;
        let mut page = Threads { threads: Vec::new(), next: None, damage: Vec::new(), as_of };
        let mut seen = BTreeSet::new();
        let mut here = (before, None);
        for _ in 0..LOOKED_AT_MAX {
            let Some((number, conversation)) = next_conversation(tables, here.0, floor, here.1.as_ref())? else {
                page.next = (floor > MessageNo(1)).then_some(floor);
                return Ok(page);
            };
            if page.threads.len() == query.limit {
                // Not seen yet, or seen on this page: the next page begins with it, or skips it.
                page.next = Some(number.next());
                return Ok(page);
            }
            here = (number, Some(conversation.clone()));
            // One that has a newer message was on an earlier page.
            if seen.contains(&conversation) || has_newer(tables, &conversation, before)? {
                continue;
            }
            let summary = brief_summary(store, tables, &conversation)?;
            seen.insert(conversation);
            let told: Vec<String> = summary.damage.iter().filter(|why| !page.damage.contains(why)).cloned().collect();
            page.damage.extend(told);
            let is_wanted = query.status.is_none_or(|status| summary.status == status)
                && query.agent.as_ref().is_none_or(|agent| summary.participants.contains(agent));
            if is_wanted {
                page.threads.push(summary);
            }
        }
        page.next = Some(here.0);
        Ok(page)
    })
}

/// The newest message before a number that belongs to another conversation than the current one. SQLite skips a long
/// run of one conversation at a hundredth of the cost of reading each message.
fn next_conversation(
    tables: &Tables<'_>,
    before: MessageNo,
    floor: MessageNo,
    here: Option<&Label>,
) -> Result<Option<(MessageNo, Label)>, Error> {
    tables.one(
        "SELECT number, conversation FROM messages
         WHERE number < ?1 AND number >= ?2 AND conversation IS NOT ?3 ORDER BY number DESC LIMIT 1",
        params![before, floor, here],
    )
}

fn has_newer(tables: &Tables<'_>, conversation: &Label, before: MessageNo) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1 AND number >= ?2)";
    tables.value(sql, params![conversation, before])
}
