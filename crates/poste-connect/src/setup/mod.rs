//! Connects agent programs to Poste: which files get which entries, how they are added and removed without touching
//! anything else, and whether the result works.

pub mod files;
pub mod json;
mod lines;
mod ours;
pub mod plugin;
pub mod programs;
pub mod proof;
mod seal;
mod section;
pub mod site;
pub mod texts;
pub mod toml;
pub mod work;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::shell;

/// Whether to set up one project, or everything the user works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Project,
    User,
}

impl Scope {
    pub fn word(self) -> &'static str {
        match self {
            Self::Project => "project",
            Self::User => "user",
        }
    }
}

/// The variables that name the agent and the office of a process.
const AGENT: &str = "POSTE_AGENT";
const HOME: &str = "POSTE_HOME";

/// How a program's settings call Poste.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// `poste`, or its full path if `PATH` does not lead to it.
    pub poste: String,
    /// The agent of every session; `None`: each session chooses its own.
    pub agent: Option<String>,
    /// The office, if searching upward does not find it.
    pub office: Option<String>,
}

impl Invocation {
    /// The variables of the server and the hooks.
    pub fn environment(&self) -> Vec<(&'static str, &str)> {
        let agent = self.agent.as_deref().map(|agent| (AGENT, agent));
        let office = self.office.as_deref().map(|office| (HOME, office));
        agent.into_iter().chain(office).collect()
    }

    /// The command line of a hook.
    pub fn hook(&self, event: &str, program: poste_verbs::program::Program) -> String {
        let set = self.environment().into_iter().map(|(name, value)| format!("{name}={} ", shell::word(value)));
        format!("{}{} hook {event} --program {program}", set.collect::<String>(), shell::word(&self.poste))
    }
}

/// A file, and what Poste adds to it.
#[derive(Debug, Clone)]
pub struct Target {
    pub path: PathBuf,
    pub what: What,
    /// The folder that its links must not lead out of.
    pub below: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Json(Vec<json::Edit>),
    Toml(toml::Edit),
    /// A section of a Markdown file, which several programs may share.
    Section(String),
    /// The whole file.
    Whole(String),
    /// The whole file, with a sum that shows changes by hand. A changed file is left alone.
    Sealed(String),
}

/// Why a file cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub why: String,
    pub hint: Option<String>,
    /// There is a file or an entry that is not Poste's.
    pub is_conflict: bool,
}

impl Fault {
    pub fn malformed(why: impl Into<String>) -> Self {
        Self { why: why.into(), hint: None, is_conflict: false }
    }

    pub fn conflict(why: impl Into<String>) -> Self {
        Self { is_conflict: true, ..Self::malformed(why) }
    }

    fn foreign(group: &str, found: &serde_json::Value) -> Self {
        let words = ours::server_words(found);
        let starts = match words.first() {
            // Arguments may hold secrets.
            Some(command) => format!("starts {command:?}"),
            None => "starts no command".to_owned(),
        };
        Self::conflict(format!("has an entry {group}.{} that is not Poste's: it {starts}", json::SERVER))
            .hint("rename or remove that entry, and set up again")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
