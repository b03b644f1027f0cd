//! Carries out what committed records ask for: rings, workflows that go on, mirrors of contexts, and erasing what another
//! machine redacted.
//!
//! Whoever commits calls [`Carrier::carry_out`] afterwards, whatever it committed: the fold has said what is to be done, ticks
//! and notices included ([`Action`]). Nobody waits for a ring: it takes time, so one process apart rings for all of them.
//! Actions are hints. If this process dies before it has carried them out, others find what is missing in the tables: a
//! ring in the index of what is owed ([`Carrier::ring_owed`]), a workflow when a dispatcher or a person looks at it, a mirror
//! when its context is read.

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

/// In the environment of everything a run started: its id.
pub const RUN: &str = "POSTE_RUN";
/// In the environment of a process that a run started and that outlives it: what it does there.
pub const SUPERVISES: &str = "POSTE_SUPERVISES";

/// Agents one process rings.
const AGENTS_MAX: usize = 200;

/// So often workflows that make each other go on are advanced by one call; the rest waits for the next.
const ROUNDS_MAX: usize = 16;

/// After this long a ring that is still owed was lost. Longer than one ring waits for another.
const LOST_AFTER_MS: i64 = 10_000;

/// Who carries actions out.
#[derive(Debug, Clone)]
pub struct Carrier {
    /// This very program, which is started to ring. Without it nobody is rung from here.
    pub program: Option<PathBuf>,
    /// In whose name this process works. It is awake, so it is not rung.
    pub caller: Option<Name>,
    pub session: Option<Session>,
    /// The surface this process is.
    pub via: Via,
    /// Whether sessions may be rung over the network: only dispatchers use it.
    pub remote: bool,
}

impl Default for Carrier {
    /// A dispatcher that rings nobody.
    fn default() -> Self {
        Self { program: None, caller: None, session: None, via: Via::Dispatch, remote: false }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct CarriedOut {
    /// Records that were written for workflows.
    pub records: usize,
    /// What people should know: steps that could not be sent, mirrors that somebody edited.
    pub warnings: Vec<Note>,
    /// What to do about that.
    pub next: Vec<Note>,
    /// What could not be carried out, and is tried again later.
    pub failures: Vec<String>,
}

impl CarriedOut {
    /// Takes in what became of workflows.
    pub(crate) fn advanced(&mut self, advanced: Result<Advanced, Error>) {
        match advanced {
            Ok(Advanced { records, waiting, .. }) => {
                self.records += records;
                self.warnings.extend(waiting.into_iter().map(Note::from));
            }
            // Who may only read leaves it to others.
            Err(Error::ReadOnly(_)) => {}
            Err(error) => self.failures.push(format!("workflows are not gone on with now: {error}")),
        }
    }

    /// Everything to warn of.
    pub fn all_warnings(&mut self) -> Vec<Note> {
        let failures = std::mem::take(&mut self.failures).into_iter().map(Note::from);
        std::mem::take(&mut self.warnings).into_iter().chain(failures).collect()
    }
}

impl Carrier {
    /// Carries out what this office has committed and nobody has carried out yet. Trouble is told and stops nothing: what was
    /// committed is committed.
    pub fn carry_out(&self, office: &mut Office) -> CarriedOut {
        let mut done = CarriedOut::default();
        erase(office, &mut done);
        let mut rings = BTreeSet::new();
        for _ in 0..ROUNDS_MAX {
            // What is written for a workflow asks for more: its mail rings, and another workflow may go on.
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
        // Whatever is in the way of a ring is told where somebody looks for it (`track`), not to whoever wrote.
        if !rings.is_empty() && self.program.is_some() {
            let _ = self.ring(office, &rings);
        }
        done
    }

    /// Rings for what was lost: somebody died between its commit and the ring. One look at an index of what is owed. Passes
    /// over agents that were rung for their oldest message a moment ago, and gives those it rings, each with its oldest.
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

    /// Whether it has a way that somebody has to ring by: a waiter hears the bell itself.
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

    /// One process rings all of these agents. It is told their names: for which mail, each is looked up when it is rung.
    fn ring_apart(&self, office: &Office, worth: &BTreeMap<Name, MessageNo>) -> Result<(), Error> {
        let (Some(program), Some((agent, message))) = (&self.program, worth.first_key_value()) else { return Ok(()) };
        let by = self.recorder(office, agent, *message)?;
        let agents: Vec<String> = worth.keys().map(Name::to_string).collect();
        for agents in agents.chunks(AGENTS_MAX) {
            self.start_wake(program, office, &by, &[agents, &["--apart".to_owned()]].concat())?;
        }
        Ok(())
    }

    /// Rings an agent whose program is kept running for what it has not seen, in its own name.
    pub fn ring_resident(&self, office: &Office, agent: &Name) -> Result<(), Error> {
        let Some(program) = &self.program else { return Ok(()) };
        self.start_wake(program, office, agent, &[agent.to_string(), "--unseen".to_owned()])
    }

    /// Starts `poste wake`, the one process that rings, in a name.
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

    /// In whose name the attempt is recorded: the caller's, else the sender's, else that of whoever is rung.
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

/// Starts the process that rings. Nobody waits for it.
fn start_apart(mut command: Command, folder: &Path) -> Result<(), Error> {
    command.current_dir(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Whoever sends last and ends wants it to ring all the same: it does not belong to the run it was sent in.
    command.env_remove(RUN).env(SUPERVISES, "wake");
    let program = PathBuf::from(command.get_program());
    let mut child = command.spawn().map_err(|error| Error::Io { path: program, source: error })?;
    // A server that lives on must not keep what is left of it.
    std::thread::spawn(move || child.wait());
    Ok(())
}

/// Rings that nobody is about to make any more: whoever stored the mail had time enough.
pub fn lost_rings(office: &Office) -> Result<Vec<(Sleeper, MessageNo)>, Error> {
    views::owed_rings(office.store(), office.now()?.plus_ms(-LOST_AFTER_MS))
}

/// Erases what another machine redacted: its `redact` erased its own files only. What is still to do is asked of the store,
/// so whoever dies here leaves it to the next. Redactions of this machine's own log are erased by whoever makes them.
fn erase(office: &mut Office, done: &mut CarriedOut) {
    if !office.follows() {
        return;
    }
    match office.erase() {
        // Who may only read leaves it to others.
        Ok(_) | Err(Error::ReadOnly(_)) => {}
        Err(error) => done.failures.push(format!("redacted content is not erased from every file yet: {error}")),
    }
}

/// One workflow, or all that are open.
fn advance(office: &mut Office, via: Via, label: Option<&Label>, done: &mut CarriedOut) {
    let advanced = match label {
        Some(label) => workflow::advance_news_of(office, via, label),
        None => workflow::advance(office, via),
    };
    done.advanced(advanced);
}

/// Brings the mirror of a context up to the log. The log is what counts, so trouble with the file is told and no more.
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
