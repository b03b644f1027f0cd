//! Retires an agent: its mail is returned, its claims are released, and its name stays taken.

use poste_core::fold::Effect;
use poste_core::log::{Intent, Retire};
use poste_core::text::{Name, RecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The agent to retire
    pub name: Name,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The retired agent.
    pub name: Name,
    /// Number of deliveries that were released or returned.
    pub deliveries: usize,
}

impl Verb for Input {
    const NAME: &'static str = "retire";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let intent = Intent::Retire(Retire { name: self.name.clone() });
        let proposal = desk.proposal(intent, None, self.id)?;
        let (_, effect) = desk.decide(&proposal)?;
        let deliveries = match effect {
            Effect::Touched(count) => count,
            _ => 0,
        };
        Ok(Answered::new(Answer { name: self.name, deliveries }))
    }
}
