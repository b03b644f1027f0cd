//! The agent programs that Poste supports.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    ClaudeCode,
    Codex,
    Gemini,
    #[serde(rename = "opencode")]
    OpenCode,
    Cursor,
}

impl Program {
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::Codex, Self::Gemini, Self::OpenCode, Self::Cursor];

    /// The name as typed and stored.
    pub fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::OpenCode => "opencode",
            Self::Cursor => "cursor",
        }
    }

    /// The product name.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::Codex => "Codex",
            Self::Gemini => "Gemini CLI",
            Self::OpenCode => "OpenCode",
            Self::Cursor => "Cursor",
        }
    }

    /// The variable that tells hooks the project folder.
    pub fn project_variable(self) -> Option<&'static str> {
        match self {
            Self::ClaudeCode => Some("CLAUDE_PROJECT_DIR"),
            Self::Gemini => Some("GEMINI_PROJECT_DIR"),
            Self::Cursor => Some("CURSOR_PROJECT_DIR"),
            Self::Codex | Self::OpenCode => None,
        }
    }

    /// Whether one process runs several conversations at the same time. The others run one after the other.
    pub fn has_many_conversations(self) -> bool {
        matches!(self, Self::OpenCode | Self::Cursor)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown agent program {0:?}; supported are claude-code, codex, gemini, opencode and cursor")]
pub struct UnknownProgram(String);

impl FromStr for Program {
    type Err = UnknownProgram;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|program| program.word() == text).ok_or_else(|| UnknownProgram(text.to_owned()))
    }
}
