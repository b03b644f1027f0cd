//! Advances workflows, one or all: for an office without a dispatcher, and for a command that waits for one.

use poste_core::MessageNo;
use poste_core::text::Label;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Advanced, found};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Advance only this workflow; default: all open ones
    pub workflow: Option<Label>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Number of records that were written.
    pub records: usize,
    /// Number of workflows that are still open.
    pub open: usize,
    /// Messages that were sent for steps.
    pub sent: Vec<MessageNo>,
    /// Steps and workflows that could not be advanced, and why.
    pub waiting: Vec<String>,
}

impl Verb for Input {
    const NAME: &'static str = "workflow advance";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let advanced = match self.workflow {
            None => super::advance(desk.office, desk.caller.via)?,
            Some(workflow) => {
                found(desk.office, &workflow)?;
                let mut advanced = Advanced::default();
                super::advance_one(desk.office, desk.caller.via, &workflow, &mut advanced)?;
                advanced
            }
        };
        let Advanced { records, open, sent, waiting } = advanced;
        Ok(Answered::new(Answer { records, open, sent, waiting }))
    }
}
