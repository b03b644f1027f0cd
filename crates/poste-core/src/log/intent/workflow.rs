//! Workflows: steps that are messages, each of them sent once, in order.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::digest::Digest;
use crate::text::{Label, Name, Word};
use crate::time::When;
use crate::vocabulary::worded_enum;

/// Starts a workflow. The content is its definition and its inputs; the header has what determines the order of its
/// steps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStart {
    /// The name of the definition. The workflow's label is this name with a number.
    pub name: Label,
    /// Digest of the definition as written.
    pub digest: Digest,
    pub steps: Vec<StepSpec>,
    /// The agent that is asked and notified; by default the one that starts the workflow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Name>,
}

/// What the order of the steps depends on. Steps are named by their keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub key: Label,
    /// The steps that must end before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Label>,
    /// For a step that ends a loop: all steps that run again with it, including itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Label>,
    /// How often the loop may run.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub max_rounds: u32,
    /// The step that replaces it when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Label>,
}

/// One message of a step. The same step, round, item and attempt is never sent twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStep {
    pub workflow: Label,
    pub step: Label,
    /// The round of a loop; 1 without one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub round: u32,
    /// The item of the step, and how many there are; 1 of 1 for a step without a list.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub item: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub of: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempt: u32,
    /// The attempt failed. This message is not work but a question about what to do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failure: bool,
    /// To one recipient, in the conversation of the workflow.
    pub mail: Send,
    /// The message is a question that wants a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<StepAsk>,
    /// How long the step may take from now on, including the time before an agent claims it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit_ms: Option<i64>,
}

/// What an approval asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepAsk {
    pub choices: Vec<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<When>,
}

worded_enum!(
    /// The outcome of a step.
    StepMark {
        Done = 0 "done",
        Skipped = 1 "skipped",
        Failed = 2 "failed",
        /// It cannot be sent now; the content says why.
        Waiting = 3 "waiting",
        /// Its loop runs another round.
        Again = 4 "again",
    }
);

/// Records the outcome of a step in this round. The content may say why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowMark {
    pub workflow: Label,
    pub step: Label,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub round: u32,
    pub what: StepMark,
}

worded_enum!(
    /// How a workflow ended.
    WorkflowEnding {
        Finished = 0 "finished",
        Failed = 1 "failed",
        Cancelled = 2 "cancelled",
    }
);

/// Ends a workflow. Its open deliveries are returned. The mail announces the end; the content is its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowEnd {
    pub workflow: Label,
    pub how: WorkflowEnding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// Retries failed steps and continues the workflow. The content is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRetry {
    pub workflow: Label,
    /// Only this step; by default every one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Label>,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}
