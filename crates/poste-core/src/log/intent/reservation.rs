//! Reserving paths, extending and releasing reservations.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::pattern::Pattern;
use crate::text::Name;

/// Reserves paths that an agent works on for a while. The content says what for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    pub patterns: Vec<Pattern>,
    pub for_ms: i64,
    /// Other agents may reserve them as shared too, but not exclusively.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

/// Releases reserved paths early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreserve {
    /// The patterns as they were reserved. Empty means all of them.
    pub patterns: Vec<Pattern>,
    /// The agent that holds them; by default the actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Name>,
    /// For another agent's paths: the message that notifies it, whose text is the record's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// Extends reservations: their time starts over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prolong {
    /// The patterns as they were reserved. Empty means all of them.
    pub patterns: Vec<Pattern>,
    pub for_ms: i64,
}
