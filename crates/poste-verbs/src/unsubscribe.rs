//! Ends a subscription.

use poste_core::log::{Intent, TopicPattern, Unsubscribe};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A topic, or * for the subscription to all
    #[schemars(with = "String")]
    pub topic: TopicPattern,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The topic.
    pub topic: String,
}

impl Verb for Input {
    const NAME: &'static str = "unsubscribe";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let topic = self.topic.as_str().to_owned();
        let proposal = desk.proposal(Intent::Unsubscribe(Unsubscribe { topic: self.topic }), None, self.id)?;
        desk.decide(&proposal)?;
        Ok(Answered::new(Answer { topic }))
    }
}
