//! Receipts of a message to several recipients: who responded, when, and with what note.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::happening::{self, ACKNOWLEDGMENT, Happening, references};
use super::{MESSAGES_MAX, Reading};
use crate::address::Address;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Delivery, EndReason, Event, Message, State};
use crate::text::{Label, Name, Topic, TypeName};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::views::rows::{MessageRows, rows};
use crate::views::thread::numbers_after;
use crate::vocabulary::{TrustLabel, worded_enum};

worded_enum!(
    /// How a recipient responded. The strongest response counts.
    Response {
        /// By `ack`, or by a reply of type `acknowledgment`.
        Acknowledged = 0 "acknowledged",
        /// By any other reply.
        Answered = 1 "answered",
        /// By forwarding it.
        Forwarded = 2 "forwarded",
        /// By `done`.
        Done = 3 "done",
        /// It was a question that another recipient or the deadline decided.
        Decided = 4 "decided",
    }
);

/// A broadcast in one line.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BroadcastLine {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub topic: Option<Topic>,
    pub subject: String,
    /// Number of recipients that have responded in any way.
    pub acknowledged: u64,
    /// Number of all recipients.
    pub recipients: u64,
    /// Recipients that have not.
    pub missing: Vec<String>,
}

/// A broadcast, a publication, or any message: which recipients have responded, and which have not.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct BroadcastReport {
    #[serde(flatten)]
    pub line: BroadcastLine,
    /// Its origin, as the log knows it: human, agent, outside or poste.
    pub trust: TrustLabel,
    pub conversation: Label,
    pub references: Vec<String>,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    /// One line for each recipient.
    pub receipts: Vec<Receipt>,
    /// What happened in its conversation, oldest first.
    pub timeline: Vec<Happening>,
    /// The timeline was cut.
    pub more: bool,
    /// Its archive file, if its conversation is archived.
    pub archive: Option<String>,
    /// Why not everything could be read.
    pub damage: Vec<String>,
    pub as_of: Position,
}

/// One recipient: when it saw the message, and when it responded.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Receipt {
    pub recipient: String,
    /// The agent that took it, if it went to a group.
    pub taken_by: Option<String>,
    pub state: State,
    /// When it was shown for the first time.
    #[serde(serialize_with = "rfc3339_option")]
    pub received_at: Option<Timestamp>,
    pub response: Option<Response>,
    #[serde(serialize_with = "rfc3339_option")]
    pub responded_at: Option<Timestamp>,
    /// The reply, if it was one.
    pub answer: Option<MessageNo>,
    /// The note of the response.
    pub note: Option<String>,
}

/// Maximum number of missing recipients that a line names.
const MISSING_MAX: usize = 1_000;

pub fn broadcast_report(store: &Store, number: MessageNo) -> Result<Option<BroadcastReport>, Error> {
    store.view(|tables| {
        let Some(found) = rows(store, tables, number)? else { return Ok(None) };
        let mut reading = Reading::new(store, tables);
        let receipts = receipts(&mut reading, &found)?;
        let line = line(&mut reading, &found.message, &receipts)?;
        let references = references(&mut reading, &found.message)?;
        let timeline = happening::timeline(&mut reading, &found.message.conversation, false)?;
        Ok(Some(BroadcastReport {
            line,
            trust: found.message.label,
            conversation: found.message.conversation,
            references,
            respond_by: found.message.respond_by,
            receipts,
            timeline: timeline.happenings,
            more: timeline.more,
            archive: found.archive.map(|archive| archive.file),
            damage: reading.damage(),
            as_of: tables.cursor.head.position,
        }))
    })
}

pub(super) fn line(
    reading: &mut Reading<'_, '_>,
    message: &Message,
    receipts: &[Receipt],
) -> Result<BroadcastLine, Error> {
    let missing = receipts.iter().filter(|receipt| receipt.response.is_none());
    Ok(BroadcastLine {
        number: message.number,
        at: message.at,
        from: message.sender.to_string(),
        kind: message.kind.clone(),
        topic: message.topic.clone(),
        subject: reading.subject(message)?,
        acknowledged: receipts.iter().filter(|receipt| receipt.response.is_some()).count() as u64,
        recipients: receipts.len() as u64,
        missing: missing.take(MISSING_MAX).map(|receipt| receipt.recipient.clone()).collect(),
    })
}

/// The response of each recipient of a message.
pub(super) fn receipts(reading: &mut Reading<'_, '_>, found: &MessageRows) -> Result<Vec<Receipt>, Error> {
    let replies = replies(reading, found)?;
    let mut receipts = Vec::with_capacity(found.deliveries.len());
    for delivery in &found.deliveries {
        receipts.push(receipt(reading, found, delivery, &replies)?);
    }
    Ok(receipts)
}

/// The replies to a message, by sender.
fn replies(reading: &mut Reading<'_, '_>, found: &MessageRows) -> Result<BTreeMap<Name, Vec<Message>>, Error> {
    let MessageRows { message, archive, .. } = found;
    let sql = "SELECT number FROM messages WHERE reply_to = ?1 AND notice IS NULL ORDER BY number";
    let mut numbers: Vec<MessageNo> = reading.tables.column(sql, [message.number])?;
    // Archived replies are not indexed by `reply_to`, but they are in the same conversation.
    if archive.is_some() {
        let later = numbers_after(reading.tables, &message.conversation, message.number, MESSAGES_MAX)?;
        numbers.extend(later);
        numbers.sort_unstable();
        numbers.dedup();
    }
    let mut replies: BTreeMap<Name, Vec<Message>> = BTreeMap::new();
    for number in numbers {
        let Some(reply) = reading.message(number)? else { continue };
        if reply.reply_to == Some(message.number) && reply.notice.is_none() {
            replies.entry(reply.sender.clone()).or_default().push(reply);
        }
    }
    Ok(replies)
}

fn receipt(
    reading: &mut Reading<'_, '_>,
    found: &MessageRows,
    delivery: &Delivery,
    replies: &BTreeMap<Name, Vec<Message>>,
) -> Result<Receipt, Error> {
    let who = match &delivery.address {
        Address::Agent(name) => Some(name),
        _ => delivery.holder.as_ref(),
    };
    let own = who.and_then(|who| replies.get(who)).map(Vec::as_slice).unwrap_or_default();
    let is_acknowledgment = |reply: &&Message| reply.kind.as_str() == ACKNOWLEDGMENT;
    let answer = own.iter().find(|reply| !is_acknowledgment(reply));
    let acknowledgment = own.iter().find(is_acknowledgment);
    let acked = found.events.iter().find(|event| event.delivery == delivery.number && event.event == Event::Acked);
    let ended = delivery.ended_at.zip(delivery.ended_by).filter(|_| delivery.state == State::Done);
    let mut receipt = Receipt {
        recipient: delivery.address.to_string(),
        taken_by: delivery.holder.as_ref().filter(|_| delivery.address.is_group()).map(Name::to_string),
        state: delivery.state,
        received_at: delivery.shown_at,
        response: None,
        responded_at: None,
        answer: None,
        note: None,
    };
    match (delivery.reason, ended) {
        (Some(EndReason::Done), Some((at, position))) => {
            receipt.response = Some(Response::Done);
            receipt.responded_at = Some(at);
            receipt.note = reading.note(position)?;
            receipt.answer = delivery.answer;
        }
        (Some(EndReason::Forwarded), Some((at, _))) => {
            receipt.response = Some(Response::Forwarded);
            receipt.responded_at = Some(at);
        }
        (Some(EndReason::Settled | EndReason::Defaulted), Some((at, _))) if answer.is_none() => {
            receipt.response = Some(Response::Decided);
            receipt.responded_at = Some(at);
        }
        _ => {
            if let Some(reply) = answer {
                replied(reading, &mut receipt, Response::Answered, reply)?;
            } else if let Some(acked) = acked.filter(|acked| acknowledgment.is_none_or(|reply| acked.at <= reply.at)) {
                receipt.response = Some(Response::Acknowledged);
                receipt.responded_at = Some(acked.at);
                receipt.note = reading.note(acked.position)?;
            } else if let Some(reply) = acknowledgment {
                replied(reading, &mut receipt, Response::Acknowledged, reply)?;
            }
        }
    }
    Ok(receipt)
}

fn replied(
    reading: &mut Reading<'_, '_>,
    receipt: &mut Receipt,
    response: Response,
    reply: &Message,
) -> Result<(), Error> {
    receipt.response = Some(response);
    receipt.responded_at = Some(reply.at);
    receipt.answer = Some(reply.number);
    receipt.note = reading.gist(reply)?;
    Ok(())
}
