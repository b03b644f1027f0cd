//! Running sessions of agents, and the notes made in them.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::text::{Name, Session};
use crate::vocabulary::worded_enum;

/// From now on the actor runs as this session. The content is the goal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionStart {
    pub id: Session,
    /// The process whose lifetime bounds the session, if one was named.
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
    /// The session ran before under this id and continues in its former place: agent programs resume sessions that had
    /// ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub resumes: bool,
}

/// A process, identified so that another one with the same pid is not mistaken for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionProcess {
    pub pid: u32,
    /// Start time of the process, in milliseconds since that boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_ms: Option<i64>,
    /// Identifies machine, boot and pid namespace; empty when unknown.
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

/// A note for everyone in the session. The content is the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionNote {
    /// Any session of the tree; the note is kept at its root.
    pub session: Session,
    pub what: NoteKind,
    /// The question that an answer is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<u32>,
    /// The agent that was invoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
}

/// Ends a session. The content is its summary.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionClose {
    pub session: Session,
    /// Its claims stay held until their leases run out, instead of being released.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_claims: bool,
    /// Notifies the agents whose sessions below it continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}
