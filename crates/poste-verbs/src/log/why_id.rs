//! Shows the outcome of a write by its id, for example if it was unknown.

use poste_core::text::RecordId;
use poste_core::views::{self, IdAnswer};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The idempotency key of the write
    pub id: RecordId,
}

impl Verb for Input {
    const NAME: &'static str = "log why id";
    const ACCESS: Access = Access::Reads;
    type Answer = IdAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<IdAnswer>> {
        Ok(Answered::new(views::why_id(desk.office.store(), &self.id)?))
    }
}
