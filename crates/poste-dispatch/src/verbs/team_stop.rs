//! Asks teammates to stop. The caller polls until they have.

use std::time::Duration;

use poste_core::limits;
use poste_core::text::{Name, RecordId};
use poste_verbs::secret::Secrets;
use poste_verbs::{Access, Answered, Desk, Error, Result, Touch, Verb, note, unknown_agent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::not_on_team;
use crate::team::{self, Member, Stop, Stopped};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    #[serde(default)]
    pub names: Vec<Name>,
    /// All agents with a runner here, except the caller
    #[serde(default)]
    pub all: bool,
    /// Timeout in milliseconds
    #[serde(default = "minute")]
    pub within_ms: u64,
    /// Reason, for the agents and the senders of their mail
    pub reason: Option<String>,
    /// Stop them after the timeout even if they refuse
    #[serde(default)]
    pub force: bool,
    /// Idempotency key: repeating it resumes
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

fn minute() -> u64 {
    60_000
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Teammates that have stopped, or will not.
    pub stopped: Vec<Stopped>,
    /// The state of the others.
    #[serde(skip)]
    pub stop: Stop,
}

impl Verb for Input {
    const NAME: &'static str = "team stop";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("force", Touch::Nothing)];
    const ACTS_OUTSIDE: bool = true;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if self.names.is_empty() && !self.all {
            return Err(Error::usage("no agent to stop")
                .hint(note!("name agents: " [team stop, names = "NAME"]))
                .hint(note!("or stop all with a runner here: " [team stop, all = true])));
        }
        let by = desk.active_agent()?.name;
        let members = team::members(&poste_config::runners(desk.office)?);
        let names = self.chosen(desk, &members, &by)?;
        let id = self.id.unwrap_or_else(|| desk.fresh_id());
        let within = Duration::from_millis(self.within_ms);
        let mut stop = Stop::new(id, self.reason, within, self.force, self.secrets);
        let mut requests = 0;
        for name in names {
            let config = members.iter().find(|member| member.name == name).and_then(|member| member.config.as_ref());
            let grace_ms = config.map_or(limits::RUN_GRACE_MS_DEFAULT, |config| config.grace_ms);
            requests += usize::from(stop.begin(desk, &name, Duration::from_millis(grace_ms.unsigned_abs()))?);
        }
        if requests > 0 {
            let teammates = if requests == 1 { "teammate" } else { "teammates" };
            desk.say(format!("asked {requests} {teammates}; waiting"));
        }
        Ok(Answered::new(Answer { stopped: stop.stopped(), stop }))
    }
}

impl Input {
    /// The named agents, or all, without those that were never registered.
    fn chosen(&self, desk: &Desk<'_>, members: &[Member], by: &Name) -> Result<Vec<Name>> {
        let runnable = || members.iter().filter(|member| member.config.is_some() && member.name != *by);
        let mut names = match self.all {
            true => runnable().map(|member| member.name.clone()).collect(),
            false => self.names.clone(),
        };
        names.sort();
        names.dedup();
        let mut chosen = Vec::new();
        for name in names {
            match desk.office.agent(&name)? {
                Some(agent) if agent.is_active() => chosen.push(name),
                // Configured but never registered: there is nothing to stop.
                _ if self.all => {}
                Some(_) => return Err(not_on_team(&name)),
                None if members.iter().any(|member| member.name == name) => {
                    return Err(Error::not_found(format!("{name} was never started"))
                        .hint(note!("see the team: "[team status])));
                }
                None => return Err(unknown_agent(desk.office, &name)?),
            }
        }
        Ok(chosen)
    }
}
