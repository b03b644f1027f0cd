//! Lists the registered agents.

use poste_core::views::{self, RosterEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Include retired agents
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The agents, active ones only unless `all` is set.
    pub agents: Vec<RosterEntry>,
}

impl Verb for Input {
    const NAME: &'static str = "agents";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let mut agents = views::roster(desk.office.store())?;
        agents.retain(|entry| self.all || entry.active);
        if agents.is_empty() {
            desk.say(note!("no agents yet; register one: " [register, name = "NAME", role = "ROLE"]));
        }
        Ok(Answered::new(Answer { agents }))
    }
}
