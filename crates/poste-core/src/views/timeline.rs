//! The log in sentences: what each record did, one line each.

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{MessageRows, rows, subject};
use crate::error::Error;
use crate::log::{Intent, MessageNo, Position, Record};
use crate::store::Store;
use crate::store::tables::Tables;
use crate::text::{Name, Topic};
use crate::time::{Timestamp, length, rfc3339};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TimelineLine {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub by: String,
    /// The kind of the record.
    pub kind: String,
    /// One sentence.
    pub what: String,
    pub number: Option<MessageNo>,
    pub topic: Option<Topic>,
    /// Whom a message was delivered to, groups as their members.
    pub recipients: Vec<String>,
}

/// What happened after a position, oldest first.
pub fn timeline(store: &Store, after: Position, limit: usize) -> Result<Vec<TimelineLine>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut lines = Vec::new();
        for record in tables.records_after(after, limit)? {
            add_lines(store, &tables, &record, &mut lines)?;
        }
        Ok(lines)
    })
}

/// One line for the record, one more for each notice the fold wrote with it.
fn add_lines(store: &Store, tables: &Tables<'_>, record: &Record, lines: &mut Vec<TimelineLine>) -> Result<(), Error> {
    let envelope = &record.sealed.envelope;
    let (notices, sent_here): (Vec<MessageRows>, Vec<MessageRows>) =
        messages_at(store, tables, record.position)?.into_iter().partition(|found| found.message.notice.is_some());
    let line = |by: &Name, number, what| TimelineLine {
        position: record.position,
        at: record.at,
        by: by.to_string(),
        kind: envelope.name.clone(),
        what,
        number,
        topic: None,
        recipients: Vec::new(),
    };
    if sent_here.is_empty() {
        let (number, what) = other(tables, record)?;
        lines.push(line(&envelope.actor, number, what));
    }
    for found in sent_here.iter().chain(&notices) {
        let message = &found.message;
        let (recipients, what) = sent(store, tables, found)?;
        lines.push(TimelineLine {
            topic: message.topic.clone(),
            recipients,
            ..line(&message.sender, Some(message.number), what)
        });
    }
    Ok(())
}

fn messages_at(store: &Store, tables: &Tables<'_>, position: Position) -> Result<Vec<MessageRows>, Error> {
    let mut found = Vec::new();
    let mut number = tables.first_number_after(Position(position.0.saturating_sub(1)))?;
    while tables.position_of(number)? == Some(position) {
        found.extend(rows(store, tables, number)?);
        number = number.next();
    }
    Ok(found)
}

fn sent(store: &Store, tables: &Tables<'_>, found: &MessageRows) -> Result<(Vec<String>, String), Error> {
    const SHOWN_MAX: usize = 4;
    let MessageRows { message, deliveries, .. } = found;
    let addresses: Vec<String> = deliveries.iter().map(|delivery| delivery.address.to_string()).collect();
    let to = match addresses.as_slice() {
        [] => "nobody".to_owned(),
        few if few.len() <= SHOWN_MAX => few.join(", "),
        many => format!("{} recipients", many.len()),
    };
    let topic = message.topic.as_ref().map(|topic| format!(" [{topic}]")).unwrap_or_default();
    let subject = subject(store, tables, message)?;
    let what = format!("{} → {to}  #{} {}{topic}: {subject}", message.sender, message.number, message.kind);
    let mut recipients = Vec::new();
    for delivery in deliveries {
        match &delivery.address {
            crate::Address::Role(role) => {
                recipients.extend(tables.active_with_role(role)?.iter().map(ToString::to_string));
            }
            crate::Address::Can(word) => {
                recipients.extend(tables.active_with_capability(word)?.iter().map(ToString::to_string));
            }
            address => recipients.push(address.to_string()),
        }
    }
    Ok((recipients, what))
}

/// The message a record is about, if it is about one, and what it did.
fn other(tables: &Tables<'_>, record: &Record) -> Result<(Option<MessageNo>, String), Error> {
    let actor = &record.sealed.envelope.actor;
    let intent = match record.sealed.intent() {
        Ok(Some(intent)) => intent,
        _ => {
            let name = &record.sealed.envelope.name;
            return Ok((None, format!("a record of kind {name} this poste does not know")));
        }
    };
    let about = |number: MessageNo, what: &str| (Some(number), format!("{actor} {what} #{number}"));
    Ok(match intent {
        Intent::Barrier(barrier) => {
            (None, format!("barrier: fold version {} ({})", barrier.fold_version, barrier.reason))
        }
        Intent::Tick(_) => (None, "tick: what was due is settled".to_owned()),
        Intent::Clock(clock) => (None, format!("the clock leapt by {}; leases moved along", length(clock.leap_ms))),
        Intent::Policy(policy) => (None, format!("policy {} from {}", policy.replaces + 1, policy.host)),
        Intent::Register(register) => {
            let role = register.role.map(|role| format!(" as {role}")).unwrap_or_default();
            (None, format!("{actor} registers{role}"))
        }
        Intent::Retire(retire) => (None, format!("{actor} retires {}", retire.name)),
        Intent::Send(_) => (None, format!("{actor} sent something that was refused")),
        Intent::Shown(shown) => (only(&shown.messages), format!("{} shown to {actor}", numbers(&shown.messages))),
        Intent::Claim(_) => {
            let won = tables.claimed_at(record.position)?;
            let what = if won.is_empty() { "nothing".to_owned() } else { numbers(&won) };
            (only(&won), format!("{actor} claims {what}"))
        }
        Intent::Ack(ack) => about(ack.message, "acknowledges"),
        Intent::Done(done) => about(done.message, "finishes"),
        Intent::Fail(fail) if fail.retry => {
            (Some(fail.message), format!("{actor} fails #{}, to be tried again", fail.message))
        }
        Intent::Fail(fail) => about(fail.message, "fails"),
        Intent::Release(release) => about(release.message, "releases"),
        Intent::Extend(extend) => (Some(extend.message), format!("{actor} keeps #{} longer", extend.message)),
        Intent::Retry(retry) => about(retry.message, "retries"),
        Intent::Drop(dropped) => about(dropped.message, "drops"),
        Intent::Close(close) => (Some(close.message), format!("{actor} closes the conversation of #{}", close.message)),
        Intent::Archive(archive) => {
            (None, format!("{actor} archives {} conversations in {}", archive.conversations.len(), archive.file))
        }
        Intent::Redact(redact) => (None, format!("{actor} redacts records {}", positions(&redact.records))),
        Intent::Subscribe(subscribe) => (None, format!("{actor} subscribes to {}", subscribe.topic.as_str())),
        Intent::Unsubscribe(unsubscribe) => (None, format!("{actor} unsubscribes from {}", unsubscribe.topic.as_str())),
    })
}

fn positions(records: &[Position]) -> String {
    records.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn only(messages: &[MessageNo]) -> Option<MessageNo> {
    match messages {
        [one] => Some(*one),
        _ => None,
    }
}

fn numbers(messages: &[MessageNo]) -> String {
    messages.iter().map(|number| format!("#{number}")).collect::<Vec<_>>().join(" ")
}
