//! The verb `wake`: rings agents that have mail, and starts the programs of those without a session.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::Name;
use poste_verbs::wake::{self, Answer, Program, Startable, Starter, WakeRequest};
use poste_verbs::{Access, Answered, Desk, Result, Verb, note};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::engine::{self, Scope, WaitReason};
use crate::run;

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Input(pub WakeRequest);

impl Verb for Input {
    const NAME: &'static str = "wake";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let supervisors = Supervisors { program: desk.host.program.clone(), holds_back: Cell::new(false) };
        let answered = wake::wake(desk, self.0, &supervisors);
        if supervisors.holds_back.get() {
            desk.say(note!("see when its program is started: "[dispatch status]));
        }
        answered
    }
}

/// Starts what a dispatcher would start now for an agent and the given mail.
struct Supervisors {
    /// The path of this program. Without it nothing is started.
    program: Option<PathBuf>,
    /// A program is configured, but not started now.
    holds_back: Cell<bool>,
}

impl Starter for Supervisors {
    fn find(&self, office: &Office, agent: &Name, numbers: &[MessageNo]) -> Result<Startable> {
        let runners = poste_config::runners(office)?;
        if !runners.agents.contains_key(agent) {
            return Ok(Startable::default());
        }
        let only = std::slice::from_ref(agent);
        let snapshot = engine::read_facts(office, &runners, Scope { only, whole: true })?;
        let mut choice = engine::choose(&snapshot.facts);
        choice.starts.retain(|start| start.messages.iter().any(|message| numbers.contains(message)));
        if !choice.starts.is_empty() {
            let programs = choice.starts.into_iter().map(|it| Program { agent: it.agent, messages: it.messages });
            return Ok(Startable { programs: programs.collect(), why_not: None });
        }
        let held = choice.holds.first().map(|hold| hold.text.clone());
        let waits = choice.waits.first().map(|wait| match wait.why {
            WaitReason::Busy | WaitReason::NoPlace => "its program is not started: the concurrency limit is reached",
            WaitReason::Quiet => "its program is not started during its quiet hours",
            WaitReason::Held | WaitReason::Resting => "its program is held",
        });
        let mut later = snapshot.facts.agents.iter().flat_map(|agent| &agent.later);
        let later = later.any(|later| numbers.contains(&later.message));
        let waits = waits.or(later.then_some("its program will be started later"));
        self.holds_back.set(self.holds_back.get() || held.is_none() && waits.is_some());
        Ok(Startable { programs: Vec::new(), why_not: held.or(waits.map(str::to_owned)) })
    }

    fn start(&self, office: &Path, programs: &[Program]) -> Result<(), String> {
        let this = self.program.as_ref().ok_or("the path of this program is unknown")?;
        let office = office.canonicalize().map_err(|error| error.to_string())?;
        for Program { agent, messages } in programs {
            let spawned = run::supervisor(this, &office, agent, messages).spawn();
            run::reap(spawned.map_err(|error| error.to_string())?);
        }
        Ok(())
    }
}
