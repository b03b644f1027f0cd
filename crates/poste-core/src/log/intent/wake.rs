//! Waking: attempts to make an idle agent look at its mail.

use serde::{Deserialize, Serialize};

use crate::log::MessageNo;
use crate::text::Name;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// The way by which an agent was to be woken.
    WakeWay {
        /// A waiter of the session's own program heard the bell.
        Rewake = 0 "rewake",
        /// The inbox socket of a Claude Code session.
        ClaudeSocket = 1 "claude-socket",
        CodexQueue = 2 "codex-queue",
        OpenCode = 3 "opencode",
        /// Typed into the pane it runs in.
        Tmux = 4 "tmux",
        /// A command of the user's.
        Command = 5 "command",
        /// A new session was started for it.
        Spawn = 6 "spawn",
        /// There was no way to reach it.
        Nothing = 7 "none",
    }
);

worded_enum!(
    /// The outcome of an attempt. Only a mark shows that mail was seen.
    WakeOutcome { Requested = 0 "requested", Failed = 1 "failed" }
);

/// An attempt to wake a recipient of a message. The content says why it failed, or gives other details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wake {
    pub message: MessageNo,
    /// The agent to wake.
    pub agent: Name,
    pub how: WakeWay,
    pub outcome: WakeOutcome,
}
