//! Agreements: a party agrees on a proposal.

use serde::{Deserialize, Serialize};

use super::Send;
use crate::log::MessageNo;

/// The actor agrees on a proposal. The mail is the reply that announces it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agree {
    pub message: MessageNo,
    pub mail: Send,
}
