//! Runs: a dispatcher starts an agent's program for its mail.

use serde::{Deserialize, Serialize};

use super::{Send, SessionProcess};
use crate::log::MessageNo;
use crate::text::{Name, Session};
use crate::time::When;
use crate::vocabulary::worded_enum;

/// The actor's program is about to be started, in a session named like the run. The run claims those of these messages
/// that can be claimed. Without messages, it is started to look through its inbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunStart {
    pub run: Session,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<MessageNo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    /// How many runs of the agent may be in progress at once, including this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// What is run, in one word: the preset or the name of the program.
    pub runner: String,
    pub host: String,
    /// The process that supervises the run and keeps its claims alive.
    pub supervisor: SessionProcess,
}

worded_enum!(
    /// How a run ended. The outcome of its messages is in their deliveries.
    RunOutcome {
        Exited = 0 "exited",
        /// By a signal that Poste did not send.
        Signalled = 1 "signalled",
        TimedOut = 2 "timed_out",
        /// Another agent has the work now, so the program was stopped.
        LeaseLost = 3 "lease_lost",
        /// It was stopped on request.
        Stopped = 4 "stopped",
        NotStarted = 5 "not_started",
        /// Its supervisor died; its remaining processes were stopped.
        Lost = 6 "lost",
        /// It exited successfully but left work undone.
        Unanswered = 7 "unanswered",
    }
);

/// A run ended. The content is the last of its output, and the location of its transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEnd {
    pub run: Session,
    pub how: RunOutcome,
    /// The exit code or the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<u8>,
    pub took_ms: u64,
    /// The cost it reported, in millionths of a dollar.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_micros: Option<u64>,
}

worded_enum!(
    /// Why an agent is not started.
    HoldReason {
        /// The chain of runs that led to the message is too long.
        Hops = 0 "hops",
        /// The budget of runs, minutes or costs is used up.
        Budget = 1 "budget",
        /// Too many starts in a short time.
        Rate = 2 "rate",
        /// The same failure repeats.
        Failing = 3 "failing",
        /// Its configuration does not allow a start.
        Misconfigured = 4 "misconfigured",
        /// It was stopped, until it is resumed.
        Stopped = 5 "stopped",
    }
);

impl HoldReason {
    /// Whether a limit that people set was reached.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::Hops | Self::Budget | Self::Rate)
    }
}

/// Holds runs for one message of the actor, or all of its runs, until a time or until the hold is lifted. The mail
/// notifies the agents concerned; the content is its text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunHold {
    /// Another agent to stop; by default the actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageNo>,
    pub why: HoldReason,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<When>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// Lifts holds, so that runs may be started again. The content is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResume {
    pub agent: Name,
    /// Only the hold on this message; by default all holds of the agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageNo>,
    /// Only holds with this reason. Without a message, only the hold on the agent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<HoldReason>,
}
