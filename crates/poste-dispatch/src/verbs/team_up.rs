//! Registers and starts teammates. Repeating it changes nothing.

use poste_core::text::Name;
use poste_verbs::{Access, Answered, Desk, Error, Result, Verb, note};
use schemars::JsonSchema;
use serde::Deserialize;

use super::not_on_team;
use crate::team::{self, Starts};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only these
    pub names: Vec<Name>,
}

impl Verb for Input {
    const NAME: &'static str = "team up";
    const ACCESS: Access = Access::Writes;
    const ACTS_OUTSIDE: bool = true;
    type Answer = Starts;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Starts>> {
        let runners = poste_config::runners(desk.office)?;
        let mut members = team::members(&runners);
        if let Some(name) = self.names.iter().find(|name| !members.iter().any(|member| member.name == **name)) {
            return Err(not_on_team(name));
        }
        members.retain(|member| if self.names.is_empty() { member.listed } else { self.names.contains(&member.name) });
        if members.is_empty() {
            return Err(Error::not_found("no team: poste.toml lists no agents")
                .hint("add [team] with lead and members, and [agent.NAME] for each; see docs/teams.md")
                .hint(note!("or add an agent on this machine: " [team add, name = "NAME", preset = "claude-code"])));
        }
        let mut starts = Starts::default();
        // The lead first: the others are registered with it as their lead.
        for member in &members {
            let started = starts.add(desk, &runners, member)?;
            if started.registered || started.resumed || started.run.is_some() {
                let what = format!("{} of the team", started.agent);
                desk.note_stored(what);
            }
        }
        Ok(Answered::new(starts))
    }
}
