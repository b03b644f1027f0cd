//! Finds or starts the session of a conversation in an agent program. The program's id for the conversation becomes the
//! id of the session.

use std::fmt;

use poste_core::fold::{Code, Verdict};
use poste_core::log::SessionProcess;
use poste_core::store::processes::Presence;
use poste_core::store::tables::{Agent, SessionRow, SessionState};
use poste_core::text::{Name, Session};
use poste_core::views::{self, SessionView};

use super::{Place, Starting, inherited_parent};
use crate::{Desk, Error, Result};

/// A conversation of an agent program, as the program reports it.
pub struct Conversation<'a> {
    /// The program's own id for it.
    pub id: Session,
    /// It begins, or continues after a restart of the program.
    pub starts: bool,
    /// The process continues with it in place of another conversation.
    pub replaces_another: bool,
    pub place: Place,
    /// The ancestors of this process.
    pub above: Vec<SessionProcess>,
    /// Whether a session of the same process is a second conversation, and not this one under another id.
    pub is_beside: &'a dyn Fn(&Session) -> bool,
    /// Whether a program of this name is an agent program. Anything else only launches one.
    pub is_agent_program: &'a dyn Fn(&str) -> bool,
}

impl fmt::Debug for Conversation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("id", &self.id).field("place", &self.place).finish_non_exhaustive()
    }
}

/// The session of a conversation, and whether it can be used.
#[derive(Debug)]
pub struct Binding {
    pub session: Session,
    pub process: Option<SessionProcess>,
    pub standing: Standing,
}

#[derive(Debug)]
pub enum Standing {
    Bound(Box<Bound>),
    /// The agent runs as another session.
    InUse(Box<SessionView>),
    /// No agent name was given.
    Unnamed,
    /// The name given is not registered, or retired.
    NotActive(Name),
    /// The session was closed or taken over.
    Over(Box<SessionRow>),
}

#[derive(Debug)]
pub struct Bound {
    pub agent: Agent,
    /// The session that it has just taken over.
    pub took_over: Option<SessionView>,
}

/// Maximum number of runs of a conversation. A program that is resumed more often has another problem.
const RUNS_MAX: u32 = 1_000;

/// Finds the session of a conversation, and starts or resumes it if necessary.
pub fn bind(desk: &mut Desk<'_>, conversation: &Conversation<'_>) -> Result<Binding> {
    let process = conversation.place.process.as_ref();
    let mut tried = 0;
    loop {
        let run = run_after(desk, conversation, tried)?;
        let binding = |standing| Ok(Binding { session: run.id.clone(), process: process.cloned(), standing });
        let row = match run.found {
            Run::Over(row) => return binding(Standing::Over(Box::new(row))),
            Run::Live(row) => {
                let active = desk.office.agent(&row.agent)?.filter(Agent::is_active);
                return binding(active.map_or(Standing::NotActive(row.agent), |agent| bound(agent, None)));
            }
            Run::Begins => None,
            Run::Resumes(row) => Some(row),
        };
        let Some(name) = name_of(desk, row.as_ref(), process)? else { return binding(Standing::Unnamed) };
        let Some(agent) = desk.office.agent(&name)?.filter(Agent::is_active) else {
            return binding(Standing::NotActive(name));
        };
        let before = match views::live_session(desk.office.store(), &name)?.filter(|live| live.id != run.id) {
            Some(live) if !gives_way(desk, conversation, &live)? => {
                return binding(Standing::InUse(Box::new(live)));
            }
            before => before,
        };
        let resumes = row.is_some();
        let starting = Starting {
            id: run.id.clone(),
            agent: &agent,
            place: &conversation.place,
            // A resumed session keeps its parent.
            parent: if resumes { None } else { inherited_parent(desk, &name, before.as_ref())? },
            takes_over: before.as_ref(),
            resumes,
        };
        let proposal = starting.proposal(desk, None, None);
        match desk.propose(&proposal)?.verdict {
            Verdict::Accepted(_) => return binding(bound(agent, before)),
            // Another hook of this session was faster, or another session.
            Verdict::Rejected(rejection) if matches!(rejection.code, Code::SessionTaken | Code::SessionLive) => {
                return match views::live_session(desk.office.store(), &name)? {
                    Some(live) if live.id == run.id => binding(bound(agent, None)),
                    Some(live) => binding(Standing::InUse(Box::new(live))),
                    None => Err(rejection.into()),
                };
            }
            // Its parent has ended, so it starts as a new run.
            Verdict::Rejected(rejection) if rejection.code == Code::SessionOver && resumes => tried = run.nth,
            Verdict::Rejected(rejection) => return Err(rejection.into()),
        }
    }
}

/// One run of a conversation.
struct FoundRun {
    id: Session,
    nth: u32,
    found: Run,
}

enum Run {
    Live(SessionRow),
    /// It or its process ended, and the program continues it.
    Resumes(SessionRow),
    Begins,
    /// It ended, and the program does not continue it.
    Over(SessionRow),
}

/// The run that the program's id stands for, skipping the first `tried`. A run that was taken over or belongs to
/// another agent is never resumed: the program continues as a new run.
fn run_after(desk: &Desk<'_>, conversation: &Conversation<'_>, tried: u32) -> Result<FoundRun> {
    let Conversation { id: own, starts, place, .. } = conversation;
    let speaker = desk.caller.actor.as_ref();
    let is_anothers = |row: &SessionRow| speaker.is_some_and(|speaker| *speaker != row.agent);
    let mut last: Option<SessionRow> = None;
    for nth in tried + 1..RUNS_MAX {
        let id = if nth == 1 { own.clone() } else { format!("{}~{nth}", own.as_str()).parse()? };
        let found = match views::session_row(desk.office.store(), &id)? {
            Some(row) if row.state == SessionState::TakenOver || (is_anothers(&row) && !row.is_live()) => {
                last = Some(row);
                continue;
            }
            Some(row) if row.is_live() => {
                let moved = *starts && place.process.is_some() && row.process != place.process;
                if moved { Run::Resumes(row) } else { Run::Live(row) }
            }
            Some(row) if *starts => Run::Resumes(row),
            Some(row) => Run::Over(row),
            None => match last.take().filter(|_| !starts) {
                Some(last) => return Ok(FoundRun { id: last.id.clone(), nth: nth - 1, found: Run::Over(last) }),
                None => Run::Begins,
            },
        };
        return Ok(FoundRun { id, nth, found });
    }
    Err(Error::refused(format!("session {own} was taken over too often")))
}

/// The agent that runs here: from the session, from the caller, or as registered by the program's MCP server.
fn name_of(desk: &Desk<'_>, row: Option<&SessionRow>, process: Option<&SessionProcess>) -> Result<Option<Name>> {
    if let Some(name) = row.map(|row| &row.agent).or(desk.caller.actor.as_ref()) {
        return Ok(Some(name.clone()));
    }
    let Some(process) = process else { return Ok(None) };
    let found = views::session_of_process(desk.office.store(), std::slice::from_ref(process))?;
    Ok(found.map(|(_, agent)| agent))
}

fn bound(agent: Agent, took_over: Option<SessionView>) -> Standing {
    Standing::Bound(Box::new(Bound { agent, took_over }))
}

/// Whether a live session of the same agent has in fact ended, or is this one under another id.
fn gives_way(desk: &Desk<'_>, conversation: &Conversation<'_>, live: &SessionView) -> Result<bool> {
    if live.process == Presence::Gone {
        return Ok(true);
    }
    let Some(row) = views::session_row(desk.office.store(), &live.id)? else { return Ok(false) };
    let (Some(theirs), Some(ours)) = (&row.process, &conversation.place.process) else { return Ok(false) };
    // The same process continues with another conversation, or its MCP server started the session. A second
    // conversation beside the first is not this one.
    if theirs == ours {
        return Ok(conversation.replaces_another || !(conversation.is_beside)(&live.id));
    }
    // Nothing from an earlier boot of this machine still runs.
    let boot = |process: &SessionProcess| process.place.split(' ').next().unwrap_or_default().to_owned();
    if !theirs.place.is_empty() && row.machine == *desk.office.machine()? && boot(theirs) != boot(ours) {
        return Ok(true);
    }
    // A shell started it for the program it ran then. An agent program above is another agent of the same name.
    let is_launcher = !(conversation.is_agent_program)(&row.program);
    Ok(is_launcher && conversation.above.contains(theirs))
}
