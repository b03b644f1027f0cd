//! Counts mail and measures how long it takes to be shown, claimed and done.

use poste_core::views::{self, Stats};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Start of the period: 24h, 7d, or a timestamp
    #[serde(default = "input::a_day")]
    pub since: String,
}

impl Verb for Input {
    const NAME: &'static str = "stats";
    const ACCESS: Access = Access::Reads;
    type Answer = Stats;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Stats>> {
        let now = desk.now()?;
        let since = input::since(&self.since, now)?;
        Ok(Answered::new(views::stats(desk.office.store(), since, now)?))
    }
}
