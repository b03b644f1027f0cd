//! Explains how a message came to its state.

use poste_core::log::MessageNo;
use poste_core::views::{self, Why};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb, no_message};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "log why";
    const ACCESS: Access = Access::Reads;
    type Answer = Why;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Why>> {
        let why = views::why_message(desk.office.store(), self.number)?;
        Ok(Answered::new(why.ok_or_else(|| no_message(self.number))?))
    }
}
