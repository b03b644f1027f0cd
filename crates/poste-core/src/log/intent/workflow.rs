//! Workflows: steps that are messages, each of them once, in their order.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::digest::Digest;
use crate::text::{Label, Name, Word};
use crate::time::When;
use crate::vocabulary::worded_enum;

/// A workflow begins. The content is its definition and what it was given; the header has what its order is decided by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStart {
    /// What the definition is called. The workflow itself is called after it, with a number.
    pub name: Label,
    /// Of the definition as it was written.
    pub digest: Digest,
    pub steps: Vec<StepSpec>,
    /// Who is asked and told; otherwise whoever starts it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Name>,
}

/// What the order of the steps depends on. Steps are named by their keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepSpec {
    pub key: Label,
    /// The steps before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<Label>,
    /// Of a step that ends a loop: everything that runs again with it, itself included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub again: Vec<Label>,
    /// How often the loop may run.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub max_rounds: u32,
    /// The step that stands in for it when it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<Label>,
}

/// One message of a step. The same step, round, item and attempt is never sent twice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowStep {
    pub workflow: Label,
    pub step: Label,
    /// Of a loop; 1 without one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub round: u32,
    /// Which of the items of the step it is for, and how many there are; 1 of 1 for a step without a list.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub item: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub of: u32,
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub attempt: u32,
    /// The attempt failed, and somebody is asked what to do: no work, a question about it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub failure: bool,
    /// To one recipient, in the conversation of the workflow.
    pub mail: Send,
    /// It is a question that wants a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<StepAsk>,
    /// How long it may take from now on, whoever works on it.
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
    /// What a step came to.
    StepMark {
        Done = 0 "done",
        Skipped = 1 "skipped",
        Failed = 2 "failed",
        /// It cannot be sent now; the content says why.
        Waiting = 3 "waiting",
        /// Its loop goes round once more.
        Again = 4 "again",
    }
);

/// A word about a step of this round. The content may say why.
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

/// A workflow is over. What is still open of it goes back. The mail tells of it; the content is its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowEnd {
    pub workflow: Label,
    pub how: WorkflowEnding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// What failed is tried again, and the workflow goes on. The content is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkflowRetry {
    pub workflow: Label,
    /// Only this step; otherwise every one that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Label>,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}
