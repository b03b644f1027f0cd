//! Lists the messages whose notification failed for good.

use poste_core::text::Label;
use poste_core::views::{self, UntoldView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only failed notifications of this rule
    pub rule: Option<Label>,
    /// Maximum number of messages
    pub limit: u16,
}

pub const LIMIT_DEFAULT: u16 = 50;
pub const LIMIT_MAX: u16 = 1000;

impl Default for Input {
    fn default() -> Self {
        Self { rule: None, limit: LIMIT_DEFAULT }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Notifications that failed for good.
    pub letters: Vec<UntoldView>,
    /// Number of further ones, beyond the limit.
    pub more: usize,
}

impl Verb for Input {
    const NAME: &'static str = "watch dead";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        let (letters, more) = views::untold(desk.office.store(), self.rule.as_ref(), self.limit.into())?;
        match letters.is_empty() {
            true => desk.say("no failed notifications"),
            false => desk.say(note!("retry: " [watch retry, rule = "RULE"])),
        }
        if more > 0 {
            let all = (letters.len() + more).min(LIMIT_MAX.into());
            desk.say(note!("{more} more: " {limit = all}));
        }
        Ok(Answered::new(Answer { letters, more }))
    }
}
