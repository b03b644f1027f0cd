//! Shows an agent's inbox as it was after a record.

use poste_core::Position;
use poste_core::text::Name;
use poste_core::views::{self, InboxPage, InboxQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use super::replay::{Folded, Past};
use crate::{Access, Answered, Desk, Error, Result, Verb};

const LINES_MAX: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Log position of the last record to fold; default: the newest
    pub until: Option<Position>,
    /// The agent whose inbox to show
    pub inbox: Name,
}

impl Verb for Input {
    const NAME: &'static str = "log replay inbox";
    const ACCESS: Access = Access::Reads;
    type Answer = Past<InboxPage>;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Past<InboxPage>>> {
        let name = &self.inbox;
        let past = Folded::up_to(desk, self.until)?;
        let Some(entry) = views::agent(&past.store, name)? else {
            let error = Error::not_found(format!("no agent was registered as {name} at record {}", past.until));
            return Err(match views::nearest_agents(&past.store, name.as_str())?.first() {
                Some(near) => error.hint(format!("did you mean {near}?")),
                None => error,
            });
        };
        let query = InboxQuery { limit: LINES_MAX, ..InboxQuery::default() };
        let page = views::past_inbox(&past.store, desk.office.store(), &entry.agent, &query)?;
        if page.messages.is_empty() {
            desk.say("no pending mail");
        }
        past.answer(page)
    }
}
