//! Queries for sending notifications: mail after a rule's cursor, the progress of rules, and notifications that could
//! not be sent.

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

/// A message that rules are matched against, without its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMail {
    pub number: MessageNo,
    pub position: Position,
    /// Its header, or what is missing or damaged.
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
    /// Its addresses, groups also as their members.
    pub to: Vec<String>,
    /// The rule whose failure it reports, if it is such an alert.
    pub untold_by: Option<Label>,
}

/// Messages stored after a position, the oldest first, and the end of the log.
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
                Ok(None) => Err(format!("message {number} cannot be found")),
                Err(damage) => Err(damage),
            };
            found.push(StoredMail { number, position, header });
        }
        Ok((found, tables.cursor.head.position))
    })
}

/// Number of messages stored after a position.
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

/// The progress of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandlerView {
    pub rule: Label,
    /// The last record it has processed.
    pub cursor: Position,
    /// Messages stored since; not all of them match the rule.
    pub behind: u64,
    /// The process that holds the rule.
    pub holder: Option<HandlerHolder>,
    /// Number of messages it could not report.
    pub dead: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HandlerHolder {
    pub agent: Name,
    pub token: Position,
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
}

/// Every rule that was ever processed, by name.
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

/// A message that a rule could not report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct UntoldView {
    pub rule: Label,
    pub message: MessageNo,
    pub subject: String,
    pub attempts: u32,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// The record of the failure.
    pub position: Position,
    /// Why the last attempt failed; null if redacted.
    pub error: Option<String>,
}

/// Messages that rules could not report, by rule, the oldest first, and how many more there are.
pub fn untold(store: &Store, rule: Option<&Label>, limit: usize) -> Result<(Vec<UntoldView>, usize), Error> {
    store.view(|tables| {
        let found = tables.all_untold(rule, limit)?.into_iter().map(|untold| untold_view(store, tables, untold));
        let found = found.collect::<Result<Vec<_>, Error>>()?;
        let more = tables.count_untold(rule)?.saturating_sub(found.len());
        Ok((found, more))
    })
}

/// Whether a rule could not report a message, so that it can be retried.
pub fn is_untold(store: &Store, rule: &Label, message: MessageNo) -> Result<bool, Error> {
    Ok(store.tables()?.untold(rule, message)?.is_some())
}

/// Messages a rule could not report, the oldest first, with the number of attempts.
pub fn untold_attempts(store: &Store, rule: &Label, limit: usize) -> Result<Vec<(MessageNo, u32)>, Error> {
    let untold = store.tables()?.all_untold(Some(rule), limit)?;
    Ok(untold.into_iter().map(|untold| (untold.message, untold.attempts)).collect())
}

/// The position of the newest message before this one that a rule could not report.
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
        // The rest of the text is for the readers of the alert.
        error: whole_text(store, untold.position)?.and_then(|text| Some(text.lines().next()?.to_owned())),
    })
}
