//! Reports a day of the office: messages, conversations, broadcasts, blockers, failures, agents.

use poste_core::time::parse_day;
use poste_core::views::{self, DayReport};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Day to report, in UTC: today, yesterday, or a date such as 2026-01-31
    pub day: String,
}

impl Verb for Input {
    const NAME: &'static str = "report day";
    const ACCESS: Access = Access::Reads;
    type Answer = DayReport;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<DayReport>> {
        let now = desk.now()?;
        let (begins, ends) = parse_day(&self.day, now).map_err(Error::usage)?;
        let report = views::day_report(desk.office.store(), begins, ends, now)?;
        let damage = report.damage.clone();
        Ok(Answered::new(report).damaged(damage))
    }
}
