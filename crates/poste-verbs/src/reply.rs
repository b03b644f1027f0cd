//! Answers a message.

use poste_core::log::{Ends, EndsHow, MessageNo, Position};
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::draft::{Heading, Message, prefixed};
use crate::explain::no_message;
use crate::input::Fields;
use crate::send::{Answer, send};
use crate::{Access, Answered, Desk, Result, Touch, Verb};

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// Default: Re: and the subject of the message
    #[schemars(default)]
    pub subject: Option<String>,
    /// Finish the message, too
    #[schemars(default)]
    pub done: bool,
    /// With done: the claim's token
    #[schemars(default)]
    pub token: Option<Position>,
    #[schemars(flatten)]
    pub message: Message,
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer)?;
        Ok(Self {
            number: fields.take("number")?,
            subject: fields.take_option("subject")?,
            done: fields.take_option("done")?.unwrap_or(false),
            token: fields.take_option("token")?,
            message: fields.rest()?,
        })
    }
}

impl Verb for Input {
    const NAME: &'static str = "reply";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("artifacts", Touch::ReadsWorktree),
        ("attach", Touch::ReadsWorktree),
        ("artifact_later", Touch::ReadsWorktree),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let original = views::message(desk.office.store(), self.number)?.ok_or_else(|| no_message(self.number))?;
        let heading = Heading {
            subject: self.subject.unwrap_or_else(|| prefixed("Re: ", &original.subject)),
            reply_to: Some(self.number),
            ends: self.done.then_some(Ends { message: self.number, how: EndsHow::Replied, token: self.token }),
            default_type: "response",
            ..Heading::default()
        };
        send(desk, self.message, heading)
    }
}
