//! Sets the structured part of a context.

use poste_core::text::{ContextName, RecordId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Change, Replacement, VersionAnswer, follow_repeat, store};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// The structured part, a JSON object
    #[schemars(with = "serde_json::Value")]
    pub data: Box<RawValue>,
    /// The version it is based on
    pub if_version: u64,
    /// One-line summary for subscribers and the history
    pub summary: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "context set";
    const ACCESS: Access = Access::Writes;
    type Answer = VersionAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<VersionAnswer>> {
        let replacement = Replacement { data: Some(self.data), ..Replacement::default() };
        let change = Change { summary: self.summary, id: self.id, secrets: self.secrets };
        let answer = store(desk, &self.name, self.if_version, &replacement, &change)?;
        follow_repeat(desk, &answer);
        Ok(Answered::new(answer))
    }
}
