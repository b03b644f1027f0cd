//! Retries a message that failed, died, expired or was returned.

use poste_core::Address;
use poste_core::log::{Intent, MessageNo, Retry};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// Only this recipient's delivery
    pub to: Option<Address>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The message's number.
    pub number: MessageNo,
    /// Number of deliveries that are pending again.
    pub deliveries: usize,
}

impl Verb for Input {
    const NAME: &'static str = "retry";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let intent = Intent::Retry(Retry { message: self.number, recipient: self.to });
        let proposal = desk.proposal(intent, None, self.id)?;
        let (_, effect) = desk.decide(&proposal)?;
        Ok(Answered::new(Answer { number: self.number, deliveries: effect.touched() }))
    }
}
