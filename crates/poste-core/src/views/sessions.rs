//! Sessions and the notes below a root session.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Found, content};
use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, NoteKind, Position, SessionProcess};
use crate::store::Store;
use crate::store::processes::Presence;
use crate::store::tables::{Delivery, Event, NoteRow, SessionRow, SessionState, Tables};
use crate::text::{Name, Session};
use crate::time::{Timestamp, rfc3339, rfc3339_option};

/// One session, as this machine sees it now.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionView {
    pub id: Session,
    pub agent: Name,
    pub state: SessionState,
    /// Whether its process still runs, as far as this machine can tell.
    pub process: Presence,
    pub pid: Option<u32>,
    pub host: String,
    pub program: String,
    pub worktree: Option<String>,
    pub parent: Option<Session>,
    /// The top of the chain of parents.
    pub root: Session,
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    /// The session that took over from it.
    pub successor: Option<Session>,
    /// Its open claims.
    pub holds: Vec<Held>,
    /// The summary it was closed with.
    pub summary: Option<String>,
}

/// The agent that a process works for, and the run or session it does so in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keeper {
    pub agent: Name,
    pub session: Session,
    /// A supervisor started it.
    pub is_run: bool,
}

/// The agent that one of these processes of this machine works for: a run that has not ended, or a session. A process that
/// was an agent's stays one while it lives: an agent may close its session. A person may start a session of their own, so
/// those do not count.
pub fn keeper(store: &Store, processes: &[SessionProcess]) -> Result<Option<Keeper>, Error> {
    let tables = store.tables()?;
    let is_among = |process: &SessionProcess| processes.contains(process);
    if let Some(run) = tables.all_running()?.into_iter().find(|run| is_among(&run.supervisor)) {
        return Ok(Some(Keeper { agent: run.agent, session: run.run, is_run: true }));
    }
    for process in processes {
        for session in tables.sessions_of_pid(process.pid)? {
            let is_persons = tables.agent(session.agent.as_str())?.is_some_and(|agent| agent.is_person());
            if session.process.as_ref() == Some(process) && !is_persons {
                return Ok(Some(Keeper { agent: session.agent, session: session.id, is_run: false }));
            }
        }
    }
    Ok(None)
}

/// A claim of a session.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Held {
    pub number: MessageNo,
    pub token: Position,
    #[serde(serialize_with = "rfc3339")]
    pub lease_until: Timestamp,
}

/// A note and its author.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct NoteView {
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub by: Name,
    pub session: Session,
    pub text: String,
    /// The number of a question within its root.
    pub question: Option<u32>,
    /// The invoked agent.
    pub agent: Option<Name>,
}

/// A question and its answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct QuestionView {
    pub question: NoteView,
    pub answer: Option<NoteView>,
}

/// The context of a root session, shared by all sessions below it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct SessionContext {
    pub root: SessionView,
    pub goal: Option<NoteView>,
    /// Sessions below it, in the order they started.
    pub below: Vec<SessionView>,
    /// Invoked agents, according to notes.
    pub invoked: Vec<NoteView>,
    pub decisions: Vec<NoteView>,
    pub open_questions: Vec<QuestionView>,
    pub answered_questions: Vec<QuestionView>,
    pub notes: Vec<NoteView>,
    pub as_of: Position,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Sessions {
    pub sessions: Vec<SessionView>,
    /// There are more than this page shows.
    pub more: bool,
    pub as_of: Position,
}

pub fn session(store: &Store, id: &Session) -> Result<Option<SessionView>, Error> {
    store.view(|tables| tables.session(id)?.map(|row| view(store, tables, row)).transpose())
}

/// A session as the log has it, without checking its process.
pub fn session_row(store: &Store, id: &Session) -> Result<Option<SessionRow>, Error> {
    store.tables()?.session(id)
}

/// The number of the question that was noted or answered by a record.
pub fn question_at(store: &Store, root: &Session, position: Position) -> Result<Option<u32>, Error> {
    Ok(store.tables()?.note_at(root, position)?.and_then(|note| note.question))
}

/// All sessions that have not ended.
pub fn live_sessions(store: &Store) -> Result<Vec<Session>, Error> {
    Ok(store.tables()?.live_sessions()?.into_iter().map(|row| row.id).collect())
}

/// The live session of an agent.
pub fn live_session(store: &Store, agent: &Name) -> Result<Option<SessionView>, Error> {
    store.view(|tables| tables.live_session(agent)?.map(|row| view(store, tables, row)).transpose())
}

/// The live session of this machine that belongs to the first of these processes that has one, and its agent.
pub fn session_of_process(store: &Store, processes: &[SessionProcess]) -> Result<Option<(Session, Name)>, Error> {
    let machine = store.machine()?;
    let live = store.tables()?.live_sessions()?.into_iter().filter(|row| row.machine == *machine);
    let nearest = |row: &SessionRow| processes.iter().position(|process| row.process.as_ref() == Some(process));
    let found = live.filter_map(|row| Some((nearest(&row)?, row))).min_by_key(|(near, _)| *near);
    Ok(found.map(|(_, row)| (row.id, row.agent)))
}

/// A claim and its lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub message: MessageNo,
    pub token: Option<Position>,
    pub until: Timestamp,
    /// Of the last claim or extension.
    pub length_ms: i64,
}

/// The open claims of an agent, in all sessions.
pub fn held_by(store: &Store, agent: &Name) -> Result<Vec<Delivery>, Error> {
    store.tables()?.held_by(agent)
}

/// The open claims of an agent in a session or without one. Claims of its other sessions are theirs to keep or lose.
pub fn held_in(store: &Store, agent: &Name, session: Option<&Session>) -> Result<Vec<Delivery>, Error> {
    let mut held = held_by(store, agent)?;
    held.retain(|delivery| delivery.session.is_none() || delivery.session.as_ref() == session);
    Ok(held)
}

/// The leases of the claims [held](held_in) in a session.
pub fn leases(store: &Store, agent: &Name, session: Option<&Session>) -> Result<Vec<Lease>, Error> {
    let given = |event: Event| matches!(event, Event::Claimed | Event::Extended | Event::LeaseMoved);
    let tables = store.tables()?;
    let mut leases = Vec::new();
    for delivery in held_in(store, agent, session)? {
        let last = tables.events_of_delivery(&delivery)?.into_iter().rfind(|row| given(row.event));
        let (Some(until), Some(last)) = (delivery.lease_until, last) else { continue };
        let length_ms = until.since_ms(last.at).clamp(limits::LEASE_MS_MIN, limits::LEASE_MS_MAX);
        leases.push(Lease { message: delivery.message, token: delivery.token, until, length_ms });
    }
    Ok(leases)
}

/// Live sessions, oldest first; or the newest of all sessions.
pub fn sessions(store: &Store, all: bool, limit: usize) -> Result<Sessions, Error> {
    store.view(|tables| {
        let mut rows = if all { tables.newest_sessions(limit + 1)? } else { tables.live_sessions()? };
        let more = rows.len() > limit;
        rows.truncate(limit);
        let sessions = rows.into_iter().map(|row| view(store, tables, row)).collect::<Result<_, _>>()?;
        Ok(Sessions { sessions, more, as_of: tables.cursor.head.position })
    })
}

/// The context shared below the root of a session.
pub fn session_context(store: &Store, id: &Session) -> Result<Option<SessionContext>, Error> {
    store.view(|tables| {
        let Some(asked) = tables.session(id)? else { return Ok(None) };
        let mut rows = tables.sessions_below(&asked.root)?.into_iter();
        let is_root = |row: &SessionRow| row.is_root();
        let Some(root) = rows.clone().find(is_root) else {
            return Err(Error::Damaged(format!("session {id} has no root")));
        };
        let mut goals = goals(store, rows.as_slice(), &root)?;
        let mut context = SessionContext {
            goal: None,
            below: rows
                .by_ref()
                .filter(|row| !row.is_root())
                .map(|row| view(store, tables, row))
                .collect::<Result<_, _>>()?,
            invoked: Vec::new(),
            decisions: Vec::new(),
            open_questions: Vec::new(),
            answered_questions: Vec::new(),
            notes: Vec::new(),
            as_of: tables.cursor.head.position,
            root: view(store, tables, root)?,
        };
        let mut questions = Vec::new();
        for row in tables.notes_of(&asked.root)? {
            sort_in(store, row, &mut context, &mut questions)?;
        }
        // The newest goal counts, whether it was noted or given at the start.
        goals.extend(context.goal.take());
        context.goal = goals.into_iter().max_by_key(|goal| goal.position);
        (context.answered_questions, context.open_questions) =
            questions.into_iter().partition(|question| question.answer.is_some());
        Ok(Some(context))
    })
}

/// The goals that a root and the roots it took over from were started with.
fn goals(store: &Store, rows: &[SessionRow], root: &SessionRow) -> Result<Vec<NoteView>, Error> {
    let (mut newest, mut goals) = (&root.id, Vec::new());
    // A session that takes over started later.
    for row in rows.iter().rev() {
        if row.id != root.id && row.successor.as_ref() != Some(newest) {
            continue;
        }
        newest = &row.id;
        goals.extend(text_of(store, row.position)?.map(|text| NoteView {
            position: row.position,
            at: row.at,
            by: row.agent.clone(),
            session: row.id.clone(),
            text,
            question: None,
            agent: None,
        }));
    }
    Ok(goals)
}

fn sort_in(
    store: &Store,
    row: NoteRow,
    context: &mut SessionContext,
    questions: &mut Vec<QuestionView>,
) -> Result<(), Error> {
    let what = row.what;
    let note = NoteView {
        text: text_of(store, row.position)?.unwrap_or_default(),
        position: row.position,
        at: row.at,
        by: row.by,
        session: row.session,
        question: row.question,
        agent: row.agent,
    };
    match what {
        NoteKind::Goal => context.goal = Some(note),
        NoteKind::Decision => context.decisions.push(note),
        NoteKind::Question => questions.push(QuestionView { question: note, answer: None }),
        NoteKind::Answer => {
            let asked = questions.iter_mut().find(|asked| asked.question.question == note.question);
            if let Some(asked) = asked {
                asked.answer = Some(note);
            }
        }
        NoteKind::Agent => context.invoked.push(note),
        NoteKind::Note => context.notes.push(note),
    }
    Ok(())
}

fn view(store: &Store, tables: &Tables<'_>, row: SessionRow) -> Result<SessionView, Error> {
    let held = tables.held_by(&row.agent)?.into_iter().filter(|held| held.session.as_ref() == Some(&row.id));
    let holds =
        held.filter_map(|held| Some(Held { number: held.message, token: held.token?, lease_until: held.lease_until? }));
    let holds = holds.collect();
    let closed_by = row.ended_by.filter(|_| row.state == SessionState::Closed);
    let summary = closed_by.map(|position| text_of(store, position)).transpose()?.flatten();
    Ok(SessionView {
        process: store.presence(&row.machine, row.process.as_ref())?,
        pid: row.process.map(|process| process.pid),
        id: row.id,
        agent: row.agent,
        state: row.state,
        host: row.host,
        program: row.program,
        worktree: row.worktree,
        parent: row.parent,
        root: row.root,
        started_at: row.at,
        ended_at: row.ended_at,
        successor: row.successor,
        holds,
        summary,
    })
}

/// The text of a record, or a placeholder if it was erased or lost.
fn text_of(store: &Store, position: Position) -> Result<Option<String>, Error> {
    Ok(match content(store, position)? {
        Found::Content(content) => Some(content.body.text().into_owned()).filter(|text| !text.is_empty()),
        Found::Redacted(_) => Some("(redacted)".to_owned()),
        Found::Gone => Some("(no longer here)".to_owned()),
        Found::Never => None,
    })
}

/// How a session ended, and what to do; `None` if it is live or unknown.
pub fn session_over(store: &Store, id: &Session) -> Result<Option<String>, Error> {
    let Some(session) = store.tables()?.session(id)?.filter(|session| !session.is_live()) else { return Ok(None) };
    let how = match (&session.state, &session.successor) {
        (SessionState::TakenOver, Some(successor)) => format!("was taken over by {successor}"),
        (SessionState::Retired, _) => format!("has ended: {} is retired", session.agent),
        _ => "is closed".to_owned(),
    };
    Ok(Some(format!("session {id} {how}; start another one: poste session start --as {}", session.agent)))
}
