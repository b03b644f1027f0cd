//! What all calls of a process share: its office, its identity and its program.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use poste_core::Foreign;
use poste_core::log::{Proof, Via};
use poste_core::office::{Office, Place, Stop};
use poste_core::store::clock::Clock;
use poste_core::store::schema::Schema;
use poste_core::store::{Interest, Options, discover, host_name, processes};
use poste_verbs::note::Part;
use poste_verbs::session::{self, Identity};
use poste_verbs::{Caller, Desk, Error, Files, Host, Note, Result};

/// Renders a part of a note for a person at a shell.
pub type CommandLine = fn(&Part) -> String;

/// What a surface knows about the process it runs in.
#[derive(Clone)]
pub struct Station {
    /// The office folder; `None`: the one found from the current folder upward.
    pub office: Option<PathBuf>,
    /// The agent and session of this process, from its environment or command line.
    pub own: Identity,
    pub via: Via,
    /// The name shown to processes that wait for the write lock.
    pub program: String,
    pub lock_timeout: Duration,
    pub schema: Schema,
    pub clock: Arc<dyn Clock>,
    pub host: Arc<Host>,
    pub command_line: CommandLine,
    /// Where this user keeps what belongs to no office.
    pub state: Option<PathBuf>,
}

impl fmt::Debug for Station {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Station").field("office", &self.office).field("own", &self.own).finish_non_exhaustive()
    }
}

impl Station {
    pub fn place(&self) -> Result<Place> {
        let path = match &self.office {
            Some(path) => path.clone(),
            None => {
                let cwd = cwd()?;
                discover::find(&cwd).ok_or_else(|| no_office(&cwd))?
            }
        };
        Ok(self.place_at(path))
    }

    pub fn place_at(&self, path: PathBuf) -> Place {
        let options = Options {
            schema: self.schema,
            program: format!("poste {}", self.program),
            lock_timeout: self.lock_timeout,
            state: self.state.clone(),
            ..Options::default()
        };
        Place { path, clock: Arc::clone(&self.clock), options }
    }

    pub fn open(&self) -> Result<Opened> {
        let office = poste_config::open(&self.place()?).map_err(|error| self.without_id(error))?;
        let caller = self.caller(&office);
        Ok(Opened { office, caller, host: Arc::clone(&self.host) })
    }

    /// Only a command line tells the id of an office that is not adopted, because the id adopts it.
    fn without_id(&self, error: poste_core::Error) -> poste_core::Error {
        match error {
            poste_core::Error::NotAdopted { path, why, office: _ } if self.via != Via::Cli => {
                poste_core::Error::NotAdopted { path, why, office: None }
            }
            error => error,
        }
    }

    /// The agent and session of this process, and the files it may touch.
    pub fn caller(&self, office: &Office) -> Caller {
        let Identity { agent, session } = self.own.clone();
        Caller { actor: agent, session, via: self.via, proof: Proof::None, files: files_beside(office, self.via) }
    }

    /// Renders a note for a person at a shell.
    pub fn shell_text(&self, note: &Note) -> String {
        note.written(self.command_line)
    }
}

fn no_office(cwd: &Path) -> Error {
    Error::not_found(format!("no office in {} or any folder above it", Foreign::path(cwd)))
        .hint(poste_verbs::note!("make one: "[init]))
}

pub fn cwd() -> Result<PathBuf> {
    std::env::current_dir().map_err(|error| Error::not_found(format!("cannot find the current folder: {error}")))
}

/// The files this process may touch: those of the worktree it was started in, otherwise of the office's folder.
fn files_beside(office: &Office, via: Via) -> Files {
    let opened = office.path().ok().and_then(|path| Files::open(&worktree_beside(path, via)?, path).ok());
    opened.unwrap_or_default()
}

/// The git worktree this process was started in or the folder around it that holds the office, whichever is nearer;
/// without either, for a command of a shell, the current folder. A server is started anywhere. `None`: there is none, or
/// it is the home folder or the root, so that everything of this user would be in it.
pub fn worktree_beside(office: &Path, via: Via) -> Option<PathBuf> {
    let cwd = cwd().ok()?;
    let beside = office.parent().and_then(|beside| beside.canonicalize().ok()).filter(|beside| cwd.starts_with(beside));
    let current = (via == Via::Cli).then(|| cwd.clone());
    let around = [discover::git_top(&cwd), beside].into_iter().flatten();
    let nearest = around.max_by_key(|folder| folder.components().count());
    let top = nearest.or(current)?.canonicalize().ok()?;
    (!discover::is_home_or_root(&top)).then_some(top)
}

/// The place of a session that lasts as long as a process.
pub fn session_place(pid: Option<u32>, program: Option<String>) -> session::Place {
    let folder = cwd().ok().map(|cwd| discover::git_top(&cwd).unwrap_or(cwd));
    session::Place {
        process: pid.map(processes::written_down),
        host: host_name(),
        program: program.or_else(|| pid.and_then(processes::program)).unwrap_or_else(|| "unknown".to_owned()),
        worktree: folder.and_then(|folder| folder.into_os_string().into_string().ok()),
    }
}

/// An open office and its caller.
#[derive(Debug)]
pub struct Opened {
    pub office: Office,
    caller: Caller,
    host: Arc<Host>,
}

impl Opened {
    /// Acts as this agent and session from now on.
    pub fn act_as(&mut self, own: &Identity) -> &mut Self {
        self.caller.actor.clone_from(&own.agent);
        self.caller.session.clone_from(&own.session);
        self
    }

    pub fn desk(&mut self) -> Desk<'_> {
        Desk::new(&mut self.office, &self.caller, &self.host)
    }

    /// Calls `look` after each change of the office until it finds something, the time is up or `stop` is raised. What
    /// becomes due in between is settled and carried out.
    pub fn wait<T>(
        &mut self,
        interest: &Interest,
        patience: Option<Duration>,
        stop: Stop<'_>,
        mut look: impl FnMut(&mut Desk<'_>) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        let Self { office, caller, host } = self;
        let found = office.wait_unless(interest, patience, stop, |office| {
            let mut desk = Desk::new(office, caller, host);
            desk.carry_out();
            Ok(look(&mut desk).transpose())
        })?;
        found.transpose()
    }
}
