//! Sessions: one run of an agent, and what it shares with the sessions below it. One file per verb; [`bind`] finds the
//! session of a process, and [`Identity`] the agent it acts for.

pub mod bind;
pub mod close;
mod identity;
pub mod list;
pub mod note;
pub mod page;
pub mod show;
pub mod start;

use poste_core::Foreign;
use poste_core::limits;
use poste_core::log::{Content, Intent, Proposal, SessionProcess, SessionStart};
use poste_core::store::host_name;
use poste_core::store::processes::Presence;
use poste_core::store::tables::{Agent, SessionState};
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, SessionView};

pub use identity::{Identity, is_numbered};

use crate::{Desk, Error, Result};

/// Where a session runs, as its surface knows it. No input can set this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The process that the session is bound to.
    pub process: Option<SessionProcess>,
    pub host: String,
    /// The program that runs.
    pub program: String,
    /// Its folder, unless its agent is registered with one.
    pub worktree: Option<String>,
}

impl Default for Place {
    fn default() -> Self {
        Self { process: None, host: host_name(), program: "unknown".to_owned(), worktree: None }
    }
}

/// A session that is about to start.
struct Starting<'a> {
    id: Session,
    agent: &'a Agent,
    place: &'a Place,
    parent: Option<Session>,
    takes_over: Option<&'a SessionView>,
    resumes: bool,
}

impl Starting<'_> {
    fn proposal(self, desk: &Desk<'_>, content: Option<Content>, id: Option<RecordId>) -> Proposal {
        let worktree = self.agent.worktree.clone().or_else(|| self.place.worktree.clone());
        let header = SessionStart {
            id: self.id,
            process: self.place.process.clone(),
            host: self.place.host.clone(),
            program: self.place.program.clone(),
            worktree: worktree.filter(|path| path.len() <= limits::PATH_BYTES_MAX),
            parent: self.parent,
            takes_over: self.takes_over.map(|live| live.id.clone()),
            resumes: self.resumes,
        };
        desk.proposal_as(self.agent.name.clone(), Intent::SessionStart(header), content, id)
    }
}

/// The parent of a new session: the caller's session, if it is of another agent; else the parent of the session it
/// takes over, unless its root has ended.
fn inherited_parent(desk: &Desk<'_>, agent: &Name, before: Option<&SessionView>) -> Result<Option<Session>> {
    let store = desk.office.store();
    if let Some(id) = &desk.caller.session
        && let Some(caller) = views::session_row(store, id)?.filter(|row| row.is_live() && row.agent != *agent)
    {
        return Ok(Some(caller.id));
    }
    let Some(before) = before else { return Ok(None) };
    let root = views::session_row(store, &before.root)?;
    Ok(before.parent.clone().filter(|_| root.is_some_and(|root| root.is_live())))
}

/// The session that a command means: the named one, else the caller's, else the one the speaker runs as.
fn chosen(desk: &Desk<'_>, named: Option<Session>) -> Result<SessionView> {
    let store = desk.office.store();
    if let Some(id) = named {
        return views::session(store, &id)?.ok_or_else(|| no_session(&id));
    }
    if let Some(id) = &desk.caller.session
        && let Some(session) = views::session(store, id)?
    {
        return Ok(session);
    }
    let speaker = desk.speaker()?;
    views::live_session(store, &speaker)?.ok_or_else(|| {
        Error::not_found(format!("{speaker} has no live session"))
            .code("unknown_session")
            .hint(note!("start one: " [session start, as = speaker]))
    })
}

fn no_session(id: &Session) -> Error {
    Error::not_found(format!("no session {id} was started"))
        .code("unknown_session")
        .hint(note!("see all sessions: " [session list, all = true]))
}

fn id_conflict() -> Error {
    Error::conflict("the id was used for something else")
        .code("id_conflict")
        .hint("an id is for one write only; use another one")
}

/// The state of a session, in a few words.
pub fn state(session: &SessionView) -> String {
    match (session.state, session.process) {
        (SessionState::Live, Presence::Gone) => "live, its process has ended".to_owned(),
        (SessionState::TakenOver, _) => match &session.successor {
            Some(successor) => format!("taken over by {successor}"),
            None => "taken over".to_owned(),
        },
        (SessionState::Retired, _) => "ended, its agent is retired".to_owned(),
        (state, _) => state.word().to_owned(),
    }
}

/// The process of a session, and its host.
pub fn place(session: &SessionView) -> String {
    let pid = session.pid.map(|pid| format!("pid {pid}, ")).unwrap_or_default();
    format!("{pid}{} on {}", Foreign::name(&*session.program), Foreign::name(&*session.host))
}
