//! Withdraws the caller's own handoff.

use poste_core::log::{HandoffWithdraw, Intent, MessageNo};
use poste_core::store::tables::HandoffState;
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Decided;
use crate::draft::said;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The handoff's number
    pub number: MessageNo,
    /// The reason, for the recipient
    pub reason: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "handoff withdraw";
    const ACCESS: Access = Access::Writes;
    type Answer = Decided;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Decided>> {
        let content = match &self.reason {
            Some(reason) => Some(self.secrets.text("reason", said("reason", reason)?)?),
            None => None,
        };
        let intent = Intent::HandoffWithdraw(HandoffWithdraw { message: self.number });
        let proposal = desk.proposal(intent, content, self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        let decided = Decided::new(self.number, HandoffState::Withdrawn, &outcome, &effect);
        Ok(Answered::new(Decided { message: None, ..decided }))
    }
}
