//! Lists live sessions, or all.

use poste_core::views::{self, Sessions};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb};

pub const LIMIT_DEFAULT: u16 = 50;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Include sessions that have ended, newest first
    pub all: bool,
    /// Maximum number of sessions
    pub limit: u16,
}

impl Default for Input {
    fn default() -> Self {
        Self { all: false, limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "session list";
    const ACCESS: Access = Access::Reads;
    type Answer = Sessions;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Sessions>> {
        let found = views::sessions(desk.office.store(), self.all, self.limit.into())?;
        if found.sessions.is_empty() {
            desk.say(note!("no live sessions; start one: " [session start, as = "NAME"]));
        }
        Ok(Answered::new(found))
    }
}
