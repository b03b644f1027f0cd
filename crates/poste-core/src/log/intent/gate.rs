//! Gates: the results of checks on a claimed message, before its holder may continue.

use serde::{Deserialize, Serialize};

use crate::log::{MessageNo, Position};
use crate::text::Label;

/// The gates of a message were run under a claim. The content says what each of them found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateResult {
    pub message: MessageNo,
    /// The claim that the gates were run under.
    pub token: Position,
    /// Every gate passed.
    pub passed: bool,
    pub gates: Vec<GateVerdict>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateVerdict {
    pub name: Label,
    pub passed: bool,
}
