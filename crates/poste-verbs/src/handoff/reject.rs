//! Rejects a handoff with a reason.

use poste_core::handoff::HandoffAnswer;
use poste_core::log::{Intent, MessageNo, Position};
use poste_core::store::tables::HandoffState;
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Decided, answer_mail, find};
use crate::draft::{prefixed, said};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The handoff's number
    pub number: MessageNo,
    /// The reason, for the sender
    pub reason: String,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "handoff reject";
    const ACCESS: Access = Access::Writes;
    type Answer = Decided;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Decided>> {
        let view = find(desk.office, self.number)?;
        let answer = HandoffAnswer {
            handoff: self.number,
            notes: Some(said("reason", &self.reason)?.to_owned()),
            checked: Vec::new(),
            verified: Vec::new(),
            gates: Vec::new(),
            changed: Vec::new(),
            overridden: None,
        };
        let mail = answer_mail(self.number, self.token, "handoff_rejected")?;
        let (header, content) = answer.reject(mail, prefixed("Rejected: ", &view.subject));
        self.secrets.check_as(&content, "reason")?;
        let proposal = desk.proposal(Intent::HandoffReject(header), Some(content), self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        Ok(Answered::new(Decided::new(self.number, HandoffState::Rejected, &outcome, &effect)))
    }
}
