//! Checks the consistency of an office: chain, content, and tables against the refolded log.
use poste_core::office::head;
use poste_core::text::count;
use poste_core::views::{self, VerifyReport};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reading;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

impl Verb for Input {
    const NAME: &'static str = "log verify";
    const ACCESS: Access = Access::Reads;
    type Answer = VerifyReport;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<VerifyReport>> {
        let (office, tell) = desk.watched_office();
        let until = head(office.store())?;
        let report = views::verify(office.store(), reading(tell, until))?;
        let problems = report.problems.len();
        let answered = Answered::new(report);
        if problems == 0 {
            return Ok(answered);
        }
        let error = Error::internal(format!("{} found", count(problems, "problem")));
        Ok(answered.with_error(error.hint("copy the office folder before doing anything else")))
    }
}
