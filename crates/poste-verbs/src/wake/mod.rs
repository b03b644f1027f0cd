//! Wakes an idle agent: the ways to reach it, the order in which they are tried, and the outcome of each.
//!
//! A way only says that it was asked: whether the agent heard the ring, only the mark on the mail shows. No way gets
//! any text of a message. What is typed, written or passed on is one fixed line with message numbers.

pub mod coalesce;
mod http;
pub mod limit;
pub mod planner;
mod program;
mod ring;
mod round;
mod socket;
mod tmux;
mod waiter;

use std::path::PathBuf;
use std::time::Duration;

use poste_core::log::{MessageNo, WakeOutcome, WakeWay};
use poste_core::text::Name;
use schemars::JsonSchema;
use serde::Serialize;

pub use planner::{Known, Plan, Way, plan};
pub use ring::{Program, Rung, RungOutcome, Startable, Starter, record};
pub use round::{Answer, PendingRings, WakeRequest, wake};
pub use waiter::{Place, is_waiting};

/// The timeout of one way.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Maximum number of messages that a ring names. The others are only counted.
const NAMED_MAX: usize = 5;

/// One ring of an agent for some mail.
#[derive(Debug, Clone)]
pub struct Ring {
    pub agent: Name,
    /// Most urgent first; never empty.
    pub numbers: Vec<MessageNo>,
    /// The folder in which the user's command runs.
    pub folder: PathBuf,
    pub limit: Duration,
}

impl Ring {
    /// The one line that every way passes on.
    pub fn text(&self) -> String {
        let named: Vec<String> = self.numbers.iter().take(NAMED_MAX).map(|number| format!("#{number}")).collect();
        let more = if self.numbers.len() > NAMED_MAX { ", …" } else { "" };
        let (count, wait) = match self.numbers.len() {
            1 => ("1 message".to_owned(), "waits"),
            count => (format!("{count} messages"), "wait"),
        };
        format!("poste: {count} {wait} ({}{more}); run poste inbox", named.join(", "))
    }
}

/// One way that was tried, and its outcome.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attempt {
    /// The way.
    pub how: WakeWay,
    /// Whether it accepted the request.
    pub outcome: WakeOutcome,
    /// Why it failed; null if it did not.
    pub reason: Option<String>,
}

/// Tries the ways of a plan in order, until one accepts the request. `spawn` starts a program of the agent.
pub fn ring(plan: &Plan, ring: &Ring, spawn: &dyn Fn() -> Result<(), String>) -> Vec<Attempt> {
    let mut attempts = Vec::new();
    for way in &plan.ways {
        let asked = way.ask(ring, spawn);
        let is_asked = asked.is_ok();
        let outcome = if is_asked { WakeOutcome::Requested } else { WakeOutcome::Failed };
        attempts.push(Attempt { how: way.word(), outcome, reason: asked.err().map(|reason| one_line(&reason)) });
        if is_asked {
            return attempts;
        }
    }
    if attempts.is_empty() {
        let reason = Some(plan.why_not.clone());
        attempts.push(Attempt { how: WakeWay::Nothing, outcome: WakeOutcome::Failed, reason });
    }
    attempts
}

impl Way {
    /// Asks, and returns within the limit. The error is the reason it could not ask.
    fn ask(&self, ring: &Ring, spawn: &dyn Fn() -> Result<(), String>) -> Result<(), String> {
        match self {
            // The waiter has heard the bell already.
            Self::Rewake => Ok(()),
            Self::ClaudeSocket { path, token } => socket::write(path, token.as_deref(), &ring.text(), ring.limit),
            Self::CodexQueue { thread } => program::codex_queue(thread, ring),
            Self::OpenCode { url, session, hosts } => http::prompt(url, session, hosts, &ring.text(), ring.limit),
            Self::Tmux { socket, pane, pid } => tmux::type_line(socket, pane, *pid, ring),
            Self::Command { words } => program::command(words, ring),
            Self::Spawn => spawn(),
        }
    }
}

/// Shortens the output of a program to one line for the record.
fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it did not say why");
    line.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(CHARS_MAX).collect()
}

/// Whether an id of another program is safe in an argument and in a URL.
fn is_plain(id: &str) -> bool {
    let fits = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_' | '.');
    (1..=128).contains(&id.len()) && id.starts_with(|sign: char| sign.is_ascii_alphanumeric()) && id.chars().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_becomes_one_line() {
        assert_eq!(one_line("\n  first\u{1b}[31m\nsecond"), "first [31m");
        assert_eq!(one_line(""), "it did not say why");
        assert_eq!(one_line(&"x".repeat(1_000)).len(), 200);
        for bad in ["", "-x", "../up", "a b", "a/b", "ü", &"x".repeat(129)] {
            assert!(!is_plain(bad), "{bad:?}");
        }
        assert!(is_plain("0198f2-ab_c.d"));
    }
}
