//! Running sessions of agents, and what is noted in them.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::text::{Name, Session};
use crate::vocabulary::worded_enum;

/// The actor runs from now on as this session. The content is the goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStart {
    pub id: Session,
    /// The process it lives and dies with, if one was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<SessionProcess>,
    pub host: String,
    pub program: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The session on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Session>,
    /// The live session of the same agent that this one ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub takes_over: Option<Session>,
    /// It ran before under this id, and goes on where it stood: programs of agents resume what they had ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resumes: bool,
}

/// A process, so that nobody takes another one with the same number for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionProcess {
    pub pid: u32,
    /// When it started, in milliseconds since that boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// Which boot of which machine, and which space of process numbers in it; empty when that is not known.
    pub place: String,
}

worded_enum!(
    /// What a note of a session says.
    NoteKind {
        Goal = 0 "goal",
        Decision = 1 "decision",
        Question = 2 "question",
        Answer = 3 "answer",
        /// An agent was invoked.
        Agent = 4 "agent",
        Note = 5 "note",
    }
);

/// Something for everybody in the session to know. The content is the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionNote {
    /// Any session of the tree; the note is kept at its root.
    pub session: Session,
    pub what: NoteKind,
    /// The question an answer is to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u32>,
    /// The agent that was invoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
}

/// A session is over. The content is its summary.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionClose {
    pub session: Session,
    /// Its claims stay held until their leases run out, instead of going back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_claims: bool,
    /// Tells those whose sessions below it go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}
