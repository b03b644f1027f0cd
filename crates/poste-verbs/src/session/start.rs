//! Starts a session of the speaker. An agent runs as one session at a time.

use poste_core::fold::{Code, Verdict};
use poste_core::log::{Intent, Position, Register};
use poste_core::store::processes::Presence;
use poste_core::store::tables::Agent;
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, SessionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Place, Starting, id_conflict, inherited_parent, is_numbered, no_session, place};
use crate::error::Kind;
use crate::explain::explain;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Goal of the session
    pub goal: Option<String>,
    /// Id of the session; default: a new one
    pub name: Option<Session>,
    /// Resume this session of the caller, which ended or lost its process
    pub resume: Option<Session>,
    /// Session it runs on behalf of; default: the caller's session, if that is of another agent
    pub parent: Option<Session>,
    /// Start it without a parent
    pub root: bool,
    /// End the agent's live session, and continue in its place
    pub take_over: bool,
    /// If the agent has a live session: run as NAME-2, NAME-3 and so on, registered with the same role and lead
    pub own_name: bool,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub place: Place,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub session: SessionView,
    /// Session that it took over; the claims of that one can be finished with their tokens.
    pub took_over: Option<SessionView>,
    /// Position of the record in the log.
    pub position: Option<Position>,
    /// The session was already started under this id.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "session start";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let base = desk.active_agent()?;
        if let Some(started) = started_before(desk, &self, &base.name)? {
            return answered(desk, &started, None, None, true);
        }
        let (mut agent, mut takes_over) = (base.clone(), None);
        let live = views::live_session(desk.office.store(), &base.name)?;
        if let Some(live) = live.filter(|live| self.resume.as_ref() != Some(&live.id)) {
            if live.process == Presence::Gone {
                let (id, pid) = (&live.id, live.pid.unwrap_or_default());
                desk.warn(format!("session {id} was not closed: pid {pid} has ended; taking it over"));
                takes_over = Some(live);
            } else if self.take_over {
                takes_over = Some(live);
            } else if self.own_name {
                agent = own_name(desk, &base, self.id.as_ref())?;
            } else {
                return Err(in_use(&live));
            }
        }
        let mut record_id = self.id.clone();
        let content = self.goal.as_deref().map(|goal| self.secrets.text("goal", goal)).transpose()?;
        loop {
            let id = match self.name.as_ref().or(self.resume.as_ref()) {
                Some(name) => name.clone(),
                None => made_id(desk, &agent.name)?,
            };
            let parent = match &self.parent {
                Some(parent) => Some(parent.clone()),
                None if self.root || self.resume.is_some() => None,
                None => inherited_parent(desk, &agent.name, takes_over.as_ref())?,
            };
            let starting = Starting {
                id: id.clone(),
                agent: &agent,
                place: &self.place,
                parent,
                takes_over: takes_over.as_ref(),
                resumes: self.resume.is_some(),
            };
            let proposal = starting.proposal(desk, content.clone(), record_id.clone());
            let outcome = desk.propose(&proposal)?;
            let Verdict::Rejected(rejection) = outcome.verdict else {
                return answered(desk, &id, takes_over, outcome.position, outcome.repeat);
            };
            match views::live_session(desk.office.store(), &agent.name)? {
                // Another process was faster.
                Some(_) if rejection.code == Code::SessionLive && self.own_name => {
                    agent = own_name(desk, &base, self.id.as_ref())?;
                    record_id = self.id.as_ref().map(|id| desk.free_id(id)).transpose()?;
                }
                Some(live) if rejection.code == Code::SessionLive => return Err(in_use(&live)),
                _ => return Err(explain(desk.office, &proposal, rejection.into())?),
            }
        }
    }
}

fn answered(
    desk: &Desk<'_>,
    id: &Session,
    took_over: Option<SessionView>,
    position: Option<Position>,
    repeat: bool,
) -> Result<Answered<Answer>> {
    let session = views::session(desk.office.store(), id)?.ok_or_else(|| no_session(id))?;
    let mut next = Vec::new();
    if let Some(before) = took_over.as_ref().filter(|before| before.root == before.id && session.root != session.id) {
        let left = &before.id;
        next.push(note!("the notes of {left} stay there: " [session show, id = left]));
    }
    if repeat {
        next.push("already started under this id".into());
    }
    for claim in took_over.iter().flat_map(|before| &before.holds) {
        let (agent, number, token, until) = (&session.agent, claim.number, claim.token, claim.lease_until);
        next.push(note!(
            "still held by {agent}: #{number} until {until}; finish it: " [done, number = number, token = token]
            ", or release it: " [release, number = number, token = token]
        ));
    }
    let mut answered = Answered::new(Answer { session, took_over, position, repeat });
    answered.next = next;
    Ok(answered)
}

/// The session that this agent started under this id, whatever its other inputs were.
fn started_before(desk: &Desk<'_>, input: &Input, agent: &Name) -> Result<Option<Session>> {
    let store = desk.office.store();
    let tried = input.id.as_ref().map(|id| desk.tried_ids(id)).transpose()?.unwrap_or_default();
    let Some(known) = tried.last().map(|id| views::written_under(store, id)).transpose()?.flatten() else {
        return Ok(None);
    };
    let Some(Intent::SessionStart(start)) = known.intent else { return Ok(None) };
    let started = views::session_row(store, &start.id)?.filter(|started| started.position == known.position);
    let Some(started) = started else { return Ok(None) };
    // With `own_name`, the session has a numbered name.
    let is_own_name = input.own_name && is_numbered(agent, &started.agent);
    if (started.agent != *agent && !is_own_name) || input.name.as_ref().is_some_and(|name| *name != started.id) {
        return Err(id_conflict());
    }
    Ok(Some(started.id))
}

/// The error if the agent has a live session: where it runs, since when, and what to do.
fn in_use(live: &SessionView) -> Error {
    let (agent, id) = (&live.agent, &live.id);
    let place = place(live);
    let seen = match live.process {
        Presence::Running => "it is still running",
        Presence::Gone => "its process has ended",
        Presence::Unknown => "its process cannot be checked from here",
    };
    Error::worded(Kind::Conflict, note!("{agent} runs as session {id} ({place}) " (since live.started_at) "; {seen}"))
        .code("session_live")
        .hint(note!("continue in its place: " {take_over = true} "; its claims stay held; their tokens finish them"))
        .hint(note!("or run beside it under another name: " {own_name = true} " (as {agent}-2)"))
        .hint(note!("or close it first: " [session close, session_id = id, as = agent]))
}

/// A free numbered name: `coder-2`, `coder-3` …, registered like this agent. Idle ones are reused.
fn own_name(desk: &mut Desk<'_>, agent: &Agent, id: Option<&RecordId>) -> Result<Agent> {
    const TRIED_MAX: u32 = 1_000;
    for number in 2..=TRIED_MAX {
        let name: Name = format!("{}-{number}", agent.name).parse()?;
        if let Some(known) = desk.office.agent(&name)? {
            let is_alike = known.is_active() && known.role == agent.role && known.kind == agent.kind;
            if is_alike && views::live_session(desk.office.store(), &name)?.is_none() {
                return Ok(known);
            }
            continue;
        }
        let register = Register {
            kind: Some(agent.kind),
            role: agent.role.clone(),
            capabilities: Some(agent.capabilities.clone()),
            worktree: agent.worktree.clone(),
            lead: agent.lead.clone().filter(|lead| *lead != name),
            ..Register::default()
        };
        let id = id.map(|id| id.then(format_args!("register-{name}")));
        let proposal = desk.proposal_as(name.clone(), Intent::Register(register), None, id);
        match desk.propose(&proposal)?.verdict {
            Verdict::Accepted(_) => {
                desk.warn(format!("{} is in use; registered {name}", agent.name));
                return desk.office.agent(&name)?.ok_or_else(|| Error::internal("the agent was not found"));
            }
            // Another process has just taken it.
            Verdict::Rejected(rejection) if rejection.code == Code::NameTaken => {}
            Verdict::Rejected(rejection) => return Err(explain(desk.office, &proposal, rejection.into())?),
        }
    }
    Err(Error::refused(format!("{} has {TRIED_MAX} names in use", agent.name)))
}

/// A short session id that is not in use.
fn made_id(desk: &Desk<'_>, agent: &Name) -> Result<Session> {
    const CHARS: usize = 6;
    loop {
        let id: Session = format!("{agent}-{}", &desk.host.ids.nonce()[..CHARS]).parse()?;
        if views::session_row(desk.office.store(), &id)?.is_none() {
            return Ok(id);
        }
    }
}
