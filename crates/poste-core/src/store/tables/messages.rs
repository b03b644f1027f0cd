//! Messages: what the fold needs of each. What people wrote is in `content`, the rest in the envelope.

use serde::{Deserialize, Serialize};

use super::rows::Stored as _;
use super::{Tables, kept};
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::text::{Label, Name, Topic, TypeName};
use crate::time::Timestamp;
use crate::vocabulary::{Priority, TrustLabel, Urgency, worded_enum};

worded_enum!(
    /// Why the fold itself wrote a message. Its text is rendered by the view that shows it.
    Notice {
        Failed = 0 "failed",
        Dead = 1 "dead",
        Expired = 2 "expired",
        Returned = 3 "returned",
        Late = 4 "late",
        Overdue = 5 "overdue",
        Closed = 6 "closed",
        /// The default of an approval was applied at its deadline.
        Defaulted = 8 "defaulted",
        /// An approval was decided or withdrawn while another agent held it.
        Settled = 9 "settled",
        /// An approval will no longer be decided.
        Unanswered = 10 "unanswered",
        /// A handoff was withdrawn by its sender.
        Withdrawn = 7 "withdrawn",
        /// A step ended while an agent held it: it timed out, or its workflow ended.
        StepOver = 11 "step_over",
        /// The owner of a workflow without a lead retired, so it was cancelled.
        Orphaned = 21 "orphaned",
        /// Its recipient is stopped, so it waits.
        Stopped = 20 "stopped",
    }
);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    pub number: MessageNo,
    pub position: Position,
    pub at: Timestamp,
    #[serde(deserialize_with = "crate::text::name_in_log")]
    pub sender: Name,
    pub label: TrustLabel,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Priority,
    pub urgency: Urgency,
    pub work: bool,
    pub max_attempts: u32,
    pub retry_delay_ms: i64,
    pub conversation: Label,
    pub reply_to: Option<MessageNo>,
    pub forward_of: Option<MessageNo>,
    pub wants_response: bool,
    pub respond_by: Option<Timestamp>,
    /// Not to be delivered before this time.
    pub ready_at: Option<Timestamp>,
    pub expires_at: Option<Timestamp>,
    pub workflow: Option<Label>,
    pub step: Option<Label>,
    pub topic: Option<Topic>,
    pub notice: Option<Notice>,
    /// The delivery that a notice is about.
    pub about: Option<DeliveryNo>,
    /// Length of the chain of runs that led to it. A loop of agents shows up as a growing number.
    pub hops: u32,
}

stored!(Message in "messages": number, position, at, sender, label, kind as type, priority, urgency, work, max_attempts,
    retry_delay_ms, conversation, reply_to, forward_of, wants_response, respond_by, ready_at, expires_at, workflow, step,
    topic, notice, about, hops);

impl Tables<'_> {
    pub fn message(&self, number: MessageNo) -> Result<Option<Message>, Error> {
        self.one(select!(Message, "WHERE number = ?1"), [number])
    }

    /// The first message stored after a position. Numbers increase with positions, so a binary search finds it.
    pub fn first_number_after(&self, after: Position) -> Result<MessageNo, Error> {
        let (mut low, mut high) = (1, self.cursor.message_last.0 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.position_of(MessageNo(middle))? {
                Some(position) if position > after => high = middle,
                Some(_) => low = middle + 1,
                None => return Err(Error::Damaged(format!("message {middle} is missing"))),
            }
        }
        Ok(MessageNo(low))
    }

    /// The log position of a message, live or archived.
    pub fn position_of(&self, number: MessageNo) -> Result<Option<Position>, Error> {
        let live = self.maybe("SELECT position FROM messages WHERE number = ?1", [number])?;
        match live {
            Some(position) => Ok(Some(position)),
            None => Ok(self.archived_message(number)?.map(|archived| archived.position)),
        }
    }

    pub fn insert_message(&mut self, message: &Message) -> Result<(), Error> {
        message.write(kept(&mut self.kept.insert_message, self.conn, Message::INSERT)?)?;
        self.newest_message = Some((message.number, message.urgency));
        self.message_came(message);
        Ok(())
    }
}
