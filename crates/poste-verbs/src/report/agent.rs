//! Reports what an agent sent, received, did and answered, and its open mail.

use poste_core::text::Name;
use poste_core::views::{self, AgentReport};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb, input, unknown_agent};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the agent
    pub name: Name,
    /// Start of the report: how long ago (24h, 7d), or a time
    #[serde(default = "input::a_day")]
    pub since: String,
}

impl Verb for Input {
    const NAME: &'static str = "report agent";
    const ACCESS: Access = Access::Reads;
    type Answer = AgentReport;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<AgentReport>> {
        let now = desk.now()?;
        let since = input::since(&self.since, now)?;
        let Some(agent) = desk.office.agent(&self.name)? else { return Err(unknown_agent(desk.office, &self.name)?) };
        let report = views::agent_report(desk.office.store(), &agent, since, now)?;
        let damage = report.damage.clone();
        Ok(Answered::new(report).damaged(damage))
    }
}
