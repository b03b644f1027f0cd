//! A report on a day of the office.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::blocker::{self, BlockerLine};
use super::broadcast::{self, BroadcastLine};
use super::conversation::outcome;
use super::happening::{BLOCKER, RESOLVED};
use super::span::{Span, Stored};
use super::{LIST_MAX, Reading};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{EndReason, Event};
use crate::text::{Label, POSTE, TypeName};
use crate::time::{Timestamp, rfc3339};
use crate::views::rows::UNREADABLE;
use crate::views::thread::{ThreadStatus, numbers_after, status};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DayReport {
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    /// The end of the day, or now.
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
    /// Messages stored on this day, without notices of the office.
    pub messages: u64,
    pub by_type: Vec<TypeCount>,
    /// The full lengths of the following lists, which have at most a hundred entries.
    pub counts: DayCounts,
    /// Conversations with activity on this day that have ended by now.
    pub finished: Vec<ConversationLine>,
    /// Conversations with activity on this day that have pending or claimed mail.
    pub open: Vec<ConversationLine>,
    /// Messages of this day to several recipients, or to a topic.
    pub broadcasts: Vec<BroadcastLine>,
    /// Blockers that were reported or resolved on this day.
    pub blockers: Vec<BlockerLine>,
    /// Deliveries that ended badly on this day.
    pub ended_badly: Vec<Ended>,
    pub agents: Vec<AgentDay>,
    /// Some lists were cut.
    pub more: bool,
    /// Why not everything could be read.
    pub damage: Vec<String>,
    pub as_of: Position,
}

#[derive(Debug, Clone, Copy, Default, Serialize, JsonSchema)]
pub struct DayCounts {
    pub finished: usize,
    pub open: usize,
    pub broadcasts: usize,
    pub blockers: usize,
    pub ended_badly: usize,
}

impl DayCounts {
    fn are_cut(self) -> bool {
        let Self { finished, open, broadcasts, blockers, ended_badly } = self;
        [finished, open, broadcasts, blockers, ended_badly].into_iter().any(|count| count > LIST_MAX)
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TypeCount {
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub count: u64,
}

impl TypeCount {
    /// The most frequent first.
    pub(super) fn list(counts: BTreeMap<TypeName, u64>) -> Vec<Self> {
        let mut list: Vec<Self> = counts.into_iter().map(|(kind, count)| Self { kind, count }).collect();
        list.sort_by_key(|type_count| std::cmp::Reverse(type_count.count));
        list
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ConversationLine {
    pub conversation: Label,
    /// The subject of its first message.
    pub subject: String,
    /// Its status now.
    pub status: ThreadStatus,
    /// Number of messages sent in it on this day.
    pub messages: u64,
    /// The outcome it was closed with.
    pub outcome: Option<String>,
}

/// A delivery that ended badly.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Ended {
    pub number: MessageNo,
    pub subject: String,
    pub recipient: String,
    pub what: Event,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// The agent that ended it; `poste` for the office itself.
    pub by: String,
    pub reason: Option<String>,
}

/// The work of an agent on a day.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct AgentDay {
    pub name: String,
    pub sent: u64,
    /// Messages addressed to it by name.
    pub received: u64,
    pub claimed: u64,
    pub done: u64,
    pub failed: u64,
    pub acknowledged: u64,
    pub answered: u64,
}

/// The report from the beginning of a day up to its end, or up to now.
pub fn day_report(store: &Store, since: Timestamp, end: Timestamp, now: Timestamp) -> Result<DayReport, Error> {
    store.view(|tables| {
        let mut reading = Reading::new(store, tables);
        // A span excludes its end, but records of this very moment belong to the day.
        let span = Span::new(&mut reading, since, end.min(now.plus_ms(1)))?;
        let mut day = Day::default();
        span.messages(&mut reading, |reading, stored| day.see_message(reading, &span, stored))?;
        for (name, received) in span.received(&reading)? {
            day.agent(&name).received = received;
        }
        day.see_steps(&mut reading, &span)?;
        day.see_conversations(&mut reading, &span)?;
        Ok(DayReport {
            since,
            until: end.min(now),
            messages: day.by_type.values().sum(),
            by_type: TypeCount::list(day.by_type),
            counts: day.counts,
            finished: day.finished,
            open: day.open,
            broadcasts: day.broadcasts,
            blockers: day.blockers,
            ended_badly: day.ended,
            agents: day.agents.into_values().collect(),
            more: day.counts.are_cut(),
            damage: reading.damage(),
            as_of: tables.cursor.head.position,
        })
    })
}

/// A day report while it is being built.
#[derive(Default)]
struct Day {
    counts: DayCounts,
    by_type: BTreeMap<TypeName, u64>,
    /// Messages of the day in each conversation.
    conversations: BTreeMap<Label, u64>,
    /// Conversations with a message about a blocker.
    about_blockers: BTreeSet<Label>,
    finished: Vec<ConversationLine>,
    open: Vec<ConversationLine>,
    broadcasts: Vec<BroadcastLine>,
    blockers: Vec<BlockerLine>,
    ended: Vec<Ended>,
    agents: BTreeMap<String, AgentDay>,
}

impl Day {
    fn agent(&mut self, name: &str) -> &mut AgentDay {
        self.agents.entry(name.to_owned()).or_insert_with(|| AgentDay { name: name.to_owned(), ..AgentDay::default() })
    }

    fn see_message(&mut self, reading: &mut Reading<'_, '_>, span: &Span, stored: Stored) -> Result<(), Error> {
        if stored.sender.is_poste() {
            return Ok(());
        }
        *self.by_type.entry(stored.kind).or_default() += 1;
        self.agent(stored.sender.as_str()).sent += 1;
        let Some(message) = stored.message else { return Ok(()) };
        if [BLOCKER, RESOLVED].contains(&message.kind.as_str()) {
            self.about_blockers.insert(message.conversation.clone());
        }
        *self.conversations.entry(message.conversation.clone()).or_default() += 1;
        let Some(found) = span.rows(reading, stored.number)? else { return Ok(()) };
        if found.deliveries.len() <= 1 && message.topic.is_none() {
            return Ok(());
        }
        // A question to several recipients needs one decision, not a response of each.
        if reading.tables.approval(message.number)?.is_some() {
            return Ok(());
        }
        self.counts.broadcasts += 1;
        if self.broadcasts.len() < LIST_MAX {
            let receipts = broadcast::receipts(reading, &found)?;
            self.broadcasts.push(broadcast::line(reading, &message, &receipts)?);
        }
        Ok(())
    }

    fn see_steps(&mut self, reading: &mut Reading<'_, '_>, span: &Span) -> Result<(), Error> {
        let counted = [
            Event::Claimed,
            Event::Acked,
            Event::Done,
            Event::Failed,
            Event::Answered,
            Event::Dead,
            Event::Expired,
            Event::Returned,
        ];
        let ended_as = |value: Option<i64>, reason: EndReason| value == Some(i64::from(reason.number()));
        span.steps(
            reading,
            |event| counted.contains(&event.event),
            |reading, message, delivery, event| {
                let bad = [Event::Failed, Event::Dead, Event::Expired, Event::Returned].contains(&event.event);
                // Mail that was open in a closed conversation did not fail, nor did withdrawn mail.
                let fine = [EndReason::ConversationClosed, EndReason::Withdrawn, EndReason::Cancelled];
                let is_closed = fine.into_iter().any(|reason| ended_as(event.value, reason));
                let ends = bad || matches!(event.event, Event::Done | Event::Acked);
                if ends && message.notice.is_none() {
                    self.conversations.entry(message.conversation.clone()).or_default();
                }
                let is_counted = bad && !is_closed;
                self.counts.ended_badly += usize::from(is_counted);
                if is_counted && self.ended.len() < LIST_MAX {
                    self.ended.push(Ended {
                        number: message.number,
                        subject: reading.subject(message)?,
                        recipient: delivery.address.to_string(),
                        what: event.event,
                        at: event.at,
                        by: event.agent.to_string(),
                        reason: if event.agent.as_str() == POSTE { None } else { reading.note(event.position)? },
                    });
                }
                if event.agent.as_str() == POSTE {
                    return Ok(());
                }
                let agent = self.agent(event.agent.as_str());
                match event.event {
                    Event::Claimed => agent.claimed += 1,
                    Event::Acked => agent.acknowledged += 1,
                    Event::Done if is_work_done(event.value) => agent.done += 1,
                    Event::Failed => agent.failed += 1,
                    Event::Answered => agent.answered += 1,
                    _ => {}
                }
                Ok(())
            },
        )?;
        self.ended.sort_by_key(|ended| ended.at);
        Ok(())
    }

    fn see_conversations(&mut self, reading: &mut Reading<'_, '_>, span: &Span) -> Result<(), Error> {
        for conversation in &span.closed {
            self.conversations.entry(conversation.clone()).or_default();
        }
        let mut conversations: Vec<(Label, u64)> = std::mem::take(&mut self.conversations).into_iter().collect();
        conversations.sort_by(|(a, _), (b, _)| in_order(a).cmp(&in_order(b)));
        for (conversation, messages) in conversations {
            let status = status(reading.tables, &conversation)?;
            let (list, count) = match status {
                ThreadStatus::Open => (&mut self.open, &mut self.counts.open),
                _ => (&mut self.finished, &mut self.counts.finished),
            };
            *count += 1;
            if list.len() < LIST_MAX {
                list.push(conversation_line(reading, conversation.clone(), status, messages)?);
            }
            if self.about_blockers.contains(&conversation) || span.closed.contains(&conversation) {
                self.blockers.extend(blocker::line(reading, &conversation)?.map(|(_, line)| line));
            }
        }
        self.blockers.sort_by_key(|blocker| blocker.reported_at);
        self.counts.blockers = self.blockers.len();
        self.blockers.truncate(LIST_MAX);
        Ok(())
    }
}

/// Whether an end counts as work. An ack is counted as an ack, and a delivery ended by another agent's decision is not.
pub(super) fn is_work_done(ended_as: Option<i64>) -> bool {
    ![EndReason::Acked, EndReason::Settled].iter().any(|reason| ended_as == Some(i64::from(reason.number())))
}

/// Conversations named after their first message by its number, then the others by name.
fn in_order(conversation: &Label) -> (u64, &str) {
    let text = conversation.as_str();
    (text.parse().unwrap_or(u64::MAX), text)
}

fn conversation_line(
    reading: &mut Reading<'_, '_>,
    conversation: Label,
    status: ThreadStatus,
    messages: u64,
) -> Result<ConversationLine, Error> {
    let first = numbers_after(reading.tables, &conversation, MessageNo(0), 1)?;
    let first = match first.first() {
        Some(number) => reading.message(*number)?,
        None => None,
    };
    Ok(ConversationLine {
        subject: first.map(|message| reading.subject(&message)).transpose()?.unwrap_or_else(|| UNREADABLE.to_owned()),
        status,
        messages,
        outcome: outcome(reading, &conversation)?.map(|outcome| outcome.text),
        conversation,
    })
}
