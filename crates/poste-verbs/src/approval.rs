//! Shows an approval and its decision. A surface that waits for the decision asks again.

use poste_core::log::MessageNo;
use poste_core::views::{self, ApprovalView};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The question's number
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "approval";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("wait", Touch::CommandLine)];
    type Answer = ApprovalView;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<ApprovalView>> {
        Ok(Answered::new(find(desk, self.number)?))
    }
}

/// The approval with this number, or an error that helps to find it.
pub(crate) fn find(desk: &Desk<'_>, number: MessageNo) -> Result<ApprovalView> {
    views::approval(desk.office.store(), number, desk.now()?)?.ok_or_else(|| {
        Error::not_found(format!("message {number} does not ask for approval"))
            .hint(note!("list approvals: " [approvals, all = true]))
    })
}
