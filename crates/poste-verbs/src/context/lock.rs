//! Locks a context, so that no other agent can write to it for a while.

use poste_core::fold::{Effect, Locked};
use poste_core::limits::SECOND_MS;
use poste_core::log::{ContextLock, Intent};
use poste_core::text::{ContextName, RecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check_lock;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

/// The default length of a lock.
pub const FOR_MS_DEFAULT: i64 = 30 * SECOND_MS;

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// Length of the lock, such as 30s; locking again extends it
    #[serde(default, rename = "for", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub for_ms: Option<i64>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub locked: Locked,
    /// The id was used before; nothing new was stored.
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
        let Effect::Locked(locked) = effect else { return Err(Error::unexpected_effect("the lock")) };
        Ok(Answered::new(Answer { locked, repeat: outcome.repeat }))
    }
}
