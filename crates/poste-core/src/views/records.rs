//! The records of the log, and why a message is in its state.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::envelope;
use super::message::redaction;
use super::origin::Origin;
use super::rows::{MessageRows, rows, subject};
use super::track::said;
use super::wake::wake_at;
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{DeliveryNo, HoldReason, MessageNo, Position, Record, RunOutcome, Sealed, WakeWay};
use crate::store::Store;
use crate::store::tables::{ArchiveRow, Delivery, EndReason, Event, EventRow, Message, Notice, Refused, Tables};
use crate::text::{RecordId, Session};
use crate::time::{Timestamp, rfc3339};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RecordView {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub kind: u16,
    pub name: String,
    pub version: u16,
    pub id: RecordId,
    pub actor: String,
    pub session: Option<Session>,
    #[serde(flatten)]
    pub origin: Origin,
    /// The sender's own clock: information only.
    #[serde(serialize_with = "rfc3339")]
    pub sent_at: Timestamp,
    #[schemars(with = "serde_json::Value")]
    pub header: Box<RawValue>,
    pub content_bytes: Option<u64>,
    pub content_digest: Option<Digest>,
    /// Why it changed nothing, if the log keeps it anyway: it was refused, or repeats an earlier record.
    pub outcome: Option<Refused>,
}

impl RecordView {
    fn of(store: &Store, record: Record) -> Result<Self, Error> {
        let envelope = record.sealed.envelope;
        Ok(Self {
            outcome: store.tables()?.refusal(record.position)?,
            origin: Origin::of(store, &envelope)?,
            position: record.position,
            at: record.at,
            kind: envelope.kind,
            name: envelope.name,
            version: envelope.version,
            id: envelope.id,
            actor: envelope.actor.to_string(),
            session: envelope.session,
            sent_at: envelope.sent_at,
            header: envelope.header,
            content_bytes: envelope.content.map(|content| content.length),
            content_digest: envelope.content.map(|content| content.digest),
        })
    }
}

pub fn record(store: &Store, position: Position) -> Result<Option<RecordView>, Error> {
    envelope(store, position)?.map(|record| RecordView::of(store, record)).transpose()
}

/// A record as it was sealed, without its content.
pub fn sealed(store: &Store, position: Position) -> Result<Option<Sealed>, Error> {
    Ok(store.tables()?.record(position)?.map(|record| record.sealed))
}

/// Records after a position, oldest first.
pub fn records(store: &Store, after: Position, limit: usize) -> Result<Vec<RecordView>, Error> {
    let records = store.tables()?.records_after(after, limit)?;
    records.into_iter().map(|record| RecordView::of(store, record)).collect()
}

/// Bytes in the log that are not a record.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MalformedView {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// Number of bytes kept.
    pub bytes: u64,
    pub reason: String,
}

/// Malformed entries after a position, up to and including another, oldest first.
pub fn malformed(store: &Store, after: Position, until: Position) -> Result<Vec<MalformedView>, Error> {
    let found = store.tables()?.all(
        "SELECT position, at, length(envelope), reason FROM log JOIN outcomes USING (position)
         WHERE position > ?1 AND position <= ?2 AND malformed = 1 ORDER BY position",
        [after, until],
    )?;
    let view = |(position, at, bytes, reason)| MalformedView { position, at, bytes, reason };
    Ok(found.into_iter().map(view).collect())
}

/// Why a message is in its state: every record that changed it, in order.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Why {
    pub number: MessageNo,
    pub subject: String,
    pub lines: Vec<WhyLine>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WhyLine {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub by: String,
    pub what: String,
}

pub fn why_message(store: &Store, number: MessageNo) -> Result<Option<Why>, Error> {
    store.view(|tables| {
        let Some(found) = rows(store, tables, number)? else { return Ok(None) };
        let MessageRows { message, deliveries, events, archive } = found;
        let late: BTreeSet<DeliveryNo> =
            events.iter().filter(|event| event.event == Event::Delivered).map(|event| event.delivery).collect();
        let came_later = |delivery: &Delivery| late.contains(&delivery.number);
        let recipients: Vec<String> = deliveries
            .iter()
            .filter(|delivery| !came_later(delivery))
            .map(|delivery| delivery.address.to_string())
            .collect();
        let stored = match message.notice {
            Some(notice) => format!("the office notified {} ({notice})", recipients.join(", ")),
            None => format!("stored, delivered to {}: {}", recipients.len(), listed(&recipients)),
        };
        let mut lines =
            vec![WhyLine { position: message.position, at: message.at, by: message.sender.to_string(), what: stored }];
        let addresses: BTreeMap<DeliveryNo, String> =
            deliveries.iter().map(|delivery| (delivery.number, delivery.address.to_string())).collect();
        for event in events {
            let recipient = addresses.get(&event.delivery).cloned().unwrap_or_default();
            let what = match event.event {
                Event::Reminded => {
                    let told = told(store, tables, number, archive.as_ref(), &event)?;
                    format!("no answer from {recipient} in time, {told}")
                }
                _ => explain(store, &event, &recipient)?,
            };
            lines.push(WhyLine { position: event.position, at: event.at, by: event.agent.to_string(), what });
        }
        lines.extend(super::approvals::why(tables, number)?);
        lines.extend(redactions(store, tables, message.position, &lines)?);
        if let Some(archive) = archive {
            let by = envelope(store, archive.position)?.map(|record| record.sealed.envelope.actor.to_string());
            lines.push(WhyLine {
                position: archive.position,
                at: archive.at,
                by: by.unwrap_or_default(),
                what: format!("archived in {}", archive.file),
            });
        }
        lines.sort_by_key(|line| line.position);
        Ok(Some(Why { number, subject: subject(store, tables, &message)?, lines }))
    })
}

fn listed(recipients: &[String]) -> String {
    const SHOWN_MAX: usize = 8;
    match recipients {
        [] => "nobody".to_owned(),
        few if few.len() <= SHOWN_MAX => few.join(", "),
        many => format!("{} and {} more", many[..SHOWN_MAX].join(", "), many.len() - SHOWN_MAX),
    }
}

/// Redactions of a message's content and of what was written about it.
fn redactions(store: &Store, tables: &Tables<'_>, message: Position, lines: &[WhyLine]) -> Result<Vec<WhyLine>, Error> {
    let mut found = Vec::new();
    for position in lines.iter().map(|line| line.position).collect::<BTreeSet<_>>() {
        let Some(by) = tables.redaction(position)? else { continue };
        let Some(redaction) = redaction(store, by)? else { continue };
        let what = match position == message {
            true => "its content".to_owned(),
            false => format!("the text of record {position}"),
        };
        let reason = if redaction.reason.is_empty() { String::new() } else { format!(": {}", redaction.reason) };
        let what = format!("{what} was redacted{reason}");
        found.push(WhyLine { position: by, at: redaction.at, by: redaction.by, what });
    }
    Ok(found)
}

/// The agents that were notified of a missing answer, from the notices of that record.
fn told(
    store: &Store,
    tables: &Tables<'_>,
    number: MessageNo,
    archive: Option<&ArchiveRow>,
    event: &EventRow,
) -> Result<String, Error> {
    let is_it = |message: &Message| message.notice == Some(Notice::Overdue) && message.about == Some(event.delivery);
    let mut told = Vec::new();
    match (archive, store.archives()) {
        (Some(archive), Some(archives)) => {
            for line in archives.find(archive, event.position)? {
                if line.message.as_ref().is_some_and(is_it) {
                    told.extend(line.deliveries.iter().map(|delivery| delivery.address.to_string()));
                }
            }
        }
        _ => {
            for notice in tables.notices_at(number, event.position)? {
                if tables.message(notice)?.as_ref().is_some_and(is_it) {
                    let addresses = tables.addresses_of(notice, usize::MAX)?;
                    told.extend(addresses.iter().map(ToString::to_string));
                }
            }
        }
    }
    Ok(match told.as_slice() {
        [] => "and no agent could be notified".to_owned(),
        told => format!("notified {}", told.join(", ")),
    })
}

/// One sentence for each step.
fn explain(store: &Store, event: &EventRow, recipient: &str) -> Result<String, Error> {
    let session = event.session.as_ref().map(|session| format!(" in session {session}")).unwrap_or_default();
    let when = || Timestamp::from_ms(event.value.unwrap_or_default());
    let number = event.value.unwrap_or_default();
    let text = if event.says_something() { said(store, event.position)? } else { None };
    let text = text.map(|text| format!(": {text}")).unwrap_or_default();
    Ok(match event.event {
        Event::Shown => format!("shown to {}{session}", event.agent),
        Event::Claimed => {
            format!("claimed for {recipient}{session}, token {}, lease until {}", event.position, when())
        }
        Event::Extended => format!("lease extended until {}", when()),
        Event::Released => format!("released: {recipient} pending again, no attempt counted"),
        Event::LeaseExpired => format!("the lease expired: attempt {number} failed"),
        Event::Acked => format!("acknowledged by {}{text}", event.agent),
        Event::Done => match event.value.and_then(EndReason::of_number) {
            Some(EndReason::Replied) => format!("done by {} with its reply", event.agent),
            Some(EndReason::Forwarded) => format!("forwarded by {}, done here", event.agent),
            Some(EndReason::Acked) => format!("done by {}: it asks for no work", event.agent),
            Some(EndReason::Settled) => format!("settled by {}: nothing is left to do for {recipient}", event.agent),
            Some(EndReason::Defaulted) => {
                format!("{recipient} had not answered by the deadline: the default was applied")
            }
            _ => format!("done by {}{text}", event.agent),
        },
        Event::Failed => format!("failed{text}"),
        Event::AttemptFailed => format!("attempt {number} failed{text}"),
        Event::Dead => "dead: every attempt failed".to_owned(),
        Event::Expired if event.value == Some(EndReason::Unanswered.number().into()) => {
            format!("{recipient} had not answered by the deadline, and there was no default")
        }
        Event::Returned if event.value == Some(EndReason::Withdrawn.number().into()) => {
            "returned: the asker retired".to_owned()
        }
        Event::Expired if event.value == Some(EndReason::TimedOut.number().into()) => {
            "expired: this step timed out".to_owned()
        }
        Event::Returned if event.value == Some(EndReason::Cancelled.number().into()) => {
            "returned: its workflow ended".to_owned()
        }
        Event::Expired => "expired: it was not claimed in time".to_owned(),
        Event::Returned if event.value == Some(EndReason::ConversationClosed.number().into()) => {
            format!("returned: {} closed the conversation", event.agent)
        }
        Event::Returned if event.value == Some(EndReason::Withdrawn.number().into()) => {
            format!("returned: {} withdrew the handoff", event.agent)
        }
        Event::Returned if event.value == Some(EndReason::GateFailed.number().into()) => {
            "returned to its sender: a gate failed".to_owned()
        }
        Event::GatePassed => format!("passed its gates, run by {}{text}", event.agent),
        Event::GateFailed => format!("stopped by its gates, run by {}{text}", event.agent),
        Event::WakeRequested => format!("{} was asked to wake{}{text}", woken(store, event, recipient)?, by_way(event)),
        Event::WakeFailed => format!("{} could not be woken{}{text}", woken(store, event, recipient)?, by_way(event)),
        Event::Held => format!(
            "not started for {recipient} ({}){text}",
            HoldReason::of_number(number).map_or("", HoldReason::word)
        ),
        Event::RunStarted => format!("{} was started for it{session}", event.agent),
        Event::RunEnded => {
            format!("the run{session} ended: {}{text}", RunOutcome::of_number(number).map_or("", RunOutcome::word))
        }
        Event::Returned => format!("returned to its sender: {recipient} is retired"),
        Event::Reminded => format!("no answer from {recipient} in time"),
        Event::Dropped => format!("dropped by {}, nothing more will be done{text}", event.agent),
        Event::Retried => format!("retried by {}", event.agent),
        Event::Answered => format!("answered by {} with #{number}", event.agent),
        Event::Late => format!("a result came after the lease was lost; kept as late{text}"),
        Event::Ready => "ready: can be claimed now".to_owned(),
        Event::Delivered => format!("delivered to {recipient}, which subscribed later"),
        Event::LeaseMoved => format!("the clock jumped: lease moved to {}", when()),
    })
}

/// The agent to be woken. For a group, only the record names it.
fn woken(store: &Store, event: &EventRow, recipient: &str) -> Result<String, Error> {
    Ok(wake_at(store, event.position)?.map_or_else(|| recipient.to_owned(), |wake| wake.agent.to_string()))
}

fn by_way(event: &EventRow) -> String {
    let way = event.value.and_then(WakeWay::of_number);
    way.filter(|way| *way != WakeWay::Nothing).map(|way| format!(", by {way}")).unwrap_or_default()
}

/// The outcome of a write, by its id.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct IdAnswer {
    pub id: RecordId,
    /// `committed`, `refused` or `absent`.
    pub state: String,
    pub position: Option<Position>,
    pub number: Option<MessageNo>,
    pub reason: Option<String>,
}

pub fn why_id(store: &Store, id: &RecordId) -> Result<IdAnswer, Error> {
    store.view(|tables| {
        let Some(row) = tables.id(id)? else {
            return Ok(IdAnswer {
                id: id.clone(),
                state: "absent".to_owned(),
                position: None,
                number: None,
                reason: None,
            });
        };
        let refused = tables.refusal(row.position)?;
        Ok(IdAnswer {
            id: id.clone(),
            state: if refused.is_some() { "refused" } else { "committed" }.to_owned(),
            position: Some(row.position),
            number: row.message,
            reason: refused.map(|refused| refused.reason),
        })
    })
}
