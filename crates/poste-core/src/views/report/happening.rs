//! The timeline of a conversation: its messages, and the steps of their deliveries that matter.

use std::collections::BTreeSet;

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::{MESSAGES_MAX, Reading};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::tables::{Delivery, EndReason, Event, EventRow, Message};
use crate::text::{Label, TypeName};
use crate::time::{Timestamp, rfc3339};
use crate::views::rows::{MessageRows, UNREADABLE, in_log};
use crate::views::thread::numbers_after;
use crate::vocabulary::worded_enum;

pub(super) const BLOCKER: &str = "blocker_notification";
pub(super) const RESOLVED: &str = "blocker_resolved";
pub(super) const ACKNOWLEDGMENT: &str = "acknowledgment";

worded_enum!(
    /// The kind of an event in a conversation.
    Happened {
        Sent = 0 "sent",
        /// A message of type `blocker_notification`.
        Reported = 1 "reported",
        /// A message of type `blocker_resolved`.
        Resolved = 2 "resolved",
        /// A reply to an earlier message.
        Answered = 3 "answered",
        /// An earlier message was forwarded.
        Forwarded = 4 "forwarded",
        /// By `ack`, or by a message of type `acknowledgment`.
        Acknowledged = 5 "acknowledged",
        Shown = 6 "shown",
        Claimed = 7 "claimed",
        Released = 8 "released",
        LeaseExpired = 9 "lease_expired",
        AttemptFailed = 10 "attempt_failed",
        Done = 11 "done",
        Failed = 12 "failed",
        Dead = 13 "dead",
        Expired = 14 "expired",
        Returned = 15 "returned",
        Retried = 16 "retried",
        /// A result came after the lease was lost.
        Late = 17 "late",
        /// To an agent that subscribed after it was published.
        Delivered = 18 "delivered",
        /// A response was not given in time, and the sender was notified.
        Reminded = 19 "reminded",
        Dropped = 20 "dropped",
        /// The conversation was closed.
        Closed = 21 "closed",
        /// A question was decided by an answer.
        Decided = 22 "decided",
        /// A question was not decided in time, so its default was applied.
        Defaulted = 23 "defaulted",
        /// A question was not decided in time and had no default.
        Unanswered = 24 "unanswered",
        /// Its sender withdrew it.
        Withdrawn = 25 "withdrawn",
    }
);

/// One line of a timeline: a message, or a step of a delivery.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Happening {
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub position: Position,
    pub what: Happened,
    /// The agent that did it; `poste` for the office itself.
    pub by: String,
    /// The message, or the one the step is about.
    pub number: MessageNo,
    /// Set when it is a message.
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// For a message: at most eight of its recipients. For a step: the sender of the message.
    pub to: Vec<String>,
    /// For a message: the number of recipients.
    pub recipients: Option<u64>,
    /// For a step: the recipient of the delivery.
    pub recipient: Option<String>,
    pub reply_to: Option<MessageNo>,
    pub forward_of: Option<MessageNo>,
    /// The subject of a message, the first line of a reply, or the text of a step.
    pub text: Option<String>,
    /// It belongs to another conversation, and one of the two refers to the other.
    pub linked: bool,
}

/// Maximum number of recipients that a line names.
const NAMED_MAX: usize = 8;
/// Maximum number of lines of a timeline.
const HAPPENINGS_MAX: usize = 2_000;
/// Maximum number of messages of other conversations.
const LINKED_MAX: usize = 200;

/// The messages of a conversation, and what happened to them.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    pub happenings: Vec<Happening>,
    pub found: Vec<MessageRows>,
    /// There is more than was read.
    pub more: bool,
}

/// The timeline of a conversation. `with_linked` includes linked messages of other conversations.
pub(super) fn timeline(
    reading: &mut Reading<'_, '_>,
    conversation: &Label,
    with_linked: bool,
) -> Result<Timeline, Error> {
    let mut numbers = numbers_after(reading.tables, conversation, MessageNo(0), MESSAGES_MAX + 1)?;
    let mut timeline = Timeline { more: numbers.len() > MESSAGES_MAX, ..Timeline::default() };
    numbers.truncate(MESSAGES_MAX);
    for number in &numbers {
        timeline.add(reading, *number, false)?;
    }
    if with_linked {
        for number in linked(reading, conversation, &numbers, &timeline.found)? {
            timeline.add(reading, number, true)?;
        }
    }
    if let Some(closed) = reading.tables.closed(conversation)? {
        timeline.happenings.push(Happening {
            text: reading.note(closed.position)?,
            ..blank(Happened::Closed, closed.at, closed.position, closed.by.as_str(), numbers.first().copied())
        });
    }
    // A stable sort: the message of a record stays before its steps.
    timeline.happenings.sort_by_key(|happening| happening.position);
    timeline.more = timeline.more || timeline.happenings.len() > HAPPENINGS_MAX;
    timeline.happenings.truncate(HAPPENINGS_MAX);
    Ok(timeline)
}

impl Timeline {
    fn add(&mut self, reading: &mut Reading<'_, '_>, number: MessageNo, is_linked: bool) -> Result<(), Error> {
        let Some(found) = reading.rows(number)? else {
            self.happenings.extend(unreadable(reading, number)?);
            return Ok(());
        };
        // A notice only repeats a step of the delivery it is about.
        if found.message.notice.is_none() {
            let text = words(reading, &found.message)?;
            let told = decided(reading, &found.message, sent(&found, text))?;
            self.happenings.push(Happening { linked: is_linked, ..told });
            for step in steps(reading, &found)? {
                self.happenings.push(Happening { linked: is_linked, ..step });
            }
        }
        if !is_linked {
            self.found.push(found);
        }
        Ok(())
    }
}

/// Messages of other conversations that answer one of these, or that one of these answers, forwards or references.
/// Answers are found by an index, referenced messages by number.
fn linked(
    reading: &mut Reading<'_, '_>,
    conversation: &Label,
    own: &[MessageNo],
    found: &[MessageRows],
) -> Result<BTreeSet<MessageNo>, Error> {
    let mut linked = BTreeSet::new();
    for number in own {
        let replies: Vec<MessageNo> = reading.tables.column(
            "SELECT number FROM messages
             WHERE reply_to = ?1 AND conversation <> ?2 AND notice IS NULL ORDER BY number LIMIT ?3",
            params![number, conversation, LINKED_MAX],
        )?;
        linked.extend(replies);
    }
    for MessageRows { message, .. } in found {
        linked.extend([message.reply_to, message.forward_of].into_iter().flatten());
        linked.extend(references(reading, message)?.iter().filter_map(|text| numbered(text)));
    }
    let own: BTreeSet<MessageNo> = own.iter().copied().collect();
    let last = reading.tables.cursor.message_last;
    linked.retain(|number| !own.contains(number) && (MessageNo(1)..=last).contains(number));
    Ok(linked.into_iter().take(LINKED_MAX).collect())
}

/// The text of a message's line: its subject, or for a reply that only repeats the subject, its first line.
fn words(reading: &mut Reading<'_, '_>, message: &Message) -> Result<String, Error> {
    let subject = reading.subject(message)?;
    if message.reply_to.is_none() || !subject.starts_with("Re: ") {
        return Ok(subject);
    }
    Ok(reading.gist(message)?.unwrap_or(subject))
}

/// The references of a message (`--ref`).
pub(super) fn references(reading: &mut Reading<'_, '_>, message: &Message) -> Result<Vec<String>, Error> {
    if message.notice.is_some() {
        return Ok(Vec::new());
    }
    let mut references = Vec::new();
    reading.said(message.position, |content| {
        references = content.references;
        None
    })?;
    Ok(references)
}

/// A message as people name it: `12` or `#12`.
fn numbered(text: &str) -> Option<MessageNo> {
    text.strip_prefix('#').unwrap_or(text).parse().ok().map(MessageNo)
}

fn blank(what: Happened, at: Timestamp, position: Position, by: &str, number: Option<MessageNo>) -> Happening {
    Happening {
        at,
        position,
        what,
        by: by.to_owned(),
        number: number.unwrap_or_default(),
        kind: None,
        to: Vec::new(),
        recipients: None,
        recipient: None,
        reply_to: None,
        forward_of: None,
        text: None,
        linked: false,
    }
}

fn sent(found: &MessageRows, text: String) -> Happening {
    let MessageRows { message, deliveries, .. } = found;
    let what = match message.kind.as_str() {
        BLOCKER if message.forward_of.is_none() => Happened::Reported,
        RESOLVED => Happened::Resolved,
        ACKNOWLEDGMENT => Happened::Acknowledged,
        _ if message.forward_of.is_some() => Happened::Forwarded,
        _ if message.reply_to.is_some() => Happened::Answered,
        _ => Happened::Sent,
    };
    Happening {
        kind: Some(message.kind.clone()),
        to: deliveries.iter().take(NAMED_MAX).map(|delivery| delivery.address.to_string()).collect(),
        recipients: Some(deliveries.len() as u64),
        reply_to: message.reply_to,
        forward_of: message.forward_of,
        text: Some(text),
        ..blank(what, message.at, message.position, message.sender.as_str(), Some(message.number))
    }
}

/// Adds the choice to the answer that decided a question.
fn decided(reading: &Reading<'_, '_>, message: &Message, told: Happening) -> Result<Happening, Error> {
    let Some(question) = message.reply_to else { return Ok(told) };
    let Some(approval) = reading.tables.approval(question)?.filter(|asked| asked.answer == Some(message.number)) else {
        return Ok(told);
    };
    let choice = approval.choice.as_ref().map(ToString::to_string).unwrap_or_default();
    let text = match told.text.as_deref().filter(|text| !text.is_empty() && !text.starts_with("Re: ")) {
        Some(note) => format!("{choice}, {note}"),
        None => choice,
    };
    Ok(Happening { what: Happened::Decided, text: Some(text), ..told })
}

/// A message whose archive is missing or damaged, with what the log alone knows about it.
fn unreadable(reading: &mut Reading<'_, '_>, number: MessageNo) -> Result<Option<Happening>, Error> {
    let Some(said) = in_log(reading.tables, number)? else { return Ok(None) };
    let Some(header) = said.header else { return Ok(None) };
    let Some(position) = reading.tables.position_of(number)? else { return Ok(None) };
    Ok(Some(Happening {
        kind: Some(header.kind),
        to: header.to.iter().take(NAMED_MAX).map(ToString::to_string).collect(),
        reply_to: header.reply_to,
        text: Some(UNREADABLE.to_owned()),
        ..blank(Happened::Sent, said.at, position, said.sender.as_str(), Some(number))
    }))
}

/// The steps of a message's deliveries, without those that other lines show.
fn steps(reading: &mut Reading<'_, '_>, found: &MessageRows) -> Result<Vec<Happening>, Error> {
    let MessageRows { message, deliveries, events, .. } = found;
    let mut shown = BTreeSet::new();
    let mut decided = BTreeSet::new();
    let mut steps = Vec::new();
    for event in events {
        let Some(what) = happened(event) else { continue };
        let is_repeated = what == Happened::Shown && !shown.insert((event.delivery, event.agent.clone()));
        if is_repeated || (what == Happened::Claimed && ends_at_once(events, event)) {
            continue;
        }
        // A question is decided once, regardless of the number of recipients.
        let at_deadline = matches!(what, Happened::Defaulted | Happened::Unanswered);
        if at_deadline && !decided.insert(event.position) {
            continue;
        }
        let recipient: Option<&Delivery> = deliveries.iter().find(|delivery| delivery.number == event.delivery);
        steps.push(Happening {
            to: vec![message.sender.to_string()],
            recipient: recipient.map(|delivery| delivery.address.to_string()),
            text: match what {
                Happened::Defaulted => default_of(reading, message)?,
                _ if event.says_something() => reading.note(event.position)?,
                _ => None,
            },
            ..blank(what, event.at, event.position, event.agent.as_str(), Some(message.number))
        });
    }
    Ok(steps)
}

fn default_of(reading: &Reading<'_, '_>, message: &Message) -> Result<Option<String>, Error> {
    let choice = reading.tables.approval(message.number)?.and_then(|approval| approval.choice);
    Ok(choice.map(|choice| format!("{choice}, the default")))
}

/// A `done` on an unclaimed delivery claims it in the same record.
fn ends_at_once(events: &[EventRow], claim: &EventRow) -> bool {
    let ends = [Event::Done, Event::Failed, Event::AttemptFailed];
    let same = |event: &EventRow| (event.position, event.delivery) == (claim.position, claim.delivery);
    events.iter().any(|event| same(event) && ends.contains(&event.event))
}

/// Ends that another line shows: an ack, a reply, a forward, or the answer that decided it.
const TOLD_ALREADY: [EndReason; 4] = [EndReason::Acked, EndReason::Replied, EndReason::Forwarded, EndReason::Settled];

/// The step as a timeline shows it; `None` if a reply, an ack or another line already shows it.
fn happened(event: &EventRow) -> Option<Happened> {
    let ended_as = |reason: EndReason| event.value == Some(i64::from(reason.number()));
    Some(match event.event {
        Event::Shown => Happened::Shown,
        Event::Claimed => Happened::Claimed,
        Event::Released => Happened::Released,
        Event::LeaseExpired => Happened::LeaseExpired,
        Event::Acked => Happened::Acknowledged,
        Event::Done if TOLD_ALREADY.into_iter().any(ended_as) => return None,
        Event::Done if ended_as(EndReason::Defaulted) => Happened::Defaulted,
        Event::Done => Happened::Done,
        Event::Failed => Happened::Failed,
        Event::AttemptFailed => Happened::AttemptFailed,
        Event::Dead => Happened::Dead,
        Event::Expired if ended_as(EndReason::Unanswered) => Happened::Unanswered,
        Event::Expired => Happened::Expired,
        Event::Returned if ended_as(EndReason::Withdrawn) => Happened::Withdrawn,
        Event::Returned => Happened::Returned,
        Event::Retried => Happened::Retried,
        Event::Late => Happened::Late,
        Event::Delivered => Happened::Delivered,
        Event::Reminded => Happened::Reminded,
        Event::Dropped => Happened::Dropped,
        // The return of a message that its gates stopped is shown.
        Event::GatePassed | Event::GateFailed => return None,
        // A ring changes nothing; whether the message was seen is shown.
        Event::WakeRequested | Event::WakeFailed => return None,
        // The outcome of its runs is shown by how it ended.
        Event::Held | Event::RunStarted | Event::RunEnded => return None,
        Event::Answered | Event::Extended | Event::Ready | Event::LeaseMoved => return None,
    })
}
