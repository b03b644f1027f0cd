//! Extends the lease of a claimed message, counted from now.

use poste_core::Timestamp;
use poste_core::fold::Effect;
use poste_core::log::{Extend, Intent, MessageNo, Position};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// New length of the lease, from now, such as 30m
    #[serde(default, rename = "lease", deserialize_with = "input::length")]
    #[schemars(with = "Option<String>")]
    pub lease_ms: Option<i64>,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The message's number.
    pub number: MessageNo,
    /// When the lease ends, RFC 3339; null if the id was used before.
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub lease_until: Option<Timestamp>,
}

impl Verb for Input {
    const NAME: &'static str = "extend";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let intent = Intent::Extend(Extend { message: self.number, token: self.token, lease_ms: self.lease_ms });
        let proposal = desk.proposal(intent, None, self.id)?;
        let (_, effect) = desk.decide(&proposal)?;
        let lease_until = match effect {
            Effect::Claimed(claimed) => claimed.items.first().map(|item| item.lease_until),
            Effect::Noted => None,
            _ => return Err(Error::unexpected_effect("the extension")),
        };
        Ok(Answered::new(Answer { number: self.number, lease_until }))
    }
}
