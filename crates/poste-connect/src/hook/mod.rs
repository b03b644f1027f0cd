//! The hooks of agent programs: what a program tells at each moment, and what it understands as an answer.
//!
//! Each program has words of its own for the same few moments. [`attend`] serves one of them: it brings mail to the session.

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
    /// Somebody gave it something to do.
    Prompt,
    /// A tool was used.
    Tool,
    /// It is about to stop working.
    Stop,
    SessionEnd,
    /// None of the program's: a hook that stays in the background until there is a reason to wake the session.
    Wait,
}

impl Moment {
    pub const ALL: [Self; 6] = [Self::SessionStart, Self::Prompt, Self::Tool, Self::Stop, Self::SessionEnd, Self::Wait];

    /// As it is typed.
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
#[error("there is no hook {0:?}; there are session-start, prompt, tool, stop, session-end and wait")]
pub struct UnknownMoment(String);

impl FromStr for Moment {
    type Err = UnknownMoment;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|moment| moment.word() == text).ok_or_else(|| UnknownMoment(text.to_owned()))
    }
}
