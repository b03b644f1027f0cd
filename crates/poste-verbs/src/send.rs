//! Sends a message.

use poste_core::Address;
use poste_core::fold::{Effect, Sent};
use poste_core::log::{Content, Intent, MessageNo, Position, Proposal, Send};
use poste_core::text::RecordId;
use poste_core::views;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::{Heading, Message};
use crate::input::{Fields, Recipients};
use crate::{Access, Answered, Desk, Error, Note, Result, Touch, Verb};

#[derive(Debug, Default, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Input {
    /// One address or several
    #[schemars(with = "Recipients")]
    pub to: Vec<Address>,
    /// One line
    pub subject: String,
    /// The message it answers
    #[schemars(default)]
    pub reply_to: Option<MessageNo>,
    #[schemars(flatten)]
    pub message: Message,
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer)?;
        Ok(Self {
            to: fields.take::<Recipients, _>("to")?.into_addresses(),
            subject: fields.take("subject")?,
            reply_to: fields.take_option("reply_to")?.flatten(),
            message: fields.rest()?,
        })
    }
}

impl Input {
    fn split(self) -> (Message, Heading) {
        let heading = Heading {
            to: self.to,
            subject: self.subject,
            reply_to: self.reply_to,
            default_type: "message",
            ..Heading::default()
        };
        (self.message, heading)
    }

    /// Header and content, without recording files.
    pub fn without_files(self) -> Result<(Send, Content)> {
        let (message, heading) = self.split();
        message.with_artifacts(Vec::new(), heading)
    }

    pub(crate) fn proposal(self, desk: &Desk<'_>) -> Result<Proposal> {
        let (message, heading) = self.split();
        proposal(desk, message, heading)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub sent: Sent,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// Log position of the record.
    pub position: Option<Position>,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "send";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("artifacts", Touch::ReadsWorktree),
        ("attach", Touch::ReadsWorktree),
        ("artifact_later", Touch::ReadsWorktree),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let (message, heading) = self.split();
        send(desk, message, heading)
    }
}

/// Sends a message, and adds the next step.
pub(crate) fn send(desk: &mut Desk<'_>, message: Message, heading: Heading) -> Result<Answered<Answer>> {
    let answer = submit(desk, message, heading)?;
    let number = answer.sent.number;
    if answer.sent.deliveries.is_empty() {
        return Ok(Answered::new(answer).warn("no recipients: no active agent matches, or nobody subscribed"));
    }
    let next = next(desk, number, answer.repeat)?;
    let answered = Answered::new(answer);
    Ok(match next {
        Some(next) => answered.next(next),
        None => answered,
    })
}

/// The proposal for a message.
fn proposal(desk: &Desk<'_>, mut message: Message, heading: Heading) -> Result<Proposal> {
    let id = message.id.take();
    let (header, content) = message.seal(desk, heading)?;
    desk.proposal(Intent::Send(header), Some(content), id)
}

fn submit(desk: &mut Desk<'_>, message: Message, heading: Heading) -> Result<Answer> {
    let proposal = proposal(desk, message, heading)?;
    let (outcome, effect) = desk.decide(&proposal)?;
    let Effect::Sent(sent) = effect else { return Err(Error::unexpected_effect("the message")) };
    Ok(Answer { sent, id: outcome.id, position: outcome.position, repeat: outcome.repeat })
}

fn next(desk: &Desk<'_>, number: MessageNo, repeat: bool) -> Result<Option<Note>> {
    if repeat {
        return Ok(Some(note!("see where it is: " [track, number = number])));
    }
    let Some(message) = views::message(desk.office.store(), number)? else { return Ok(None) };
    let begin = match message.not_before {
        Some(at) => note!("pending, not before {at} (" (at) ")"),
        None => Note::from(format!("pending, urgency {}", message.urgency)),
    };
    Ok(Some(begin.and(match message.wants_response {
        true => note!("; wait for the answer: " [wait replies, number = number]),
        false => note!("; follow it: " [track, number = number]),
    })))
}
