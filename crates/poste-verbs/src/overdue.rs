//! Shows what is late: responses, leases, unclaimed work, silent agents.

use poste_core::limits::{HOUR_MS, MINUTE_MS};
use poste_core::views::{self, Overdue, Patience};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Unclaimed work is late after this time, such as 1h
    #[serde(default, rename = "older", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub older_ms: Option<i64>,
    /// Include leases that end within this time, such as 2m
    #[serde(default, rename = "within", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub within_ms: Option<i64>,
}

impl Verb for Input {
    const NAME: &'static str = "overdue";
    const ACCESS: Access = Access::Reads;
    type Answer = Overdue;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Overdue>> {
        let patience = Patience {
            unclaimed_ms: self.older_ms.unwrap_or(HOUR_MS),
            lease_ms: self.within_ms.unwrap_or(2 * MINUTE_MS),
        };
        let overdue = views::overdue(desk.office.store(), patience, desk.now()?)?;
        if overdue.is_empty() {
            desk.say("nothing is late");
        }
        Ok(Answered::new(overdue))
    }
}
