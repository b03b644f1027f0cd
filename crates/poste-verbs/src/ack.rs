//! Acknowledges a message.

use poste_core::log::{Ack, Intent, MessageNo};
use poste_core::text::RecordId;
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::Changed;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// Note to the sender
    pub note: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "ack";
    const ACCESS: Access = Access::Writes;
    type Answer = Changed;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Changed>> {
        let content = self.note.map(|note| self.secrets.text("note", &note)).transpose()?;
        let proposal = desk.proposal(Intent::Ack(Ack { message: self.number }), content, self.id)?;
        let (outcome, _) = desk.decide(&proposal)?;
        let asks_work = views::message(desk.office.store(), self.number)?.is_some_and(|message| message.asks_work);
        let what = if asks_work { "acknowledged; it still asks for work" } else { "acknowledged, done" };
        Ok(Answered::new(Changed::new(self.number, what, &outcome)))
    }
}
