//! The content of handoffs: packages and answers, and how people read them.
//!
//! The fold never sees any of this. The payload of the message is one of these objects, and its body the same content
//! as Markdown.

mod markdown;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::log::{Content, HandoffAccept, HandoffReject, MessageNo, Send, Verified};
use crate::store::artifact::FileProblem;
use crate::views::HandoffView;

use crate::escape::plain;

/// A package of work, without its files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Package {
    /// The work to do.
    pub task: String,
    /// What is already done.
    #[serde(default)]
    pub completed: Vec<String>,
    #[serde(default)]
    pub background: Option<String>,
    /// Shared contexts to read.
    #[serde(default)]
    pub contexts: Vec<ContextLink>,
    /// What to do next.
    #[serde(default)]
    pub next: Vec<String>,
    /// Known problems.
    #[serde(default)]
    pub issues: Vec<String>,
    #[serde(default)]
    pub questions: Vec<String>,
    /// What the receiver must check, counted from 1.
    #[serde(default)]
    pub checks: Vec<String>,
    /// Commands that must succeed in the receiver's worktree.
    #[serde(default)]
    pub verify: Vec<VerifyCommand>,
}

/// A shared context, as it was when the package was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextLink {
    pub name: String,
    /// `None` if there was no such context.
    #[serde(default)]
    pub version: Option<u64>,
}

/// A command that another agent wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyCommand {
    /// The program and its arguments; for a shell, one line.
    pub argv: Vec<String>,
    #[serde(default)]
    pub shell: bool,
    pub timeout_ms: u64,
}

/// The result of a command or a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunResult {
    /// The command, or the name of the gate.
    pub what: String,
    pub ok: bool,
    #[serde(default)]
    pub exit_code: Option<i32>,
    pub duration_ms: u64,
    /// How it ended, in a few words.
    pub end: String,
    /// Its output; only the end if it is long.
    #[serde(default)]
    pub output: String,
}

/// The answer to a handoff.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HandoffAnswer {
    pub handoff: MessageNo,
    /// The receiver's remarks, or the reason for a rejection.
    #[serde(default)]
    pub notes: Option<String>,
    /// The checks that were made, counted from 1.
    #[serde(default)]
    pub checked: Vec<u32>,
    #[serde(default)]
    pub verified: Vec<RunResult>,
    /// The receiver's own gates.
    #[serde(default)]
    pub gates: Vec<RunResult>,
    /// Files that had changed before the handoff was accepted. Their copies are unchanged.
    #[serde(default)]
    pub changed: Vec<FileProblem>,
    /// Why it was accepted although something is missing or failed.
    #[serde(default)]
    pub overridden: Option<String>,
}

impl VerifyCommand {
    /// The command as one line, for people to read.
    pub fn line(&self) -> String {
        match self.shell {
            true => format!("sh -c {}", shell_words(&self.argv)),
            false => shell_words(&self.argv),
        }
    }
}

/// Words as one line that a shell would split into the same words.
fn shell_words(words: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    let quoted = words.iter().map(|word| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

impl Package {
    /// The first line of the task, for a listing.
    pub fn title(&self) -> String {
        let first = self.task.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        plain(first.trim())
    }

    pub fn content(&self, subject: String) -> Content {
        content(subject, markdown::package(self), self)
    }

    /// The package in the payload of its message.
    pub fn of(payload: Option<&str>) -> Option<Self> {
        serde_json::from_str(payload?).ok()
    }
}

impl RunResult {
    fn verdict(&self) -> Verified {
        Verified { ok: self.ok, exit_code: self.exit_code, duration_ms: self.duration_ms }
    }
}

impl HandoffAnswer {
    pub fn of(payload: Option<&str>) -> Option<Self> {
        serde_json::from_str(payload?).ok()
    }

    /// The record and content of an acceptance.
    pub fn accept(&self, mail: Send, package: &Package, subject: String) -> (HandoffAccept, Content) {
        let header = HandoffAccept {
            mail,
            checked: self.checked.clone(),
            verified: self.verified.iter().map(RunResult::verdict).collect(),
            gates: self.gates.iter().map(RunResult::verdict).collect(),
            overridden: self.overridden.is_some(),
        };
        (header, content(subject, markdown::answer(self, Some(package)), self))
    }

    pub fn reject(&self, mail: Send, subject: String) -> (HandoffReject, Content) {
        (HandoffReject { mail }, content(subject, markdown::answer(self, None), self))
    }
}

fn content<T: Serialize>(subject: String, body: String, payload: &T) -> Content {
    let payload = serde_json::value::to_raw_value(payload).expect("plain data always encodes");
    Content { subject, body: body.as_str().into(), payload: Some(payload), ..Content::default() }
}

/// The texts of a package folder, by name. They depend only on the log, not on when or where they are written.
pub fn documents(view: &HandoffView) -> Vec<(&'static str, String)> {
    let metadata = serde_json::to_string_pretty(view).expect("plain data always encodes");
    vec![
        ("HANDOFF.md", markdown::handoff(view)),
        ("metadata.json", metadata + "\n"),
        ("context-links.md", markdown::contexts(view)),
        ("acceptance-checklist.md", markdown::checklist(view)),
    ]
}
