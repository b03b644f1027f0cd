//! Serves the hooks of agent programs: reads what a program writes to them, and answers in the form it expects.
//!
//! Each program has its own names for the same few moments. [`attend`] serves one and brings mail to the session.

mod answer;
mod bind;
mod broken;
mod end;
mod event;
mod news;
mod serve;
mod start;
mod stop;
mod wait;

pub use answer::{Reply, takes_context, written};
pub use event::{Event, Source, read};
pub use serve::{Streams, attend};
pub use wait::WAKE;

use std::fmt;
use std::str::FromStr;

/// When a hook runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A session began, was resumed, cleared or compacted.
    SessionStart,
    /// The session got a prompt.
    Prompt,
    /// A tool was used.
    Tool,
    /// The session is about to stop.
    Stop,
    SessionEnd,
    /// Not an event of the program: a background hook that waits for a reason to wake the session.
    Wait,
}

impl Moment {
    pub const ALL: [Self; 6] = [Self::SessionStart, Self::Prompt, Self::Tool, Self::Stop, Self::SessionEnd, Self::Wait];

    /// The word on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::SessionStart => "session-start",
            Self::Prompt => "prompt",
            Self::Tool => "tool",
            Self::Stop => "stop",
            Self::SessionEnd => "session-end",
            Self::Wait => "wait",
        }
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no hook {0:?}; the hooks are session-start, prompt, tool, stop, session-end and wait")]
pub struct UnknownMoment(String);

impl FromStr for Moment {
    type Err = UnknownMoment;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|moment| moment.word() == text).ok_or_else(|| UnknownMoment(text.to_owned()))
    }
}
