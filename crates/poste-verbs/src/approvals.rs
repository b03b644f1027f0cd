//! Lists approvals.

use poste_core::views::{self, Approvals, ApprovalsQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb};

pub const LIMIT_DEFAULT: u16 = 50;

/// Without `mine`, `asked` and `all`: pending questions that the caller has to decide, and those it asked
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only pending questions that the caller has to decide
    pub mine: bool,
    /// Only pending questions that the caller asked
    pub asked: bool,
    /// Questions of all agents, decided or not, newest first
    pub all: bool,
    /// Maximum number of questions
    pub limit: u16,
}

impl Default for Input {
    fn default() -> Self {
        Self { mine: false, asked: false, all: false, limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "approvals";
    const ACCESS: Access = Access::Reads;
    type Answer = Approvals;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Approvals>> {
        let found = self.find(desk)?;
        if found.approvals.is_empty() {
            desk.say("no approvals are pending");
        }
        Ok(Answered::new(found))
    }
}

impl Input {
    fn find(&self, desk: &Desk<'_>) -> Result<Approvals> {
        let (limit, now) = (usize::from(self.limit), desk.now()?);
        let list = |query: &ApprovalsQuery| views::approvals(desk.office.store(), query, limit, now);
        if self.all {
            return Ok(list(&ApprovalsQuery::All)?);
        }
        let agent = desk.agent()?;
        let asked = ApprovalsQuery::AskedBy(agent.name.clone());
        let mine = ApprovalsQuery::ToDecide(Box::new(agent));
        Ok(match (self.mine, self.asked) {
            (true, false) => list(&mine)?,
            (false, true) => list(&asked)?,
            _ => both(list(&mine)?, list(&asked)?, limit),
        })
    }
}

fn both(mine: Approvals, asked: Approvals, limit: usize) -> Approvals {
    let mut approvals = mine.approvals;
    approvals.extend(asked.approvals);
    approvals.sort_by_key(|approval| approval.number);
    approvals.dedup_by_key(|approval| approval.number);
    let more = mine.more || asked.more || approvals.len() > limit;
    approvals.truncate(limit);
    Approvals { approvals, more, as_of: mine.as_of.min(asked.as_of) }
}
