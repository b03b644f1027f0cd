//! Notification rules: which process holds one, how far it got, and which notifications failed.

use serde::{Deserialize, Serialize};

use super::Send;
use crate::log::{MessageNo, Position};
use crate::text::Label;
use crate::vocabulary::worded_enum;

/// Takes the lease on a rule, which one process holds at a time. The position of this record is its token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerTake {
    pub rule: Label,
    pub lease_ms: i64,
    /// The token of a lease to extend; without it, a new lease is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
    /// The rule starts after this position. Only used if the rule was never taken before; without it, such a rule
    /// starts at the end of the log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Position>,
}

/// Everything up to this position was processed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerCursor {
    pub rule: Label,
    pub token: Position,
    pub position: Position,
}

/// Every attempt to notify people of a message failed. The content says why the last one did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerDead {
    pub rule: Label,
    pub token: Position,
    pub message: MessageNo,
    pub attempts: u32,
    /// The alert about the failure. Its text is the record's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// Releases the lease, so that another process may take the rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerRelease {
    pub rule: Label,
    pub token: Position,
}

/// A failed notification no longer waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HandlerSettle {
    pub rule: Label,
    pub message: MessageNo,
    pub how: Settling,
    /// To record it as sent, the process must hold the rule. To drop it, it need not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
}

worded_enum!(
    /// How a failed notification was settled.
    Settling { Sent = 0 "sent", Dropped = 1 "dropped" }
);
