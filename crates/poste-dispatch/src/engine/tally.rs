//! The outcome of a dispatcher: counts of what it did, and what it leaves behind.

use poste_config::{Mode, Runners};
use poste_core::error::Error;
use poste_core::log::{MessageNo, RunOutcome};
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::views::{Later, WhyLater};

use super::dispatcher::Event;
use super::picture::{AgentPicture, AgentState, picture};
use crate::notify::What;

/// Counts of runs, failures and holds.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    pub started: usize,
    pub ended: usize,
    pub failed: usize,
    pub stopped: usize,
    pub held: usize,
    /// Messages that a rule gave up on.
    pub untold: usize,
    pub not_started: usize,
}

impl Tally {
    pub fn count(&mut self, event: &Event) {
        match event {
            Event::Started { .. } => self.started += 1,
            Event::Ended { how, code, undone, .. } => {
                self.ended += 1;
                match how {
                    RunOutcome::Stopped => self.stopped += 1,
                    _ => self.failed += usize::from(!went_well(*how, *code, undone)),
                }
            }
            // The start had no effect.
            Event::NotTaken { .. } => self.started = self.started.saturating_sub(1),
            Event::CouldNotRun { .. } => {
                self.started = self.started.saturating_sub(1);
                self.not_started += 1;
            }
            Event::Held { .. } => self.held += 1,
            Event::Watched { line } => self.untold += usize::from(line.what == What::Dead),
            _ => {}
        }
    }
}

/// Whether a run succeeded.
pub fn went_well(how: RunOutcome, code: Option<u8>, undone: &[MessageNo]) -> bool {
    how == RunOutcome::Exited && code == Some(0) && undone.is_empty()
}

/// What a dispatcher leaves behind.
#[derive(Debug)]
pub struct Left {
    /// Residents, which keep running without it.
    pub kept: Vec<Name>,
    /// Agents with mail that are not started for it until a hold is lifted or expires.
    pub held: Vec<Name>,
    /// The first message of each agent that becomes available at a known time.
    pub later: Vec<Later>,
}

pub fn left(office: &Office, runners: &Runners, only: &[Name]) -> Result<Left, Error> {
    let agents = picture(office, runners, only)?.agents;
    let is_resident = |name: &Name| runners.agents.get(name).is_some_and(|config| config.mode == Mode::Resident);
    let is_kept = |agent: &&AgentPicture| {
        matches!(agent.state, AgentState::Running | AgentState::Restarting) && is_resident(&agent.agent)
    };
    let holds_mail = |agent: &&AgentPicture| {
        let is_held = agent.holds.iter().any(|hold| hold.message.is_none());
        is_held && agent.queue > 0 || agent.later.iter().any(|later| later.why == WhyLater::Held)
    };
    let name = |agent: &AgentPicture| agent.agent.clone();
    Ok(Left {
        kept: agents.iter().filter(is_kept).map(name).collect(),
        held: agents.iter().filter(holds_mail).map(name).collect(),
        later: agents
            .iter()
            .filter_map(|agent| agent.later.iter().find(|later| later.until.is_some()).cloned())
            .collect(),
    })
}
