//! Accepts that the wall clock moved ahead by more than a day. Leases move along.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The accepted leap in milliseconds; null if there was none.
    pub leap_ms: Option<i64>,
}

impl Verb for Input {
    const NAME: &'static str = "clock accept";
    const ACCESS: Access = Access::Administers;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let speaker = desk.speaker()?;
        let leap_ms = desk.office.accept_clock(&speaker)?;
        if leap_ms.is_some() {
            desk.note_stored("that the clock was accepted");
        }
        Ok(Answered::new(Answer { leap_ms }))
    }
}
