//! Rules that tell people of mail: who sees to one, how far it has come, and what could not be told.

use serde::{Deserialize, Serialize};

use super::Send;
use crate::log::{MessageNo, Position};
use crate::text::Label;
use crate::vocabulary::worded_enum;

/// One process at a time sees to a rule. The position of this record is its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerTake {
    pub rule: Label,
    pub lease_ms: i64,
    /// Of the lease that is to be kept longer; without it, one is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
    /// What was stored up to here does not concern the rule. Only of one that nobody took before; otherwise it begins
    /// with the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Position>,
}

/// Everything up to here was seen to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerCursor {
    pub rule: Label,
    pub token: Position,
    pub position: Position,
}

/// Every attempt to tell of a message failed. The content says why the last one did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerDead {
    pub rule: Label,
    pub token: Position,
    pub message: MessageNo,
    pub attempts: u32,
    /// The alert that says so, whose text is the record's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// Somebody else may see to the rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerRelease {
    pub rule: Label,
    pub token: Position,
}

/// A message that could not be told of no longer waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerSettle {
    pub rule: Label,
    pub message: MessageNo,
    pub how: Settling,
    /// Whoever tells of it holds the rule; whoever drops it need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
}

worded_enum!(
    /// What became of a message that could not be told of.
    Settling { Sent = 0 "sent", Dropped = 1 "dropped" }
);
