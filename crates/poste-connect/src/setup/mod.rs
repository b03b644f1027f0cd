//! What each agent program has to be told so that it finds Poste: which files get which entries, how they get there without
//! touching anything else, how they are taken out again, and whether it then works.

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

/// Whether one project is set up, or everything its user works on.
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

/// Whom a process speaks for, and in which office.
const AGENT: &str = "POSTE_AGENT";
const HOME: &str = "POSTE_HOME";

/// How Poste is called from a program's settings.
#[derive(Debug, Clone)]
pub struct Invocation {
    /// `poste`, or where it is when no `PATH` leads to it.
    pub poste: String,
    /// Whom every session speaks for; without it each says so itself.
    pub agent: Option<String>,
    /// The office, where it is not the nearest one upward.
    pub office: Option<String>,
}

impl Invocation {
    /// What the server and the hooks find in their environment.
    pub fn environment(&self) -> Vec<(&'static str, &str)> {
        let agent = self.agent.as_deref().map(|agent| (AGENT, agent));
        let office = self.office.as_deref().map(|office| (HOME, office));
        agent.into_iter().chain(office).collect()
    }

    /// A hook, as a command line.
    pub fn hook(&self, event: &str, program: poste_verbs::program::Program) -> String {
        let set = self.environment().into_iter().map(|(name, value)| format!("{name}={} ", shell::word(value)));
        format!("{}{} hook {event} --program {program}", set.collect::<String>(), shell::word(&self.poste))
    }
}

/// One file, and what of Poste's belongs into it.
#[derive(Debug, Clone)]
pub struct Target {
    pub path: PathBuf,
    pub what: What,
    /// The folder it must not lead out of, by whatever links.
    pub below: Option<PathBuf>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum What {
    Json(Vec<json::Edit>),
    Toml(toml::Edit),
    /// A section of a Markdown file, which several programs may share.
    Section(String),
    /// All of it.
    Whole(String),
    /// All of it, with a sum that shows whether somebody changed it by hand. Then it is left to them.
    Sealed(String),
}

/// Why a file cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub why: String,
    pub hint: Option<String>,
    /// Something is there that is somebody else's.
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
            // Arguments may be somebody's secrets.
            Some(command) => format!("starts {command:?}"),
            None => "starts no command".to_owned(),
        };
        Self::conflict(format!("has an entry {group}.{} that is not Poste's: it {starts}", json::SERVER))
            .hint("rename that entry, or remove it, and set up again")
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}
