//! Retires an agent: its mail goes back, what it holds is released, its name stays taken.

use poste_core::fold::Effect;
use poste_core::log::{Intent, Retire};
use poste_core::text::{Name, RecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: Name,
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub name: Name,
    /// Deliveries that were released or returned.
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
