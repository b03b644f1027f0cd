//! The log in sentences: what each record did, one line each.

use schemars::JsonSchema;
use serde::Serialize;

use super::message::subject;
use crate::error::Error;
use crate::log::{Intent, MessageNo, Position, Record};
use crate::store::Store;
use crate::store::tables::{Message, Tables, record_row};
use crate::text::Topic;
use crate::time::{Timestamp, rfc3339};

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
        let mut statement = conn
            .prepare_cached("SELECT position, at, envelope FROM log WHERE position > ?1 ORDER BY position LIMIT ?2")?;
        let mut rows = statement.query(rusqlite::params![after, limit])?;
        let mut lines = Vec::new();
        while let Some(row) = rows.next()? {
            lines.push(line(store, &tables, &record_row(row)?)?);
        }
        Ok(lines)
    })
}

fn line(store: &Store, tables: &Tables<'_>, record: &Record) -> Result<TimelineLine, Error> {
    let envelope = &record.sealed.envelope;
    let number = tables.id(&envelope.id)?.and_then(|row| row.message);
    let message = number.map(|number| tables.message(number)).transpose()?.flatten();
    let (recipients, what) = match &message {
        Some(message) => sent(store, tables, message)?,
        None => (Vec::new(), other(tables, record)?),
    };
    Ok(TimelineLine {
        position: record.position,
        at: record.at,
        by: envelope.actor.to_string(),
        kind: envelope.name.clone(),
        what,
        number,
        topic: message.and_then(|message| message.topic),
        recipients,
    })
}

fn sent(store: &Store, tables: &Tables<'_>, message: &Message) -> Result<(Vec<String>, String), Error> {
    const SHOWN_MAX: usize = 4;
    let deliveries = tables.deliveries_of(message.number)?;
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
    for delivery in &deliveries {
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

fn other(tables: &Tables<'_>, record: &Record) -> Result<String, Error> {
    let actor = &record.sealed.envelope.actor;
    let intent = match record.sealed.intent() {
        Ok(Some(intent)) => intent,
        _ => return Ok(format!("a record of kind {} this poste does not know", record.sealed.envelope.name)),
    };
    Ok(match intent {
        Intent::Barrier(barrier) => format!("barrier: fold version {} ({})", barrier.fold_version, barrier.reason),
        Intent::Tick(_) => "tick: what was due is settled".to_owned(),
        Intent::Clock(clock) => format!("the clock leapt by {} ms; leases moved along", clock.leap_ms),
        Intent::Policy(policy) => format!("policy {} from {}", policy.replaces + 1, policy.host),
        Intent::Register(register) => {
            let role = register.role.map(|role| format!(" as {role}")).unwrap_or_default();
            format!("{actor} registers{role}")
        }
        Intent::Retire(retire) => format!("{actor} retires {}", retire.name),
        Intent::Send(_) => format!("{actor} sent something that is not here"),
        Intent::Shown(shown) => format!("{} shown to {actor}", numbers(&shown.messages)),
        Intent::Claim(claim) => match claim.message {
            Some(number) => format!("{actor} claims #{number}"),
            None => {
                let held = tables.held_by_token(actor, record.position)?;
                let won: Vec<MessageNo> = held.iter().map(|delivery| delivery.message).collect();
                format!("{actor} claims {}", if won.is_empty() { "work".to_owned() } else { numbers(&won) })
            }
        },
        Intent::Ack(ack) => format!("{actor} acknowledges #{}", ack.message),
        Intent::Done(done) => format!("{actor} finishes #{}", done.message),
        Intent::Fail(fail) if fail.retry => format!("{actor} fails #{}, to be tried again", fail.message),
        Intent::Fail(fail) => format!("{actor} fails #{}", fail.message),
        Intent::Release(release) => format!("{actor} releases #{}", release.message),
        Intent::Extend(extend) => format!("{actor} keeps #{} longer", extend.message),
        Intent::Retry(retry) => format!("{actor} retries #{}", retry.message),
        Intent::Subscribe(subscribe) => format!("{actor} subscribes to {}", subscribe.topic.as_str()),
        Intent::Unsubscribe(unsubscribe) => format!("{actor} unsubscribes from {}", unsubscribe.topic.as_str()),
    })
}

fn numbers(messages: &[MessageNo]) -> String {
    messages.iter().map(|number| format!("#{number}")).collect::<Vec<_>>().join(" ")
}
