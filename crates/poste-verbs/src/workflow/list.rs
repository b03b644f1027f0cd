//! Lists open workflows, or all.

use poste_core::views::{self, WorkflowLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::advance_ended;
use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Include workflows that have ended
    pub all: bool,
    /// Maximum number of workflows
    pub limit: u16,
}

pub const LIMIT_DEFAULT: u16 = 50;
pub const LIMIT_MAX: u16 = 1000;

impl Default for Input {
    fn default() -> Self {
        Self { all: false, limit: LIMIT_DEFAULT }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Workflows, and labels that messages carry.
    pub workflows: Vec<WorkflowLine>,
}

impl Verb for Input {
    const NAME: &'static str = "workflow list";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        advance_ended(desk);
        let workflows = views::workflows(desk.office.store(), self.all, self.limit.into())?;
        if workflows.is_empty() {
            desk.say(match self.all {
                true => "no workflows".into(),
                false => note!("no open workflows; see those that have ended: " [workflow list, all = true]),
            });
        }
        Ok(Answered::new(Answer { workflows }))
    }
}
