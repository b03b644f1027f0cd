//! The findings of gates.

use schemars::JsonSchema;
use serde::Serialize;

use crate::foreign::Foreign;
use crate::log::{Content, GateResult, GateVerdict, MessageNo, Position};
use crate::secrets;
use crate::text::Label;

/// The findings of the gates of one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    pub number: MessageNo,
    /// Every gate passed.
    pub passed: bool,
    pub gates: Vec<GateReport>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct GateReport {
    pub name: Label,
    pub passed: bool,
    pub checks: Vec<CheckReport>,
}

/// One check of a gate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckReport {
    /// Its key in the configuration: `exists`, `not_empty`, `command` …
    pub check: &'static str,
    /// The file that was checked.
    pub artifact: Option<String>,
    pub passed: bool,
    /// Why it failed.
    pub reason: Option<String>,
    /// The beginning and end of the command's output.
    pub output: Option<String>,
    pub duration_ms: Option<u64>,
}

impl CheckReport {
    pub(super) fn new(check: &'static str, artifact: Option<&str>, found: Result<(), String>) -> Self {
        Self {
            check,
            artifact: artifact.map(str::to_owned),
            passed: found.is_ok(),
            reason: found.err(),
            output: None,
            duration_ms: None,
        }
    }

    /// The last line of a command's output, which usually says what is wrong.
    fn last_words(&self) -> String {
        const CHARS_MAX: usize = 160;
        let lines = self.output.as_deref().unwrap_or_default().lines();
        let Some(last) = lines.rev().map(str::trim).find(|line| !line.is_empty()) else { return String::new() };
        let cut: String = last.chars().take(CHARS_MAX).collect();
        format!(" ({})", Foreign::words(if cut.len() < last.len() { format!("{cut}…") } else { cut }))
    }

    /// The check as one line.
    pub fn text(&self) -> String {
        let of = self.artifact.as_ref().map(|artifact| format!(" of {}", Foreign::name(artifact))).unwrap_or_default();
        match &self.reason {
            None => format!("{}{of}", self.check),
            Some(reason) => format!("{}{of}: {reason}", self.check),
        }
    }
}

impl GateReport {
    pub(super) fn new(name: Label, checks: Vec<CheckReport>) -> Self {
        Self { name, passed: checks.iter().all(|check| check.passed), checks }
    }

    /// The checks that failed.
    pub fn failed(&self) -> impl Iterator<Item = &CheckReport> {
        self.checks.iter().filter(|check| !check.passed)
    }
}

/// The maximum size of all outputs together in a record.
const OUTPUT_BYTES_MAX: usize = 48 * 1024;

impl Report {
    pub fn new(number: MessageNo, gates: Vec<GateReport>) -> Self {
        Self { number, passed: gates.iter().all(|gate| gate.passed), gates }
    }

    /// One line: the names of the gates if all passed, or the first reason of each gate that failed.
    pub fn summary(&self) -> String {
        if self.passed {
            let names: Vec<&str> = self.gates.iter().map(|gate| gate.name.as_str()).collect();
            return format!("passed: {}", names.join(", "));
        }
        let failed = self.gates.iter().filter(|gate| !gate.passed);
        let reasons = failed.filter_map(|gate| {
            let check = gate.failed().next()?;
            Some(format!("{}: {}{}", gate.name, check.text(), check.last_words()))
        });
        reasons.collect::<Vec<_>>().join("; ")
    }

    /// The full report, for people.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut room = OUTPUT_BYTES_MAX;
        for gate in &self.gates {
            text.push_str(&format!("{} {}\n", if gate.passed { "passed" } else { "failed" }, gate.name));
            for check in &gate.checks {
                text.push_str(&format!("  {} {}\n", if check.passed { "ok    " } else { "failed" }, check.text()));
                let Some(output) = check.output.as_deref().filter(|output| !output.is_empty()) else { continue };
                if output.len() > room {
                    text.push_str("    | (output omitted: too long)\n");
                    continue;
                }
                room -= output.len();
                for line in output.lines() {
                    text.push_str(&format!("    | {line}\n"));
                }
            }
        }
        text
    }

    /// The content of the record: the summary and the full report. If it looks like it contains a secret, the outputs
    /// of commands are left out, because a record can only be redacted afterwards.
    pub fn content(&self) -> Content {
        let of = |report: &Self| Content {
            summary: Some(report.summary()),
            body: report.text().as_str().into(),
            ..Content::default()
        };
        let content = of(self);
        if secrets::find(&content).is_empty() {
            return content;
        }
        let mut without = self.clone();
        for check in without.gates.iter_mut().flat_map(|gate| &mut gate.checks) {
            check.output = check.output.as_ref().map(|_| "(omitted: it may contain a secret)".to_owned());
        }
        let content = of(&without);
        match secrets::find(&content).is_empty() {
            true => content,
            // A name or a reason looks like a secret too. The header still says which gates failed.
            false => Content { summary: Some("omitted: it may contain a secret".to_owned()), ..Content::default() },
        }
    }

    pub fn result(&self, token: Position) -> GateResult {
        let gates =
            self.gates.iter().map(|gate| GateVerdict { name: gate.name.clone(), passed: gate.passed }).collect();
        GateResult { message: self.number, token, passed: self.passed, gates }
    }
}
