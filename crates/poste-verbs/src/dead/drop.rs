//! Drops a dead letter: nothing more is done about it.

use poste_core::Address;
use poste_core::log::{Drop, Intent, MessageNo};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// Only this recipient's delivery
    pub to: Option<Address>,
    /// The reason
    pub reason: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The message's number.
    pub number: MessageNo,
    /// Number of deliveries that were dropped.
    pub deliveries: usize,
}

impl Verb for Input {
    const NAME: &'static str = "dead drop";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let content = self.reason.map(|reason| self.secrets.text("reason", &reason)).transpose()?;
        let intent = Intent::Drop(Drop { message: self.number, recipient: self.to });
        let proposal = desk.proposal(intent, content, self.id)?;
        let (_, effect) = desk.decide(&proposal)?;
        Ok(Answered::new(Answer { number: self.number, deliveries: effect.touched() }))
    }
}
