//! Shows active runs, pending mail, holds and used budgets.

use poste_core::text::Name;
use poste_verbs::{Access, Answered, Desk, Result, Verb};
use schemars::JsonSchema;
use serde::Deserialize;

use super::{configured, does_not_stay, untrusted};
use crate::engine::{self, AgentState, Picture};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only these agents
    pub agent: Vec<Name>,
}

impl Verb for Input {
    const NAME: &'static str = "dispatch status";
    const ACCESS: Access = Access::Reads;
    type Answer = Picture;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Picture>> {
        let runners = configured(desk.office, &self.agent)?;
        untrusted(&runners).into_iter().for_each(|note| desk.warn(note));
        let picture = engine::picture(desk.office, &runners, &self.agent)?;
        let restarting = picture.agents.iter().filter(|agent| agent.state == AgentState::Restarting);
        let first = restarting.map(|agent| does_not_stay(&agent.agent)).collect();
        Ok(Answered { first, ..Answered::new(picture) })
    }
}
