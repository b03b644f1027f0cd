//! Retries failed steps of a workflow, and advances it.

use poste_core::log::{Intent, WorkflowRetry};
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
    /// Step to retry; default: every failed step
    pub step: Option<Label>,
    /// Reason for the retry
    pub reason: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "workflow retry";
    const ACCESS: Access = Access::Writes;
    type Answer = Changed;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Changed>> {
        let Self { workflow, step, reason, id, secrets } = self;
        let intent = Intent::WorkflowRetry(WorkflowRetry { workflow: workflow.clone(), step });
        change(desk, workflow, intent, reason.as_deref(), id, secrets)
    }
}
