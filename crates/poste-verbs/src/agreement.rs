//! Shows who has agreed on a proposal.

use poste_core::log::MessageNo;
use poste_core::views::{self, AgreementView};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::agree::Answer;
use crate::explain::no_message;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The proposal's number
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "agreement";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let agreement = find(desk, self.number)?;
        Ok(Answered::new(Answer { agreement, message: None, position: None, repeat: false, version: None }))
    }
}

pub(crate) fn find(desk: &Desk<'_>, number: MessageNo) -> Result<AgreementView> {
    views::agreement(desk.office.store(), number)?.ok_or_else(|| no_message(number))
}
