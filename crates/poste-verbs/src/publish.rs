//! Publishes an event to the subscribers of a topic.

use poste_core::Address;
use poste_core::text::Topic;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::draft::{Heading, Message};
use crate::input::Fields;
use crate::send::{Answer, send};
use crate::{Access, Answered, Desk, Result, Touch, Verb};

#[derive(Debug, JsonSchema)]
#[schemars(extend("additionalProperties" = false))]
pub struct Input {
    /// Topic to publish to; capitals are allowed: TaskCompleted
    pub topic: Topic,
    /// Subject, one line
    pub subject: String,
    #[schemars(flatten)]
    pub message: Message,
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Fields::read(deserializer)?;
        Ok(Self { topic: fields.take("topic")?, subject: fields.take("subject")?, message: fields.rest()? })
    }
}

impl Verb for Input {
    const NAME: &'static str = "publish";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("artifacts", Touch::ReadsWorktree),
        ("attach", Touch::ReadsWorktree),
        ("artifact_later", Touch::ReadsWorktree),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let to = vec![Address::Topic(self.topic)];
        send(desk, self.message, Heading { to, subject: self.subject, default_type: "message", ..Heading::default() })
    }
}
