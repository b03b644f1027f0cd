//! Handoffs: work that goes from one agent to another, with everything it needs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::log::MessageNo;

/// Offers a package of work. Its number is the number of its message; its text is the content.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffCreate {
    /// Of type `handoff_request`, to one agent or group, with its files attached.
    pub mail: Send,
    /// The folder that the file paths are relative to. Stored once, because a handoff may have a thousand files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// Number of checks the receiver must make …
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checks: u32,
    /// … and number of commands that must succeed. The content says which.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub verifies: u32,
}

/// The receiver takes over the work. The mail ends its own delivery of the request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffAccept {
    pub mail: Send,
    /// The checks that were made, counted from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub checked: Vec<u32>,
    /// The result of each command, in the order of the package. Empty if none was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<Verified>,
    /// The result of each of the receiver's gates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Verified>,
    /// The receiver accepts although something is missing or failed. The content says why.
    #[serde(default, skip_serializing_if = "is_false")]
    pub overridden: bool,
}

/// The result of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verified {
    pub ok: bool,
    /// None: it was ended by a signal, or never started.
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
}

/// The receiver rejects the work. The content says why.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffReject {
    pub mail: Send,
}

/// The sender or a human withdraws the offer. The content says why.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandoffWithdraw {
    pub message: MessageNo,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}
