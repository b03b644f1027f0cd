//! Handoffs: work that goes from one agent to another, with everything it needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::log::MessageNo;

/// A package of work is offered. Its number is that of its message; its words are the content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffCreate {
    /// Of the type `handoff_request`, to one agent or group, with its files attached.
    pub mail: Send,
    /// The folder the paths of the files are of. Said once, for a thousand files would say it a thousand times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// How many things the receiver has to check …
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checks: u32,
    /// … and how many commands have to succeed. What they are, the content says.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verifies: u32,
}

/// The receiver takes the work over. The mail ends its own delivery of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffAccept {
    pub mail: Send,
    /// Which of the checks were made, counted from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<u32>,
    /// What became of each command, in the order of the package. Empty when none was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Verified>,
    /// What became of each gate of the receiver.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Verified>,
    /// Something is missing or failed, and the receiver takes it all the same. The content says why.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overridden: bool,
}

/// What became of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    pub ok: bool,
    /// None: it was ended by a signal, or never began.
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
}

/// The receiver does not take it. The content says why.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffReject {
    pub mail: Send,
}

/// The sender, or a human, takes the offer back. The content says why.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffWithdraw {
    pub message: MessageNo,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
