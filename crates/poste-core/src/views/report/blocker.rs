//! Blockers: who reported one, what was done about it, and how long it took.

use schemars::JsonSchema;
use serde::Serialize;

use super::agent::OpenMail;
use super::conversation::outcome;
use super::happening::{self, BLOCKER, Happening, RESOLVED};
use super::{MESSAGES_MAX, Reading};
use crate::error::Error;
use crate::log::{Content, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::Message;
use crate::text::{Label, Topic};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::views::thread::numbers_after;
use crate::vocabulary::worded_enum;

worded_enum!(
    BlockerStatus {
        Open = 0 "open",
        /// `blocker_resolved` was sent, or the conversation was closed.
        Resolved = 1 "resolved",
    }
);

/// A blocker in one line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BlockerLine {
    /// The message that reported it.
    pub number: MessageNo,
    pub conversation: Label,
    pub subject: String,
    pub reported_by: String,
    #[serde(serialize_with = "rfc3339")]
    pub reported_at: Timestamp,
    pub status: BlockerStatus,
    pub resolved_by: Option<String>,
    #[serde(serialize_with = "rfc3339_option")]
    pub resolved_at: Option<Timestamp>,
    /// From the report to the resolution.
    pub resolution_ms: Option<i64>,
    /// The text of the resolution.
    pub resolution: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BlockerReport {
    #[serde(flatten)]
    pub line: BlockerLine,
    /// The `blocker_type` of its payload or metadata.
    pub blocker_type: Option<String>,
    pub topic: Option<Topic>,
    /// Work in its conversation that is pending or claimed.
    pub waiting: Vec<OpenMail>,
    /// What happened, oldest first, also in other conversations that refer to it.
    pub timeline: Vec<Happening>,
    /// There is more than was read.
    pub more: bool,
    /// Why not everything could be read.
    pub damage: Vec<String>,
    pub as_of: Position,
}

/// The blocker of a conversation; `None` if none was reported in it.
pub fn blocker_report(store: &Store, conversation: &Label, now: Timestamp) -> Result<Option<BlockerReport>, Error> {
    store.view(|tables| {
        let mut reading = Reading::new(store, tables);
        let Some((report, line)) = line(&mut reading, conversation)? else {
            // The report may be in an unreadable archive.
            return reading.damage.pop_first().map_or(Ok(None), |damage| Err(Error::Damaged(damage)));
        };
        let blocker_type = reading.said(report.position, blocker_type)?;
        let timeline = happening::timeline(&mut reading, conversation, true)?;
        let mut waiting = Vec::new();
        for found in timeline.found.iter().filter(|found| found.message.work) {
            for delivery in found.deliveries.iter().filter(|delivery| delivery.state.is_open()) {
                waiting.push(OpenMail::of(&mut reading, &found.message, delivery, now)?);
            }
        }
        Ok(Some(BlockerReport {
            line,
            blocker_type,
            topic: report.topic,
            waiting,
            timeline: timeline.happenings,
            more: timeline.more,
            damage: reading.damage(),
            as_of: tables.cursor.head.position,
        }))
    })
}

/// The message that reported the blocker of a conversation, and the state of the blocker.
pub(super) fn line(
    reading: &mut Reading<'_, '_>,
    conversation: &Label,
) -> Result<Option<(Message, BlockerLine)>, Error> {
    let (mut first, mut resolved) = (None, None);
    for number in numbers_after(reading.tables, conversation, MessageNo(0), MESSAGES_MAX)? {
        let Some(message) = reading.message(number)? else { continue };
        match message.kind.as_str() {
            _ if message.notice.is_some() => {}
            // A forwarded report is not a new blocker.
            BLOCKER if message.forward_of.is_some() => {}
            // A blocker that is reported again was not resolved.
            BLOCKER => {
                resolved = None;
                first.get_or_insert(message);
            }
            RESOLVED if first.is_some() && resolved.is_none() => resolved = Some(message),
            _ => {}
        }
    }
    let Some(report) = first else { return Ok(None) };
    let mut line = BlockerLine {
        number: report.number,
        conversation: conversation.clone(),
        subject: reading.subject(&report)?,
        reported_by: report.sender.to_string(),
        reported_at: report.at,
        status: BlockerStatus::Open,
        resolved_by: None,
        resolved_at: None,
        resolution_ms: None,
        resolution: None,
    };
    if let Some(message) = resolved {
        line.resolution = Some(reading.subject(&message)?);
        line.settle(message.sender.as_str(), message.at);
    } else if let Some(closed) = outcome(reading, conversation)? {
        line.resolution = Some(closed.text);
        line.settle(&closed.by, closed.at);
    }
    Ok(Some((report, line)))
}

impl BlockerLine {
    fn settle(&mut self, by: &str, at: Timestamp) {
        self.status = BlockerStatus::Resolved;
        self.resolved_by = Some(by.to_owned());
        self.resolved_at = Some(at);
        self.resolution_ms = Some(at.since_ms(self.reported_at));
    }
}

const BLOCKER_TYPE: &str = "blocker_type";

/// The kind of the blocker, as given by its reporter.
fn blocker_type(content: Content) -> Option<String> {
    let payload = content.payload.and_then(|payload| serde_json::from_str::<serde_json::Value>(payload.get()).ok());
    let in_payload = payload.and_then(|payload| payload.get(BLOCKER_TYPE)?.as_str().map(str::to_owned));
    in_payload.or_else(|| content.metadata.get(BLOCKER_TYPE).cloned())
}
