//! Drops a failed notification, so that it is not retried.

use poste_core::log::{HandlerSettle, Intent, MessageNo, Settling};
use poste_core::text::{Label, RecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the rule
    pub rule: Label,
    /// Number of the message
    pub number: MessageNo,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
}

/// The answer of `watch drop` and `watch test`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Name of the rule.
    pub rule: Label,
    /// Number of the message; null for a test.
    pub message: Option<MessageNo>,
    /// `sent` or `dropped`.
    pub what: &'static str,
}

impl Verb for Input {
    const NAME: &'static str = "watch drop";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let Self { rule, number, id } = self;
        let settle = HandlerSettle { rule: rule.clone(), message: number, how: Settling::Dropped, token: None };
        let proposal = desk.proposal(Intent::HandlerSettle(settle), None, id)?;
        desk.decide(&proposal)?;
        Ok(Answered::new(Answer { rule, message: Some(number), what: "dropped" }))
    }
}
