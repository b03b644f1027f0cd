//! Lists handoffs, newest first.

use poste_core::store::tables::{Agent, HandoffState};
use poste_core::views::{self, HandoffQuery, Handoffs};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::unknown_agent;
use crate::{Access, Answered, Desk, Result, Verb};

pub const LIMIT_DEFAULT: u16 = 50;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only handoffs to this agent or its groups, or decided by it; me: the caller
    pub to: Option<String>,
    /// Only handoffs from this agent; me: the caller
    pub from: Option<String>,
    /// Only handoffs in this state
    pub state: Option<HandoffState>,
    /// Maximum number of handoffs
    pub limit: u16,
}

impl Default for Input {
    fn default() -> Self {
        Self { to: None, from: None, state: None, limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "handoff list";
    const ACCESS: Access = Access::Reads;
    type Answer = Handoffs;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Handoffs>> {
        let from = named(desk, self.from.as_deref())?.map(|agent| agent.name);
        let to = named(desk, self.to.as_deref())?;
        let query = HandoffQuery { from, to, state: self.state, limit: self.limit.into() };
        let page = views::handoffs(desk.office.store(), &query)?;
        if page.handoffs.is_empty() {
            desk.say("no handoff matches");
        }
        Ok(Answered::new(page))
    }
}

fn named(desk: &Desk<'_>, name: Option<&str>) -> Result<Option<Agent>> {
    let name = match name {
        None => return Ok(None),
        Some("me") => desk.speaker()?,
        Some(name) => name.parse()?,
    };
    match desk.office.agent(&name)? {
        Some(agent) => Ok(Some(agent)),
        None => Err(unknown_agent(desk.office, &name)?),
    }
}
