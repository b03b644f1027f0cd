//! Extends reservations. The time counts from now, and never ends earlier than before.

use poste_core::limits;
use poste_core::log::{Intent, Prolong};
use poste_core::pattern::Pattern;
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::HeldAnswer;
use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Patterns as they were reserved; none: all of the caller's
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    /// How long to hold them from now, such as 1h
    #[serde(default, rename = "for", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub for_ms: Option<i64>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

impl Verb for Input {
    const NAME: &'static str = "extend paths";
    const ACCESS: Access = Access::Writes;
    type Answer = HeldAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<HeldAnswer>> {
        let for_ms = self.for_ms.unwrap_or(limits::RESERVATION_MS_DEFAULT);
        let intent = Intent::Prolong(Prolong { patterns: self.patterns, for_ms });
        let proposal = desk.proposal(intent, None, self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        Ok(Answered::new(HeldAnswer::of(outcome, effect)?))
    }
}
