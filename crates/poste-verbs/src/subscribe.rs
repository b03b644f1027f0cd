//! Subscribes to one topic or to all.

use poste_core::fold::Code;
use poste_core::log::{Intent, Position, Subscribe, TopicPattern};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A topic, or * for all
    #[schemars(with = "String")]
    pub topic: TopicPattern,
    /// Also deliver messages published after this log position (0: all)
    pub from: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The topic.
    pub topic: String,
    /// Number of earlier messages that were delivered now.
    pub delivered: usize,
    /// The agent was already subscribed.
    pub already: bool,
}

impl Verb for Input {
    const NAME: &'static str = "subscribe";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let topic = self.topic.as_str().to_owned();
        let intent = Intent::Subscribe(Subscribe { topic: self.topic, from: self.from });
        let proposal = desk.proposal(intent, None, self.id)?;
        let (delivered, already) = match desk.decide(&proposal) {
            Ok((_, effect)) => (effect.touched(), false),
            // Agents subscribe whenever they start, so an existing subscription is not an error.
            Err(error) if error.is(Code::NothingToDo) => (0, true),
            Err(error) => return Err(error),
        };
        Ok(Answered::new(Answer { topic, delivered, already }))
    }
}
