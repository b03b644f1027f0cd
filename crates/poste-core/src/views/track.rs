//! The deliveries of a message: who has each of them, since when, and why.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::inbox::is_due;
use super::message::base64_of;
use super::origin::Origin;
use super::rows::{MessageRows, rows, subject};
use super::wake::{Unseen, WakeView, unseen, wakes};
use super::{Found, content, envelope};
use crate::error::Error;
use crate::log::{Artifact, Content, DeliveryNo, Intent, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Delivery, EndReason, Event, EventRow, Message, State, Tables};
use crate::text::{Label, Session, TypeName};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::{Priority, TrustLabel};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Track {
    pub number: MessageNo,
    pub subject: String,
    pub from: String,
    /// Where it comes from.
    pub trust: TrustLabel,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Priority,
    pub conversation: Label,
    #[serde(serialize_with = "rfc3339")]
    pub stored_at: Timestamp,
    /// Null for a notice of the office.
    pub origin: Option<Origin>,
    pub wants_response: bool,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    /// Its archive file, if its conversation is archived.
    pub archive: Option<String>,
    pub as_of: Position,
    pub deliveries: Vec<DeliveryView>,
}

/// One recipient's delivery: its state, its marks, and everything that happened to it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeliveryView {
    pub recipient: String,
    pub state: State,
    /// When it entered this state.
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    pub ready: bool,
    #[serde(serialize_with = "rfc3339_option")]
    pub ready_at: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub expires_at: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub shown_at: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub acked_at: Option<Timestamp>,
    /// The newest claim.
    #[serde(serialize_with = "rfc3339_option")]
    pub claimed_at: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub answered_at: Option<Timestamp>,
    /// The recipient's reply.
    pub answer: Option<MessageNo>,
    /// The agent that holds it, or held it last.
    pub holder: Option<String>,
    pub session: Option<Session>,
    pub token: Option<Position>,
    #[serde(serialize_with = "rfc3339_option")]
    pub lease_until: Option<Timestamp>,
    pub attempts: u32,
    pub max_attempts: u32,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    pub reason: Option<EndReason>,
    /// When agents were notified of its missing response.
    #[serde(serialize_with = "rfc3339_option")]
    pub reminded_at: Option<Timestamp>,
    /// When the dead letter was dropped.
    #[serde(serialize_with = "rfc3339_option")]
    pub dropped_at: Option<Timestamp>,
    pub result: Option<ResultView>,
    /// Results that came after the lease was lost.
    pub late: Vec<ResultView>,
    pub history: Vec<Step>,
    /// Attempts to wake its recipient, the oldest first.
    pub wakes: Vec<WakeView>,
    /// Why it is still unseen, if it has waited longer than its type allows.
    pub unseen: Option<Unseen>,
    pub unconfirmed: bool,
}

/// The result a recipient gave when it ended the delivery.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ResultView {
    pub position: Position,
    pub by: String,
    pub summary: Option<String>,
    pub text: String,
    /// The text byte for byte, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_base64: Option<String>,
    pub recommend: Option<String>,
    pub files: Vec<Artifact>,
    pub content_gone: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Step {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub event: Event,
    pub by: String,
    pub session: Option<Session>,
    pub origin: Option<Origin>,
    /// The text of the step, if it has one.
    pub text: Option<String>,
}

/// The deliveries of a message, with their history.
pub fn track(store: &Store, number: MessageNo, now: Timestamp) -> Result<Option<Track>, Error> {
    store.view(|tables| {
        let Some(found) = rows(store, tables, number)? else { return Ok(None) };
        let MessageRows { message, deliveries, events: history, archive } = found;
        let mut events: BTreeMap<DeliveryNo, Vec<EventRow>> = BTreeMap::new();
        for event in history {
            events.entry(event.delivery).or_default().push(event);
        }
        let deliveries = deliveries
            .into_iter()
            .map(|delivery| {
                let own = events.remove(&delivery.number).unwrap_or_default();
                delivery_view(store, tables, &message, delivery, &own, now)
            })
            .collect::<Result<_, _>>()?;
        let origin = if message.notice.is_none() { origin_of(store, message.position)? } else { None };
        Ok(Some(Track {
            number,
            subject: subject(store, tables, &message)?,
            from: message.sender.to_string(),
            trust: message.label,
            kind: message.kind,
            priority: message.priority,
            conversation: message.conversation,
            stored_at: message.at,
            origin,
            wants_response: message.wants_response,
            respond_by: message.respond_by,
            archive: archive.map(|archive| archive.file),
            as_of: tables.cursor.head.position,
            deliveries,
        }))
    })
}

fn delivery_view(
    store: &Store,
    tables: &Tables<'_>,
    message: &Message,
    delivery: Delivery,
    own: &[EventRow],
    now: Timestamp,
) -> Result<DeliveryView, Error> {
    // A reply or a forward is a message of its own, so it is named here and not repeated.
    let result = match (delivery.reason, delivery.ended_by) {
        (Some(EndReason::Done | EndReason::Acked | EndReason::Failed | EndReason::GateFailed), Some(position)) => {
            result_view(store, position)?
        }
        // The last attempt may have failed with a reason. One whose lease expired has none.
        (Some(EndReason::AttemptsExhausted), Some(position))
            if own.iter().any(|event| event.position == position && event.event == Event::AttemptFailed) =>
        {
            result_view(store, position)?
        }
        _ => None,
    };
    let late = own
        .iter()
        .filter(|event| event.event == Event::Late)
        .map(|event| result_view(store, event.position))
        .collect::<Result<Vec<_>, _>>()?;
    let history = own.iter().map(|event| step(store, event)).collect::<Result<_, _>>()?;
    let since = since(message, own);
    let wakes = wakes(store, own)?;
    Ok(DeliveryView {
        unseen: unseen((store, tables), message, &delivery, since, &wakes, now)?,
        wakes,
        since,
        unconfirmed: is_due(&delivery, now),
        recipient: delivery.address.to_string(),
        state: delivery.state,
        ready: delivery.ready,
        ready_at: delivery.ready_at,
        expires_at: delivery.expires_at,
        shown_at: delivery.shown_at,
        acked_at: delivery.acked_at,
        claimed_at: own.iter().rev().find(|event| event.event == Event::Claimed).map(|event| event.at),
        answered_at: delivery.answered_at,
        answer: delivery.answer,
        holder: delivery.holder.map(|holder| holder.to_string()),
        session: delivery.session,
        token: delivery.token,
        lease_until: delivery.lease_until,
        attempts: delivery.attempts,
        max_attempts: message.max_attempts,
        ended_at: delivery.ended_at,
        reason: delivery.reason,
        reminded_at: delivery.reminded_at,
        dropped_at: delivery.dropped_at,
        result,
        late: late.into_iter().flatten().collect(),
        history,
    })
}

/// The time of the last change of state, or when the message was stored.
fn since(message: &Message, events: &[EventRow]) -> Timestamp {
    let marks = [
        Event::Shown,
        Event::Acked,
        Event::Answered,
        Event::Late,
        Event::Extended,
        Event::LeaseMoved,
        Event::Reminded,
        Event::Dropped,
        Event::GatePassed,
        Event::WakeRequested,
        Event::WakeFailed,
        Event::Held,
        Event::RunStarted,
        Event::RunEnded,
    ];
    events.iter().rev().find(|event| !marks.contains(&event.event)).map_or(message.at, |event| event.at)
}

fn step(store: &Store, event: &EventRow) -> Result<Step, Error> {
    let text = if event.says_something() { said(store, event.position)? } else { None };
    Ok(Step {
        position: event.position,
        at: event.at,
        event: event.event,
        by: event.agent.to_string(),
        session: event.session.clone(),
        origin: origin_of(store, event.position)?,
        text,
    })
}

fn origin_of(store: &Store, position: Position) -> Result<Option<Origin>, Error> {
    envelope(store, position)?.map(|record| Origin::of(store, &record.sealed.envelope)).transpose()
}

/// The content of a record in one short line.
pub(super) fn said(store: &Store, position: Position) -> Result<Option<String>, Error> {
    let Found::Content(content) = content(store, position)? else { return Ok(None) };
    Ok(first_line(*content))
}

/// The summary of a result, or the first line of the text, shortened to fit a line.
pub(super) fn first_line(content: Content) -> Option<String> {
    const CHARS_MAX: usize = 200;
    let text = content.summary.unwrap_or_else(|| content.body.text().into_owned());
    let first = text.lines().find(|line| !line.trim().is_empty())?;
    let mut line: String = first.chars().take(CHARS_MAX).collect();
    if line.len() < text.trim_end().len() {
        line.push('…');
    }
    Some(line)
}

/// The whole text of a record.
pub(super) fn whole_text(store: &Store, position: Position) -> Result<Option<String>, Error> {
    let Found::Content(content) = content(store, position)? else { return Ok(None) };
    Ok(Some(content.body.text().into_owned()))
}

pub(super) fn result_view(store: &Store, position: Position) -> Result<Option<ResultView>, Error> {
    let Some(record) = envelope(store, position)? else { return Ok(None) };
    let files = match record.sealed.intent() {
        Ok(Some(Intent::Done(done))) => done.artifacts,
        _ => Vec::new(),
    };
    let mut result = ResultView {
        position,
        by: record.sealed.envelope.actor.to_string(),
        summary: None,
        text: String::new(),
        text_base64: None,
        recommend: None,
        files,
        content_gone: false,
    };
    match content(store, position)? {
        Found::Content(content) => {
            result.text = content.body.text().into_owned();
            result.text_base64 = base64_of(&content.body);
            result.summary = content.summary;
            result.recommend = content.recommend;
        }
        Found::Gone | Found::Redacted(_) => result.content_gone = true,
        Found::Never => {}
    }
    Ok(Some(result))
}
