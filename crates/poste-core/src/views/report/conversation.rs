//! A report on a conversation: participants, duration, status and results.

use schemars::JsonSchema;
use serde::Serialize;

use super::happening::{self, Happening};
use super::{GONE, Reading};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{EndReason, State};
use crate::text::Label;
use crate::time::{Timestamp, rfc3339};
use crate::views::rows::MessageRows;
use crate::views::status::Count;
use crate::views::thread::{ThreadOutcome, ThreadStatus, whole_summary};
use crate::views::track::{ResultView, result_view};
use crate::vocabulary::worded_enum;

worded_enum!(
    /// The status of a conversation.
    ConversationStatus {
        /// Something in it is pending or claimed.
        Open = 0 "open",
        /// Everything in it has ended.
        Resolved = 1 "resolved",
        /// It was closed with an outcome.
        Closed = 2 "closed",
    }
);

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConversationReport {
    pub conversation: Label,
    /// The subject of its first message.
    pub subject: String,
    pub participants: Vec<String>,
    pub messages: Count,
    /// Deliveries that are pending or claimed.
    pub open: Count,
    #[serde(serialize_with = "rfc3339")]
    pub began_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub last_at: Timestamp,
    pub duration_ms: i64,
    pub status: ConversationStatus,
    /// It is archived.
    pub archived: bool,
    pub outcome: Option<ThreadOutcome>,
    /// Results of finished and failed work in it, oldest first.
    pub results: Vec<WorkResult>,
    /// What happened, oldest first.
    pub timeline: Vec<Happening>,
    /// Results and timeline were cut.
    pub more: bool,
    /// Why not everything could be read.
    pub damage: Vec<String>,
    pub as_of: Position,
}

/// How the work that a message asked for ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkResult {
    pub number: MessageNo,
    pub subject: String,
    pub recipient: String,
    pub state: State,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    #[serde(flatten)]
    pub result: ResultView,
}

/// The report on a conversation.
pub fn conversation_report(store: &Store, conversation: &Label) -> Result<ConversationReport, Error> {
    store.view(|tables| {
        let summary = whole_summary(store, tables, conversation)?;
        let mut reading = Reading::new(store, tables);
        reading.damage.extend(summary.damage);
        let timeline = happening::timeline(&mut reading, conversation, false)?;
        let outcome = outcome(&mut reading, conversation)?;
        let archived = summary.status == ThreadStatus::Archived;
        let status = match summary.status {
            ThreadStatus::Open => ConversationStatus::Open,
            _ if outcome.is_some() => ConversationStatus::Closed,
            _ => ConversationStatus::Resolved,
        };
        let mut results = Vec::new();
        for found in &timeline.found {
            results.extend(results_of(&mut reading, found)?);
        }
        results.sort_by_key(|result| (result.at, result.result.position));
        let ended_at = outcome.as_ref().map_or(summary.last_at, |outcome| outcome.at.max(summary.last_at));
        Ok(ConversationReport {
            conversation: conversation.clone(),
            subject: summary.subject,
            participants: summary.participants,
            messages: summary.messages,
            open: summary.open,
            began_at: summary.began_at,
            last_at: ended_at,
            duration_ms: ended_at.since_ms(summary.began_at),
            status,
            archived,
            outcome,
            results,
            timeline: timeline.happenings,
            more: timeline.more,
            damage: reading.damage(),
            as_of: tables.cursor.head.position,
        })
    })
}

/// The full outcome that it was closed with.
pub(super) fn outcome(reading: &mut Reading<'_, '_>, conversation: &Label) -> Result<Option<ThreadOutcome>, Error> {
    let Some(closed) = reading.tables.closed(conversation)? else { return Ok(None) };
    let text = reading.said(closed.position, |content| Some(content.body.text().into_owned()))?;
    Ok(Some(ThreadOutcome { by: closed.by.to_string(), at: closed.at, text: text.unwrap_or(GONE.to_owned()) }))
}

/// The results that recipients of a message gave.
fn results_of(reading: &mut Reading<'_, '_>, found: &MessageRows) -> Result<Vec<WorkResult>, Error> {
    let mut results = Vec::new();
    for delivery in &found.deliveries {
        let is_result = matches!(delivery.reason, Some(EndReason::Done | EndReason::Failed));
        let Some((at, position)) = delivery.ended_at.zip(delivery.ended_by).filter(|_| is_result) else { continue };
        let result = result_view(reading.store, position);
        let Some(result) = reading.or(result, None)? else { continue };
        results.push(WorkResult {
            number: found.message.number,
            subject: reading.subject(&found.message)?,
            recipient: delivery.address.to_string(),
            state: delivery.state,
            at,
            result,
        });
    }
    Ok(results)
}
