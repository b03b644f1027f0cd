//! Shows the office at a glance.

use poste_core::views::{self, RosterEntry, Status};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

const BUSIEST_MAX: usize = 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The office's folder.
    pub office: String,
    #[serde(flatten)]
    pub status: Status,
    /// Active agents, those with the most waiting mail first.
    pub busiest: Vec<RosterEntry>,
}

impl Verb for Input {
    const NAME: &'static str = "status";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let store = desk.office.store();
        let status = views::status(store, desk.now()?)?;
        let mut busiest = views::roster(store)?;
        busiest.retain(|entry| entry.active);
        busiest.sort_by_key(|entry| std::cmp::Reverse((entry.pending, entry.claimed)));
        busiest.truncate(BUSIEST_MAX);
        let office = desk.office.path()?.display().to_string();
        Ok(Answered::new(Answer { office, status, busiest }))
    }
}
