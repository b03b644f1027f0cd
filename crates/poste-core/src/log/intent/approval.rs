//! Approvals: a message with choices, and the choice that was made.

use serde::{Deserialize, Serialize};

use super::Send;
use crate::text::Word;
use crate::time::When;

/// A question or a plan that waits for a decision. Its number is the number of its message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAsk {
    pub mail: Send,
    /// The possible answers, in the order offered. The first one approves.
    pub choices: Vec<Word>,
    /// The decision if no one answers by the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<When>,
}

/// The decision, which is also a reply to the question: `mail.reply_to` names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    pub mail: Send,
    pub choice: Word,
}
