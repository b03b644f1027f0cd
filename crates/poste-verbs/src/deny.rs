//! Decides against what somebody asked.

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
    pub number: MessageNo,
    /// Why, Markdown
    #[serde(default, deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub reason: Vec<u8>,
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
