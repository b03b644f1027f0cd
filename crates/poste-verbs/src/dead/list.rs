//! Lists dead letters, newest first.

use poste_core::store::tables::State;
use poste_core::text::Name;
use poste_core::views::{self, DeadLetters, DeadQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::check_filters;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only dead letters in this state: failed, dead, expired or returned
    pub state: Option<State>,
    /// Only messages this agent sent
    pub from: Option<Name>,
    /// List dropped messages instead
    pub dropped: bool,
    /// Maximum number of messages
    pub limit: u16,
}

/// The default limit.
pub const LIMIT_DEFAULT: u16 = 50;
pub const LIMIT_MAX: u16 = 1000;

impl Default for Input {
    fn default() -> Self {
        Self { state: None, from: None, dropped: false, limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "dead list";
    const ACCESS: Access = Access::Reads;
    type Answer = DeadLetters;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<DeadLetters>> {
        if self.state.is_some_and(|state| !state.is_bad_end()) {
            let error = Error::usage("only failed, dead, expired and returned mail is listed here");
            return Err(error.hint(note!("for pending mail: " [overdue] ", " [inbox])));
        }
        input::check_limit(self.limit, LIMIT_MAX)?;
        check_filters(desk.office, None, self.from.as_ref().map(Name::as_str))?;
        let is_filtered = self.state.is_some() || self.from.is_some();
        let query = DeadQuery {
            state: self.state,
            from: self.from.map(|name| name.to_string()),
            dropped: self.dropped,
            limit: self.limit.into(),
        };
        let page = views::dead_letters(desk.office.store(), &query)?;
        if page.letters.is_empty() {
            desk.say(match (page.more, self.dropped, is_filtered) {
                (true, ..) => "none of the newest 10000 dead letters matches; there are older ones",
                (false, true, _) => "no dropped messages",
                (false, false, true) => "no dead letter matches",
                (false, false, false) => "no dead letters",
            });
        }
        Ok(Answered::new(page))
    }
}
