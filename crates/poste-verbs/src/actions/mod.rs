//! Carries out the actions of committed records: rings, advancing workflows, mirrors of contexts, and erasing content
//! that another machine redacted.
//!
//! Every process calls [`Carrier::carry_out`] after a commit. The fold decides which actions follow ([`Action`]), also
//! from ticks and notices. Rings take time, so one separate process makes them and nothing waits for it. Actions are
//! hints. If this process dies first, others find the missing ones in the tables: a ring in the index of owed rings
//! ([`Carrier::ring_owed`]), a workflow when a dispatcher or a person looks at it, a mirror when its context is read.

mod ways;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::wake::Way;
use poste_core::error::Error;
use poste_core::fold::Action;
use poste_core::log::{MessageNo, Via};
use poste_core::office::Office;
use poste_core::store::mirror::Mirror;
use poste_core::text::{ContextName, Label, Name, Session};
use poste_core::views::{self, Sleeper};

pub use ways::{Allowed, plan};

use crate::workflow::{self, Advanced};
use crate::{Note, context};

/// Environment variable of every process that a run started: the run's id.
pub const RUN: &str = "POSTE_RUN";
/// Environment variable of a process that outlives the run that started it: its purpose.
pub const SUPERVISES: &str = "POSTE_SUPERVISES";

/// Maximum number of agents that one process rings.
const AGENTS_MAX: usize = 200;

/// How many rounds of workflows advancing each other one call carries out. The next call does the rest.
const ROUNDS_MAX: usize = 16;

/// A ring that is still owed after this time was lost. Longer than one ring waits for another.
const LOST_AFTER_MS: i64 = 10_000;

/// Carries out actions.
#[derive(Debug, Clone)]
pub struct Carrier {
    /// This program, which is started to ring agents. `None`: no agent is rung from here.
    pub program: Option<PathBuf>,
    /// The agent of this process. It is awake, so it is not rung.
    pub caller: Option<Name>,
    pub session: Option<Session>,
    /// The surface of this process.
    pub via: Via,
    /// Whether sessions may be rung over the network. Only dispatchers do.
    pub remote: bool,
}

impl Default for Carrier {
    /// A dispatcher that rings no agents.
    fn default() -> Self {
        Self { program: None, caller: None, session: None, via: Via::Dispatch, remote: false }
    }
}

/// The outcome of [`Carrier::carry_out`].
#[derive(Debug, Default)]
pub struct CarriedOut {
    /// Number of records written for workflows.
    pub records: usize,
    /// Warnings for people: steps that could not be sent, mirrors that were edited by hand.
    pub warnings: Vec<Note>,
    /// What to do about them.
    pub next: Vec<Note>,
    /// Actions that failed and are retried later.
    pub failures: Vec<String>,
}

impl CarriedOut {
    /// Adds the outcome of advancing workflows.
    pub(crate) fn advanced(&mut self, advanced: Result<Advanced, Error>) {
        match advanced {
            Ok(Advanced { records, waiting, .. }) => {
                self.records += records;
                self.warnings.extend(waiting.into_iter().map(Note::from));
            }
            // A read-only process leaves it to others.
            Err(Error::ReadOnly(_)) => {}
            Err(error) => self.failures.push(format!("could not advance workflows: {error}")),
        }
    }

    /// Takes all warnings and failures.
    pub fn all_warnings(&mut self) -> Vec<Note> {
        let failures = std::mem::take(&mut self.failures).into_iter().map(Note::from);
        std::mem::take(&mut self.warnings).into_iter().chain(failures).collect()
    }
}

impl Carrier {
    /// Carries out the pending actions of this office's commits. Failures are reported and stop nothing: the commits
    /// stand.
    pub fn carry_out(&self, office: &mut Office) -> CarriedOut {
        let mut done = CarriedOut::default();
        erase(office, &mut done);
        let mut rings = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            // Advancing a workflow asks for more actions: its mail rings, and other workflows may advance.
            let actions = office.take_actions();
            if actions.is_empty() {
                break;
            }
            for action in actions {
                match action {
                    Action::Ring { .. } | Action::RingOwed => drop(rings.insert(action)),
                    Action::Advance { workflow } => advance(office, self.via, Some(&workflow), &mut done),
                    Action::AdvanceAll => advance(office, self.via, None, &mut done),
                    Action::Mirror { context } => mirror(office, &context, &mut done),
                    Action::MirrorAll => mirror_all(office, &mut done),
                }
            }
        }
        // Failed rings are shown where people look for them (`track`), not to the sender.
        if !rings.is_empty() && self.program.is_some() {
            let _ = self.ring(office, &rings);
        }
        done
    }

    /// Makes rings that were lost because a process died between its commit and the ring. Takes one read of an index.
    /// Skips agents just rung for their oldest message; returns those it rings, each with its oldest message.
    pub fn ring_owed(
        &self,
        office: &Office,
        is_rung: impl Fn(&Name, MessageNo) -> bool,
    ) -> Result<BTreeMap<Name, MessageNo>, Error> {
        let mut owed = BTreeMap::new();
        for (sleeper, oldest) in lost_rings(office)? {
            if !is_rung(&sleeper.agent, oldest) && self.can_be_rung(office, &sleeper, oldest)? {
                owed.insert(sleeper.agent, oldest);
            }
        }
        self.ring_apart(office, &owed)?;
        Ok(owed)
    }

    fn ring(&self, office: &Office, rings: &BTreeSet<Action>) -> Result<(), Error> {
        let mut worth = BTreeMap::new();
        for action in rings {
            let asked = match action {
                Action::Ring { message, address } => {
                    let sleepers = views::to_ring(office.store(), *message, address)?;
                    sleepers.into_iter().map(|sleeper| (sleeper, *message)).collect()
                }
                _ => views::owed_rings(office.store(), office.now()?)?,
            };
            for (sleeper, message) in asked {
                if !worth.contains_key(&sleeper.agent) && self.can_be_rung(office, &sleeper, message)? {
                    worth.insert(sleeper.agent, message);
                }
            }
        }
        self.ring_apart(office, &worth)
    }

    /// Whether the agent has a way that needs a ring. A waiter notices the bell itself.
    fn can_be_rung(&self, office: &Office, sleeper: &Sleeper, message: MessageNo) -> Result<bool, Error> {
        if self.caller.as_ref() == Some(&sleeper.agent) {
            return Ok(false);
        }
        let plan = plan(
            office,
            &sleeper.agent,
            sleeper.session.as_ref(),
            Some(&[message]),
            Allowed { spawn: false, remote: self.remote },
        )?;
        Ok(!plan.ways.is_empty() && plan.ways != [Way::Rewake])
    }

    /// Starts one process that rings all of these agents. It gets their names, and looks up their mail itself.
    fn ring_apart(&self, office: &Office, worth: &BTreeMap<Name, MessageNo>) -> Result<(), Error> {
        let (Some(program), Some((agent, message))) = (&self.program, worth.first_key_value()) else { return Ok(()) };
        let by = self.recorder(office, agent, *message)?;
        let agents: Vec<String> = worth.keys().map(Name::to_string).collect();
        for agents in agents.chunks(AGENTS_MAX) {
            self.start_wake(program, office, &by, &[agents, &["--apart".to_owned()]].concat())?;
        }
        Ok(())
    }

    /// Rings a resident agent for mail it has not seen, in its own name.
    pub fn ring_resident(&self, office: &Office, agent: &Name) -> Result<(), Error> {
        let Some(program) = &self.program else { return Ok(()) };
        self.start_wake(program, office, agent, &[agent.to_string(), "--unseen".to_owned()])
    }

    /// Starts `poste wake`, the process that rings, in an agent's name.
    fn start_wake(&self, program: &Path, office: &Office, by: &Name, words: &[String]) -> Result<(), Error> {
        let folder = office.path()?;
        let mut command = Command::new(program);
        command
            .arg("wake")
            .args(words)
            .args(self.remote.then_some("--remote"))
            .args(["--via", self.via.word()])
            .arg("--office")
            .arg(folder)
            .env("POSTE_AGENT", by.as_str());
        match self.session.as_ref().filter(|_| self.caller.as_ref() == Some(by)) {
            Some(session) => command.env("POSTE_SESSION", session.as_str()),
            None => command.env_remove("POSTE_SESSION"),
        };
        start_apart(command, folder)
    }

    /// The agent in whose name the attempt is recorded: the caller, else the sender, else the agent that is rung.
    fn recorder(&self, office: &Office, agent: &Name, message: MessageNo) -> Result<Name, Error> {
        let sender = views::sender(office.store(), message)?;
        for name in self.caller.iter().chain(&sender) {
            if office.agent(name)?.is_some_and(|agent| agent.is_active()) {
                return Ok(name.clone());
            }
        }
        Ok(agent.clone())
    }
}

/// Starts the process that rings, without waiting for it.
fn start_apart(mut command: Command, folder: &Path) -> Result<(), Error> {
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // It must outlive the run: a run that ends right after its last message still wants the ring.
    command.env_remove(RUN).env_remove(poste_config::token::VARIABLE).env(SUPERVISES, "wake");
    let program = PathBuf::from(command.get_program());
    let mut child = command.spawn().map_err(|error| Error::Io { path: program, source: error })?;
    // Reap the child, so that a long-lived server does not collect zombies.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Owed rings so old that the process that stored the mail will not make them.
pub fn lost_rings(office: &Office) -> Result<Vec<(Sleeper, MessageNo)>, Error> {
    views::owed_rings(office.store(), office.now()?.plus_ms(-LOST_AFTER_MS))
}

/// Erases what another machine redacted: its `redact` erased its own files only. The store knows what is left to do, so
/// a process that dies here leaves it to the next. In an office with its own log, `redact` itself erases everything.
fn erase(office: &mut Office, done: &mut CarriedOut) {
    if !office.follows() {
        return;
    }
    match office.erase() {
        // A read-only process leaves it to others.
        Ok(_) | Err(Error::ReadOnly(_)) => {}
        Err(error) => done.failures.push(format!("redacted content is not yet erased from every file: {error}")),
    }
}

/// Advances one workflow, or all open ones.
fn advance(office: &mut Office, via: Via, label: Option<&Label>, done: &mut CarriedOut) {
    let advanced = match label {
        Some(label) => workflow::advance_news_of(office, via, label),
        None => workflow::advance(office, via),
    };
    done.advanced(advanced);
}

/// Updates the mirror of a context from the log. The log counts, so problems with the file are only reported.
pub fn mirror(office: &Office, name: &ContextName, done: &mut CarriedOut) {
    match office.mirror(name, false) {
        Ok(Some(Mirror::Edited(path))) => {
            let (warning, next) = context::edited(name, &path.display().to_string());
            done.warnings.push(warning);
            done.next.extend(next);
        }
        Ok(_) => {}
        Err(error) => done.failures.push(format!("the file of context {name} was not written: {error}")),
    }
}

fn mirror_all(office: &Office, done: &mut CarriedOut) {
    match views::contexts(office.store(), None) {
        Ok(contexts) => contexts.iter().for_each(|context| mirror(office, &context.name, done)),
        Err(error) => done.failures.push(format!("the files of contexts were not written: {error}")),
    }
}
