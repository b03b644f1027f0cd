//! Gates: checks that a message must pass before work on it begins.
//!
//! Gates are configured on this machine (`poste.toml`, `.poste/local.toml`) and are in no record. The claiming process
//! runs them outside every lock, and only their verdicts go into the log. This module decides which gates apply and
//! what their findings mean; commands are run by a [`Runner`] of the surface.

mod check;
mod report;

use std::path::{Path, PathBuf};

pub use check::{Errand, Ran, Runner, Scene, pattern_of, run, schema_problems};
pub use report::{CheckReport, GateReport, Report};

use crate::limits;
use crate::payload::SchemaSource;
use crate::store::discover;
use crate::text::{Label, TypeName};
use crate::views::MessageView;

/// One `[[gate]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub name: Label,
    /// The messages it applies to: those that match every one of these that is set.
    pub kind: Option<TypeName>,
    pub workflow: Option<Label>,
    pub step: Option<Label>,
    /// Requirements for each artifact.
    pub exists: bool,
    pub not_empty: bool,
    pub digest: bool,
    pub size_min: Option<u64>,
    pub size_max: Option<u64>,
    pub name_matches: Option<String>,
    pub artifact_schema: Option<SchemaSource>,
    pub payload_schema: Option<SchemaSource>,
    pub program: Option<Program>,
    pub timeout_ms: i64,
    /// The file that defines it.
    pub source: Source,
    pub line: usize,
}

/// The command of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// A program and its arguments, without a shell. Filling in a template never splits a word.
    Words(Vec<String>),
    /// A line for `/bin/sh`, passed unchanged. Values are in environment variables.
    Shell(String),
}

/// The file a gate comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// `poste.toml`, which comes with a repository.
    Office,
    /// `.poste/local.toml`, which is local to this machine. An archive may bring it too.
    Machine,
}

impl Source {
    pub fn file(self) -> &'static str {
        match self {
            Self::Office => discover::CONFIG_FILE,
            Self::Machine => discover::LOCAL_CONFIG_FILE,
        }
    }
}

/// Each template in the words of a command, and the environment variable with the same value.
pub const TEMPLATES: [(&str, &str); 3] = [ARTIFACT, ("{number}", "POSTE_NUMBER"), WORKTREE];
const ARTIFACT: (&str, &str) = ("{artifact}", "POSTE_ARTIFACT");
const WORKTREE: (&str, &str) = ("{worktree}", "POSTE_WORKTREE");

/// A gate of a workflow applies to all of its runs, which are named after it with a number.
fn is_one_of(workflow: &Label, name: &Label) -> bool {
    let number = workflow.as_str().strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix('-'));
    workflow == name
        || number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Gate {
    pub fn applies(&self, kind: &TypeName, workflow: Option<&Label>, step: Option<&Label>) -> bool {
        self.kind.as_ref().is_none_or(|own| own == kind)
            && self.workflow.as_ref().is_none_or(|own| workflow.is_some_and(|workflow| is_one_of(workflow, own)))
            && self.step.as_ref().is_none_or(|own| Some(own) == step)
    }

    pub fn checks_something(&self) -> bool {
        self.asks_of_artifacts() || self.payload_schema.is_some() || self.program.is_some()
    }

    /// Whether any check is about artifacts. Then there must be at least one.
    fn asks_of_artifacts(&self) -> bool {
        self.exists
            || self.not_empty
            || self.digest
            || self.size_min.is_some()
            || self.size_max.is_some()
            || self.name_matches.is_some()
            || self.artifact_schema.is_some()
            || self.program.as_ref().is_some_and(Program::is_for_each_artifact)
    }

    /// The built-in gate for messages without gates: the artifacts exist and are unchanged.
    fn of_artifacts() -> Self {
        Self {
            name: "artifacts".parse().expect("a label"),
            kind: None,
            workflow: None,
            step: None,
            exists: true,
            not_empty: false,
            digest: true,
            size_min: None,
            size_max: None,
            name_matches: None,
            artifact_schema: None,
            payload_schema: None,
            program: None,
            timeout_ms: limits::GATE_TIMEOUT_MS_DEFAULT,
            source: Source::Machine,
            line: 0,
        }
    }
}

impl Program {
    /// Whether it mentions the artifact, so that it runs once for each.
    fn is_for_each_artifact(&self) -> bool {
        self.mentions(ARTIFACT)
    }

    fn mentions(&self, (template, variable): (&str, &str)) -> bool {
        match self {
            Self::Words(words) => words.iter().any(|word| word.contains(template)),
            Self::Shell(line) => line.contains(variable),
        }
    }

    /// The command as one line, for people to read.
    pub fn text(&self) -> String {
        match self {
            Self::Words(words) => words.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" "),
            Self::Shell(line) => format!("sh -c {}", shown(line)),
        }
    }
}

/// A word, quoted for a shell.
fn shown(word: &str) -> String {
    let plain = |sign: char| sign.is_alphanumeric() || "-_./:=,+@%{}".contains(sign);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// All gates of an office, as configured at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gates {
    pub gates: Vec<Gate>,
    /// The files whose exact text, as it was read, is trusted on this machine.
    pub trusted: Vec<Source>,
}

impl Gates {
    pub fn of(&self, kind: &TypeName, workflow: Option<&Label>, step: Option<&Label>) -> Vec<&Gate> {
        self.gates.iter().filter(|gate| gate.applies(kind, workflow, step)).collect()
    }

    pub fn of_message(&self, message: &MessageView) -> Vec<&Gate> {
        // Notices of the office are not work.
        match message.notice {
            Some(_) => Vec::new(),
            None => self.of(&message.kind, message.workflow.as_ref(), message.step.as_ref()),
        }
    }

    /// The gates whose command may not run because it comes from a file that is not trusted on this machine.
    pub fn untrusted<'g>(&self, gates: &[&'g Gate]) -> Vec<&'g Gate> {
        gates.iter().copied().filter(|gate| !self.may_run(gate)).collect()
    }

    fn may_run(&self, gate: &Gate) -> bool {
        gate.program.is_none() || self.trusted.contains(&gate.source)
    }

    /// The gates that every message of these types must pass. Without types: the gates of every message.
    pub fn of_all(&self, types: &[TypeName]) -> Vec<&Gate> {
        let is_for_all = |gate: &&Gate| {
            let whatever_step = gate.workflow.is_none() && gate.step.is_none();
            let every_type = !types.is_empty() && types.iter().all(|kind| gate.kind.as_ref() == Some(kind));
            whatever_step && (gate.kind.is_none() || every_type)
        };
        self.gates.iter().filter(is_for_all).collect()
    }
}

/// The folder of `poste.toml`, which commands run in.
fn folder_of(config: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new(".")).to_owned()
}
