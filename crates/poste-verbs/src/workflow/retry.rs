//! Lets what failed in a workflow try again, and goes on with it.

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
    /// What it is called, for example review-1
    pub workflow: Label,
    /// Only this step; otherwise every one that failed
    pub step: Option<Label>,
    /// Why
    pub reason: Option<String>,
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
