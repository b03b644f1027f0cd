//! Waking an idle agent: which ways there are to it, in which order they are tried, and what came of each.
//!
//! A way never tells more than that it was asked: whether anybody heard the ring, only the mark on the mail can say. No way
//! gets a word of a message. What is typed, written or passed on is one fixed line with numbers in it.

pub mod coalesce;
mod http;
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
pub use round::{Answer, Asked, Later, wake};
pub use waiter::{Place, is_waiting};

/// How long one way may take.
pub const LIMIT: Duration = Duration::from_secs(5);

/// Numbers a ring names; the others it counts.
const NAMED_MAX: usize = 5;

/// One ring: for whom, and for which mail.
#[derive(Debug, Clone)]
pub struct Ring {
    pub agent: Name,
    /// The most urgent first; never empty.
    pub numbers: Vec<MessageNo>,
    /// Where a command of the user's runs.
    pub folder: PathBuf,
    pub limit: Duration,
}

impl Ring {
    /// The one line that any way passes on.
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

/// What came of one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attempt {
    pub how: WakeWay,
    pub outcome: WakeOutcome,
    pub reason: Option<String>,
}

/// Tries the ways of a plan in their order, until one could be asked. How a program is started, the caller knows.
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
    /// Asks, and comes back within the limit. The error is the reason it could not be asked.
    fn ask(&self, ring: &Ring, spawn: &dyn Fn() -> Result<(), String>) -> Result<(), String> {
        match self {
            // It heard the bell, as every waiter does.
            Self::Rewake => Ok(()),
            Self::ClaudeSocket { path, token } => socket::write(path, token.as_deref(), &ring.text(), ring.limit),
            Self::CodexQueue { thread } => program::codex_queue(thread, ring),
            Self::OpenCode { url, session, hosts } => http::prompt(url, session, hosts, &ring.text(), ring.limit),
            Self::Tmux { socket, pane, pid } => tmux::type_line(socket, pane, *pid, &ring.text(), ring.limit),
            Self::Command { words } => program::command(words, ring),
            Self::Spawn => spawn(),
        }
    }
}

/// What is written down fits a line, whatever a program printed.
fn one_line(text: &str) -> String {
    const CHARS_MAX: usize = 200;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it did not say why");
    line.chars().map(|sign| if sign.is_control() { ' ' } else { sign }).take(CHARS_MAX).collect()
}

/// A name for something inside another program, which it is handed as an argument or in an address.
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
