//! Sessions: their agents, their parents, and the notes made in them.

use rusqlite::{Row, params};

use super::rows::Selected;
use super::{Concern, Tables};
use crate::error::Error;
use crate::log::{NoteKind, Position, SessionProcess};
use crate::text::{Label, Name, Session};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// Whether a session still counts as running. Whether its process does, no table knows.
    SessionState {
        Live = 0 "live",
        Closed = 1 "closed",
        /// Another session of the same agent ended it.
        TakenOver = 2 "taken_over",
        /// Its agent retired.
        Retired = 3 "retired",
    }
);

/// A session that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    pub id: Session,
    pub position: Position,
    pub at: Timestamp,
    pub agent: Name,
    pub parent: Option<Session>,
    /// The top of the chain of parents; its own id if it has none. After a takeover of the root, its successor.
    pub root: Session,
    pub process: Option<SessionProcess>,
    /// The machine its process is on, with the host name for people next to it.
    pub machine: Label,
    pub host: String,
    pub program: String,
    pub worktree: Option<String>,
    /// Number of questions so far; only counted on a root.
    pub questions: u32,
    pub state: SessionState,
    pub ended_at: Option<Timestamp>,
    pub ended_by: Option<Position>,
    /// The session that took over.
    pub successor: Option<Session>,
}

impl SessionRow {
    pub fn is_live(&self) -> bool {
        self.state == SessionState::Live
    }

    pub fn is_root(&self) -> bool {
        self.root == self.id
    }
}

/// What was noted at a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoteRow {
    pub root: Session,
    pub position: Position,
    pub at: Timestamp,
    pub session: Session,
    pub by: Name,
    pub what: NoteKind,
    /// The number of the question it asks or answers.
    pub question: Option<u32>,
    pub agent: Option<Name>,
}

impl Selected for SessionRow {
    const SELECT: &'static str =
        "SELECT id, position, at, agent, parent, root, pid, pid_started_ms, pid_place, machine, host, program,
         worktree, questions, state, ended_at, ended_by, successor FROM sessions";
}

impl TryFrom<&Row<'_>> for SessionRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        let process = match row.get(6)? {
            Some(pid) => Some(SessionProcess { pid, started_ms: row.get(7)?, place: row.get(8)? }),
            None => None,
        };
        Ok(Self {
            id: row.get(0)?,
            position: row.get(1)?,
            at: row.get(2)?,
            agent: row.get(3)?,
            parent: row.get(4)?,
            root: row.get(5)?,
            process,
            machine: row.get(9)?,
            host: row.get(10)?,
            program: row.get(11)?,
            worktree: row.get(12)?,
            questions: row.get(13)?,
            state: row.get(14)?,
            ended_at: row.get(15)?,
            ended_by: row.get(16)?,
            successor: row.get(17)?,
        })
    }
}

stored!(NoteRow in "session_notes": root, position, at, session, by as agent, what, question, agent as about);

impl Tables<'_> {
    pub fn session(&self, id: &Session) -> Result<Option<SessionRow>, Error> {
        self.one(select!(SessionRow, "WHERE id = ?1"), [id])
    }

    /// The live session of an agent.
    pub fn live_session(&self, agent: &Name) -> Result<Option<SessionRow>, Error> {
        self.one(select!(SessionRow, "WHERE agent = ?1 AND state = 0"), [agent])
    }

    /// Whether any session is live. Reads one entry of an index that holds only live sessions.
    pub fn has_live_session(&self) -> Result<bool, Error> {
        let sql = "SELECT EXISTS (SELECT agent FROM sessions WHERE state = 0)";
        self.value(sql, [])
    }

    /// Every live session, oldest first.
    pub fn live_sessions(&self) -> Result<Vec<SessionRow>, Error> {
        self.all(select!(SessionRow, "WHERE state = 0 ORDER BY position"), [])
    }

    /// The sessions, live or ended, of processes with this number.
    pub fn sessions_of_pid(&self, pid: u32) -> Result<Vec<SessionRow>, Error> {
        self.all(select!(SessionRow, "WHERE pid = ?1 ORDER BY position"), [pid])
    }

    /// The newest sessions, live or ended.
    pub fn newest_sessions(&self, limit: usize) -> Result<Vec<SessionRow>, Error> {
        self.all(select!(SessionRow, "ORDER BY position DESC LIMIT ?1"), [limit])
    }

    /// A root and every session below it, in the order they started.
    pub fn sessions_below(&self, root: &Session) -> Result<Vec<SessionRow>, Error> {
        self.all(select!(SessionRow, "WHERE root = ?1 ORDER BY position"), [root])
    }

    /// Whether an agent ever had a session in the tree of a root.
    pub fn took_part(&self, root: &Session, agent: &Name) -> Result<bool, Error> {
        self.value("SELECT EXISTS (SELECT 1 FROM sessions WHERE root = ?1 AND agent = ?2)", params![root, agent])
    }

    pub fn insert_session(&mut self, session: &SessionRow) -> Result<(), Error> {
        let process = session.process.as_ref();
        self.execute(
            "INSERT INTO sessions (id, position, at, agent, parent, root, pid, pid_started_ms, pid_place, machine, host,
                   program, worktree, questions, state, ended_at, ended_by, successor)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
            params![
                session.id,
                session.position,
                session.at,
                session.agent,
                session.parent,
                session.root,
                process.map(|process| process.pid),
                process.and_then(|process| process.started_ms),
                process.map_or("", |process| &process.place),
                session.machine,
                session.host,
                session.program,
                session.worktree,
                session.questions,
                session.state,
                session.ended_at,
                session.ended_by,
                session.successor
            ],
        )?;
        self.concern(|| Concern::Agent(session.agent.clone()));
        Ok(())
    }

    /// Makes an ended session live again, with another process.
    pub fn resume_session(&mut self, session: &SessionRow) -> Result<(), Error> {
        let process = session.process.as_ref();
        self.execute(
            "UPDATE sessions SET state = ?2, ended_at = NULL, ended_by = NULL, pid = ?3, pid_started_ms = ?4,
                   pid_place = ?5, machine = ?6, host = ?7, program = ?8, worktree = ?9 WHERE id = ?1",
            params![
                session.id,
                session.state,
                process.map(|process| process.pid),
                process.and_then(|process| process.started_ms),
                process.map_or("", |process| &process.place),
                session.machine,
                session.host,
                session.program,
                session.worktree
            ],
        )?;
        self.concern(|| Concern::Agent(session.agent.clone()));
        Ok(())
    }

    pub fn end_session(&mut self, session: &SessionRow) -> Result<(), Error> {
        update!(self, session, "sessions" SET state, ended_at, ended_by, successor WHERE id)?;
        self.concern(|| Concern::Agent(session.agent.clone()));
        Ok(())
    }

    /// Puts a session in the place of the one it took over from. It inherits the children and, from a root, the whole
    /// tree with its notes.
    pub fn succeed_session(&mut self, before: &SessionRow, successor: &Session) -> Result<(), Error> {
        let root = if before.is_root() { successor } else { &before.root };
        if before.is_root() {
            for sql in
                ["UPDATE sessions SET root = ?2 WHERE root = ?1", "UPDATE session_notes SET root = ?2 WHERE root = ?1"]
            {
                self.execute(sql, params![before.id, successor])?;
            }
            self.execute("UPDATE sessions SET questions = 0 WHERE id = ?1", [&before.id])?;
        }
        self.execute(
            "UPDATE sessions SET parent = ?3 WHERE root = ?1 AND parent = ?2",
            params![root, before.id, successor],
        )
    }

    /// The notes of a root, oldest first.
    pub fn notes_of(&self, root: &Session) -> Result<Vec<NoteRow>, Error> {
        self.all(select!(NoteRow, "WHERE root = ?1 ORDER BY position"), [root])
    }

    /// The note made at a record.
    pub fn note_at(&self, root: &Session, position: Position) -> Result<Option<NoteRow>, Error> {
        self.one(select!(NoteRow, "WHERE root = ?1 AND position = ?2"), params![root, position])
    }

    /// Whether a question of a root has an answer.
    pub fn is_answered(&self, root: &Session, question: u32) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM session_notes WHERE root = ?1 AND question = ?2 AND what = ?3)",
            params![root, question, NoteKind::Answer],
        )
    }

    /// Stores a note. A question takes the next number of its root.
    pub fn insert_note(&mut self, note: &NoteRow) -> Result<(), Error> {
        self.insert(note)?;
        if note.what == NoteKind::Question {
            self.execute("UPDATE sessions SET questions = ?2 WHERE id = ?1", params![note.root, note.question])?;
        }
        Ok(())
    }
}
