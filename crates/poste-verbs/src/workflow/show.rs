//! Shows the state of a workflow: its steps and their results.

use poste_core::text::Label;
use poste_core::views::WorkflowView;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{advance_ended, found};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the workflow, such as review-1, or the label that messages carry
    pub workflow: Label,
}

impl Verb for Input {
    const NAME: &'static str = "workflow show";
    const ACCESS: Access = Access::Reads;
    type Answer = WorkflowView;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<WorkflowView>> {
        advance_ended(desk);
        Ok(Answered::new(found(desk.office, &self.workflow)?))
    }
}
