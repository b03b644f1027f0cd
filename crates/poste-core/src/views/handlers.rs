//! What those who tell people of mail ask: what was stored after a rule's cursor, how far rules have come, and what could
//! not be told.

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{MessageRows, UNREADABLE, or_damage, rows, subject};
use super::track::whole_text;
use crate::address::Address;
use crate::error::Error;
use crate::log::{Intent, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Handler, Tables, Untold};
use crate::text::{Label, Name, Topic, TypeName};
use crate::time::{Timestamp, rfc3339};
use crate::vocabulary::{Priority, TrustLabel, Urgency};

/// What a rule is held against, without the words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMail {
    pub number: MessageNo,
    pub position: Position,
    /// What is known of it; else what is missing or damaged.
    pub header: Result<MailHeader, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MailHeader {
    pub from: Name,
    pub trust: TrustLabel,
    pub kind: TypeName,
    pub priority: Priority,
    pub urgency: Urgency,
    pub topic: Option<Topic>,
    /// As it was addressed, groups also as their members.
    pub to: Vec<String>,
    /// The rule it tells the failure of, if that is what it is.
    pub untold_by: Option<Label>,
}

/// Messages that were stored after a position, the oldest first, and where the log ended then.
pub fn stored_after(store: &Store, after: Position, limit: usize) -> Result<(Vec<StoredMail>, Position), Error> {
    store.view(|tables| {
        let first = tables.first_number_after(after)?;
        let last = tables.cursor.message_last;
        let mut found = Vec::new();
        for number in (first.0..=last.0).take(limit).map(MessageNo) {
            let Some(position) = tables.position_of(number)? else {
                return Err(Error::Damaged(format!("message {number} is missing")));
            };
            let header = match or_damage(rows(store, tables, number))? {
                Ok(Some(found)) => Ok(header(tables, &found)?),
                Ok(None) => Err(format!("message {number} is gone")),
                Err(damage) => Err(damage),
            };
            found.push(StoredMail { number, position, header });
        }
        Ok((found, tables.cursor.head.position))
    })
}

/// How many messages were stored after a position.
pub fn count_after(store: &Store, after: Position) -> Result<u64, Error> {
    let tables = store.tables()?;
    Ok((tables.cursor.message_last.0 + 1).saturating_sub(tables.first_number_after(after)?.0))
}

fn header(tables: &Tables<'_>, found: &MessageRows) -> Result<MailHeader, Error> {
    let message = &found.message;
    let mut to = Vec::new();
    for delivery in &found.deliveries {
        to.push(delivery.address.to_string());
        match &delivery.address {
            Address::Role(role) => to.extend(tables.active_with_role(role)?.iter().map(ToString::to_string)),
            Address::Can(word) => to.extend(tables.active_with_capability(word)?.iter().map(ToString::to_string)),
            _ => {}
        }
    }
    let record = tables.record(message.position)?.filter(|_| message.notice.is_none());
    let intent = record.and_then(|record| record.sealed.intent().ok().flatten());
    let untold_by = match intent {
        Some(Intent::HandlerDead(dead)) => Some(dead.rule),
        _ => None,
    };
    Ok(MailHeader {
        from: message.sender.clone(),
        trust: message.label,
        kind: message.kind.clone(),
        priority: message.priority,
        urgency: message.urgency,
        topic: message.topic.clone(),
        to,
        untold_by,
    })
}

/// How far a rule has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandlerView {
    pub rule: Label,
    /// Everything up to this record was seen to.
    pub cursor: Position,
    /// Messages stored since; not each of them concerns the rule.
    pub behind: u64,
    /// Who sees to it just now.
    pub holder: Option<HandlerHolder>,
    /// Messages it could not tell of.
    pub dead: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandlerHolder {
    pub agent: Name,
    pub token: Position,
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
}

/// Every rule that was ever taken, by name.
pub fn handlers(store: &Store) -> Result<Vec<HandlerView>, Error> {
    let tables = store.tables()?;
    tables.handlers()?.into_iter().map(|handler| view(store, &tables, handler)).collect()
}

pub fn handler(store: &Store, rule: &Label) -> Result<Option<HandlerView>, Error> {
    let tables = store.tables()?;
    tables.handler(rule)?.map(|handler| view(store, &tables, handler)).transpose()
}

fn view(store: &Store, tables: &Tables<'_>, handler: Handler) -> Result<HandlerView, Error> {
    let dead = tables.count_untold(Some(&handler.rule))?;
    Ok(HandlerView {
        behind: count_after(store, handler.cursor)?,
        cursor: handler.cursor,
        holder: handler.lease.map(|lease| HandlerHolder {
            agent: lease.holder,
            token: lease.token,
            until: lease.until,
        }),
        dead,
        rule: handler.rule,
    })
}

/// A message a rule could not tell of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UntoldView {
    pub rule: Label,
    pub message: MessageNo,
    pub subject: String,
    pub attempts: u32,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// The record that says so.
    pub position: Position,
    /// Why the last attempt failed; null once it was redacted.
    pub error: Option<String>,
}

/// What rules could not tell of, by rule, the oldest message first, and how many more there are.
pub fn untold(store: &Store, rule: Option<&Label>, limit: usize) -> Result<(Vec<UntoldView>, usize), Error> {
    store.view(|tables| {
        let found = tables.all_untold(rule, limit)?.into_iter().map(|untold| untold_view(store, tables, untold));
        let found = found.collect::<Result<Vec<_>, Error>>()?;
        let more = tables.count_untold(rule)?.saturating_sub(found.len());
        Ok((found, more))
    })
}

/// Whether a rule could not tell of a message, and somebody may try again.
pub fn is_untold(store: &Store, rule: &Label, message: MessageNo) -> Result<bool, Error> {
    Ok(store.tables()?.untold(rule, message)?.is_some())
}

/// What a rule could not tell of, the oldest first, and how often it tried.
pub fn untold_attempts(store: &Store, rule: &Label, limit: usize) -> Result<Vec<(MessageNo, u32)>, Error> {
    let untold = store.tables()?.all_untold(Some(rule), limit)?;
    Ok(untold.into_iter().map(|untold| (untold.message, untold.attempts)).collect())
}

/// Where the newest message before this one is stored that a rule could not tell of.
pub fn last_untold_before(store: &Store, rule: &Label, message: MessageNo) -> Result<Option<Position>, Error> {
    let tables = store.tables()?;
    let earlier = tables.last_untold_before(rule, message)?.map(|untold| tables.message(untold.message)).transpose()?;
    Ok(earlier.flatten().map(|earlier| earlier.position))
}

fn untold_view(store: &Store, tables: &Tables<'_>, untold: Untold) -> Result<UntoldView, Error> {
    let found = or_damage(rows(store, tables, untold.message))?.ok().flatten();
    let subject = match found {
        Some(found) => or_damage(subject(store, tables, &found.message))?.ok(),
        None => None,
    };
    Ok(UntoldView {
        rule: untold.rule,
        message: untold.message,
        subject: subject.unwrap_or_else(|| UNREADABLE.to_owned()),
        attempts: untold.attempts,
        at: untold.at,
        position: untold.position,
        // What follows is for people who get it as an alert.
        error: whole_text(store, untold.position)?.and_then(|text| Some(text.lines().next()?.to_owned())),
    })
}
