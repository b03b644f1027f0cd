//! Lists runs, newest first.

use poste_core::text::Name;
use poste_core::views::{self, RunView};
use poste_verbs::{Access, Answered, Desk, Error, Result, Verb, note, unknown_agent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const LIMIT_MAX: u16 = 1_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Only runs of this agent
    pub agent: Option<Name>,
    /// Maximum number of runs
    #[serde(default = "limit")]
    pub limit: u16,
}

fn limit() -> u16 {
    20
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub runs: Vec<RunView>,
}

impl Verb for Input {
    const NAME: &'static str = "dispatch runs";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if !(1..=LIMIT_MAX).contains(&self.limit) {
            return Err(Error::usage(format!("limit must be 1 to {LIMIT_MAX}, not {}", self.limit)));
        }
        if let Some(agent) = &self.agent
            && desk.office.agent(agent)?.is_none()
        {
            return Err(unknown_agent(desk.office, agent)?);
        }
        let runs = views::latest_runs(desk.office.store(), self.agent.as_ref(), self.limit.into())?;
        let is_empty = runs.is_empty();
        let answered = Answered::new(Answer { runs });
        Ok(if is_empty { answered.next(note!("no runs yet; start agents: "[dispatch])) } else { answered })
    }
}
