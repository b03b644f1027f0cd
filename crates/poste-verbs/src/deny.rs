//! Denies an approval.

use poste_core::log::MessageNo;
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::approve::{Answer, decide};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The question's number
    pub number: MessageNo,
    /// The reason, Markdown
    #[serde(default, deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub reason: Vec<u8>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "deny";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        decide(desk, self.number, "deny".parse()?, self.reason, self.id, self.secrets)
    }
}
