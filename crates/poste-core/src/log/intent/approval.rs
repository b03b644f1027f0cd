//! Questions somebody must decide: a message with choices, and the choice that was made.

use serde::{Deserialize, Serialize};

use super::Send;
use crate::text::Word;
use crate::time::When;

/// A question or a plan that waits for a decision. Its number is that of the message.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAsk {
    pub mail: Send,
    /// What may be answered, in the order it was offered. The first one is the approving one.
    pub choices: Vec<Word>,
    /// What is decided when nobody answers by the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<When>,
}

/// The decision, and a reply to the question at the same time: `mail.reply_to` names it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    pub mail: Send,
    pub choice: Word,
}
