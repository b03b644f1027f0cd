//! Finds problems of an office, and what fixes them. Not a verb: it also examines an office that cannot be opened.

use poste_core::doctor::{Mended, Report, Request, Severity, apply_fixes, examine};
use poste_core::office::{Office, Place};
use poste_core::progress::Progress;
use poste_core::text::count;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answered, Error, Kind, Result};

#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Fix what can be fixed safely: file modes, leftover files, anything due
    #[serde(default)]
    pub fix: bool,
    /// Skip checks that read the whole log
    #[serde(default)]
    pub quick: bool,
    /// Include harmless findings
    #[serde(default)]
    pub verbose: bool,
    /// How long an agent with mail may do nothing before it counts as silent, such as 1h
    #[serde(default, rename = "silent_after", deserialize_with = "crate::input::length")]
    #[schemars(with = "Option<String>")]
    pub silent_after_ms: Option<i64>,
}

impl Input {
    fn request(&self) -> Request {
        let (quick, verbose) = (self.quick, self.verbose);
        let patience_ms = self.silent_after_ms.unwrap_or(Request::default().patience_ms);
        Request { quick, verbose, patience_ms }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The findings, after fixing if that was asked for.
    #[serde(flatten)]
    pub report: Report,
    /// What was fixed, or failed to be.
    pub mended: Vec<Mended>,
    /// Number of problems found.
    pub problems: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// Number of notes.
    pub notes: usize,
}

/// `carry_out` gets an office that committed something while it was fixed.
pub fn doctor(
    place: &Place,
    input: &Input,
    progress: &mut dyn FnMut(Progress),
    carry_out: &mut dyn FnMut(&mut Office),
) -> Result<Answered<Answer>> {
    if input.fix {
        poste_config::adopt::check(place)?;
    }
    let mut look = || {
        let mut report = examine(place, input.request(), progress)?;
        report.add(poste_config::doctor::examine(place));
        Ok::<_, poste_core::Error>(report)
    };
    let mut report = look()?;
    let mended = if input.fix { apply_fixes(place, &report, carry_out) } else { Vec::new() };
    if !mended.is_empty() {
        report = look()?;
    }
    let answer = Answer {
        problems: report.count(Severity::Problem),
        warnings: report.count(Severity::Warning),
        notes: report.count(Severity::Note),
        report,
        mended,
    };
    let problems = answer.problems;
    let answered = Answered::new(answer);
    if problems == 0 {
        return Ok(answered);
    }
    let error = Error::new(Kind::Unhealthy, format!("{} found", count(problems, "problem")));
    Ok(answered.with_error(
        error.hint("each one says how to fix it; keep a copy of the folder before changing anything by hand"),
    ))
}
