//! Lists who is registered.

use poste_core::views::{self, RosterEntry};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Retired ones too
    #[serde(default)]
    pub all: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
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
            desk.say(note!("nobody is registered; register somebody: " [register, name = "NAME", role = "ROLE"]));
        }
        Ok(Answered::new(Answer { agents }))
    }
}
