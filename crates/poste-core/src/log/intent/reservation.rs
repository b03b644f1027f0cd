//! Paths that are reserved, kept longer, and freed.

use serde::{Deserialize, Serialize};

use super::{Send, is_false};
use crate::pattern::Pattern;
use crate::text::Name;

/// Paths an agent works on for a while. The content says what for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reserve {
    pub patterns: Vec<Pattern>,
    pub for_ms: i64,
    /// Others may share them, too; nobody may have them alone.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shared: bool,
}

/// Reserved paths are free again before their time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unreserve {
    /// As they were reserved; none named, all of them.
    pub patterns: Vec<Pattern>,
    /// Whose: otherwise the speaker's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Name>,
    /// Of another one's: the message that tells them, whose text is the record's content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mail: Option<Send>,
}

/// Reserved paths are kept longer: their time counts anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prolong {
    /// As they were reserved; none named, all of them.
    pub patterns: Vec<Pattern>,
    pub for_ms: i64,
}
