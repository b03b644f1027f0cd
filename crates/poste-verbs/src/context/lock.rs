//! Keeps others from writing to a context for a while.

use poste_core::fold::{Effect, Locked};
use poste_core::limits::SECOND_MS;
use poste_core::log::{ContextLock, Intent};
use poste_core::text::{ContextName, RecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_lock;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

/// How long a lock holds unless a length is given.
pub const FOR_MS_DEFAULT: i64 = 30 * SECOND_MS;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: ContextName,
    /// For how long, 30s; taking it again prolongs it
    #[serde(default, rename = "for", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub for_ms: Option<i64>,
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub locked: Locked,
    /// It was locked before under this id; there is no second effect.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "context lock";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let for_ms = self.for_ms.unwrap_or(FOR_MS_DEFAULT);
        let intent = Intent::ContextLock(ContextLock { name: self.name.clone(), for_ms });
        let proposal = desk.proposal(intent, None, self.id)?;
        check_lock(desk, &self.name, &proposal)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        let Effect::Locked(locked) = effect else { return Err(Error::odd_effect("the lock")) };
        Ok(Answered::new(Answer { locked, repeat: outcome.repeat }))
    }
}
