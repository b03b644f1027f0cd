//! Releases a claimed message: it is pending again, and no attempt is counted.

use poste_core::log::{Intent, MessageNo, Position, Release};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::Changed;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

impl Verb for Input {
    const NAME: &'static str = "release";
    const ACCESS: Access = Access::Writes;
    type Answer = Changed;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Changed>> {
        let intent = Intent::Release(Release { message: self.number, token: self.token });
        let proposal = desk.proposal(intent, None, self.id)?;
        let (outcome, _) = desk.decide(&proposal)?;
        Ok(Answered::new(Changed::new(self.number, "released, pending again", &outcome)))
    }
}
