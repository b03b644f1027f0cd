//! Closes a conversation, and returns its open deliveries to their senders.

use poste_core::log::{Close, Intent, MessageNo};
use poste_core::text::{Label, RecordId};
use poste_core::views;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::draft::said;
use crate::explain::no_message;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Number of any message of the conversation
    pub number: MessageNo,
    /// Outcome of the conversation
    pub outcome: String,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Name of the conversation.
    pub conversation: Label,
    /// Number of open deliveries that were returned.
    pub returned: usize,
}

impl Verb for Input {
    const NAME: &'static str = "thread close";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let content = self.secrets.text("outcome", said("outcome", &self.outcome)?)?;
        let intent = Intent::Close(Close { message: self.number });
        let proposal = desk.proposal(intent, Some(content), self.id)?;
        let (_, effect) = desk.decide(&proposal)?;
        let conversation =
            views::conversation_of(desk.office.store(), self.number)?.ok_or_else(|| no_message(self.number))?;
        Ok(Answered::new(Answer { conversation, returned: effect.touched() }))
    }
}
