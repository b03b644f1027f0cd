//! Sends a message to every active agent but the sender.

use poste_core::Address;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::draft::{Heading, Message};
use crate::input::Fields;
use crate::send::{Answer, send};
use crate::{Access, Answered, Desk, Result, Touch, Verb};

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Input {
    /// Subject, one line
    pub subject: String,
    #[schemars(flatten)]
    pub message: Message,
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer)?;
        Ok(Self { subject: fields.take("subject")?, message: fields.rest()? })
    }
}

impl Verb for Input {
    const NAME: &'static str = "broadcast";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("artifacts", Touch::ReadsWorktree),
        ("attach", Touch::ReadsWorktree),
        ("artifact_later", Touch::ReadsWorktree),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let to = vec![Address::Everyone];
        send(desk, self.message, Heading { to, subject: self.subject, default_type: "broadcast", ..Heading::default() })
    }
}
