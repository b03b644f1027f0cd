//! Shows what each teammate does now.

use poste_core::text::Name;
use poste_verbs::{Access, Answered, Desk, Result, Verb, unknown_agent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{nobody_on_team, untrusted};
use crate::team::{self, Teammate};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only these
    pub names: Vec<Name>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub team: Vec<Teammate>,
}

impl Verb for Input {
    const NAME: &'static str = "team status";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let runners = poste_config::runners(desk.office)?;
        untrusted(&runners).into_iter().for_each(|note| desk.warn(note));
        let on_team = team::members(&runners);
        for name in &self.names {
            if !on_team.iter().any(|member| member.name == *name) && desk.office.agent(name)?.is_none() {
                return Err(unknown_agent(desk.office, name)?);
            }
        }
        let team = team::status(desk.office, &self.names)?;
        let first = team.is_empty().then(nobody_on_team).into_iter().collect();
        Ok(Answered { first, ..Answered::new(Answer { team }) })
    }
}
