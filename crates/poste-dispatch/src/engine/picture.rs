//! The status for people: active runs, pending mail and why it is pending, and used budgets.

use poste_config::Runners;
use poste_core::error::Error;
use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::text::{Name, Session};
use poste_core::time::{Timestamp, rfc3339, rfc3339_option};
use poste_core::views::{self, HoldView, Later, RunView};
use schemars::JsonSchema;
use serde::Serialize;

use super::choose::{AgentFacts, WaitReason, choose};
use super::facts::{Scope, read_facts};
use super::times;
use crate::team;

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Picture {
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// Maximum number of runs at once.
    pub places: usize,
    pub taken: usize,
    pub agents: Vec<AgentPicture>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AgentPicture {
    pub agent: Name,
    pub state: AgentState,
    /// The reason for the state.
    pub why: Option<String>,
    pub runs: Vec<RunPicture>,
    /// Messages it can be started for.
    pub queue: usize,
    /// The first of these.
    pub next: Option<MessageNo>,
    #[serde(serialize_with = "rfc3339_option")]
    pub waits_since: Option<Timestamp>,
    /// Messages it is not started for yet: failed, due later, held, or waiting for another one.
    pub later: Vec<Later>,
    /// Why a dispatcher would hold it.
    pub would_hold: Option<String>,
    /// Holds on the agent, or on single messages.
    pub holds: Vec<HoldView>,
    pub spent: Option<SpentPicture>,
    #[serde(serialize_with = "rfc3339_option")]
    pub quiet_until: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub schedule_next: Option<Timestamp>,
    /// Whether its command is trusted on this machine.
    pub trusted: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AgentState {
    Running,
    /// A resident whose program ended: its supervisor restarts it after a pause.
    Restarting,
    /// It would be started now.
    Ready,
    /// It has mail that cannot be started yet.
    Waiting,
    Held,
    Quiet,
    Idle,
    /// It cannot receive mail.
    NotRegistered,
    Retired,
}

impl AgentState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Restarting => "restarting",
            Self::Ready => "ready",
            Self::Waiting => "waiting",
            Self::Held => "held",
            Self::Quiet => "quiet",
            Self::Idle => "idle",
            Self::NotRegistered => "not registered",
            Self::Retired => "retired",
        }
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RunPicture {
    pub run: Session,
    pub messages: Vec<MessageNo>,
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Timestamp,
    pub host: String,
    pub supervisor: u32,
    /// Whether its supervisor lives, as far as this machine can tell.
    pub presence: Presence,
}

/// The used part of a budget. A missing limit is null.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SpentPicture {
    pub per: &'static str,
    pub runs: u64,
    pub runs_max: Option<u64>,
    pub minutes: u64,
    pub minutes_max: Option<u64>,
    pub cost_micros: u64,
    pub cost_micros_max: Option<u64>,
}

/// The status of these agents, or of all with a runner on this machine.
pub fn picture(office: &Office, runners: &Runners, only: &[Name]) -> Result<Picture, Error> {
    let snapshot = read_facts(office, runners, Scope { only, whole: true })?;
    let choice = choose(&snapshot.facts);
    let facts = &snapshot.facts;
    let mut agents = Vec::new();
    for (name, config) in runners.agents.iter().filter(|(name, _)| only.is_empty() || only.contains(name)) {
        let runs: Vec<&RunView> = snapshot.running.iter().filter(|run| run.agent == *name).collect();
        let found = facts.agents.iter().find(|agent| agent.name == *name);
        let holds = views::holds(office.store(), name, facts.now)?;
        let waits = choice.waits.iter().find(|wait| wait.agent == *name).map(|wait| wait.why);
        let would_hold = choice.holds.iter().find(|hold| hold.agent == *name && hold.message.is_none());
        let state = match (found, office.agent(name)?) {
            (_, None) => AgentState::NotRegistered,
            (_, Some(agent)) if !agent.is_active() => AgentState::Retired,
            _ if !runs.is_empty() => AgentState::Running,
            (Some(found), _) if found.restarts => AgentState::Restarting,
            _ if would_hold.is_some() || holds.iter().any(|hold| hold.message.is_none()) => AgentState::Held,
            _ if choice.starts.iter().any(|start| start.agent == *name) => AgentState::Ready,
            _ => match waits {
                Some(WaitReason::Quiet) => AgentState::Quiet,
                Some(_) => AgentState::Waiting,
                None if found.is_some_and(|agent| !agent.later.is_empty()) => AgentState::Waiting,
                None => AgentState::Idle,
            },
        };
        agents.push(AgentPicture {
            agent: name.clone(),
            why: match state {
                AgentState::Restarting => team::why(office, runners, name)?,
                _ => None,
            },
            state,
            runs: runs.into_iter().map(|run| run_picture(office, run)).collect::<Result<_, _>>()?,
            queue: found.map_or(0, |agent| agent.mail.len()),
            next: found.and_then(|agent| agent.mail.first()).map(|mail| mail.message),
            waits_since: found.and_then(|agent| agent.mail.iter().map(|mail| mail.stored_at).min()),
            later: found.map(|agent| agent.later.clone()).unwrap_or_default(),
            would_hold: would_hold.map(|hold| hold.text.clone()),
            holds,
            spent: found.and_then(spent),
            quiet_until: config.quiet.and_then(|quiet| times::quiet_until(quiet, facts.now, &facts.zone)),
            schedule_next: found.and_then(|agent| agent.clock_next),
            trusted: config.trusted,
        });
    }
    Ok(Picture { at: facts.now, places: facts.places, taken: facts.taken, agents })
}

fn run_picture(office: &Office, run: &RunView) -> Result<RunPicture, Error> {
    Ok(RunPicture {
        run: run.run.clone(),
        messages: run.messages.clone(),
        started_at: run.started_at,
        host: run.host.clone(),
        supervisor: run.supervisor,
        presence: run.presence(office.store())?,
    })
}

fn spent(agent: &AgentFacts) -> Option<SpentPicture> {
    let budget = agent.config.budget?;
    Some(SpentPicture {
        per: budget.per.word(),
        runs: agent.spent.runs,
        runs_max: budget.runs,
        minutes: agent.spent.took_ms / 60_000,
        minutes_max: budget.minutes,
        cost_micros: agent.spent.cost_micros,
        cost_micros_max: budget.cost_micros,
    })
}
