//! Cancels a workflow, and returns its open deliveries.

use poste_core::log::{Intent, WorkflowEnd, WorkflowEnding};
use poste_core::text::{Label, RecordId};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{Changed, change};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the workflow, such as review-1
    pub workflow: Label,
    /// Reason for cancelling it
    pub reason: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "workflow cancel";
    const ACCESS: Access = Access::Writes;
    type Answer = Changed;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Changed>> {
        let Self { workflow, reason, id, secrets } = self;
        let end = WorkflowEnd { workflow: workflow.clone(), how: WorkflowEnding::Cancelled, mail: None };
        change(desk, workflow, Intent::WorkflowEnd(end), reason.as_deref(), id, secrets)
    }
}
