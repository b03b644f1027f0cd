//! Lists conversations, latest message first.

use poste_core::log::MessageNo;
use poste_core::text::Name;
use poste_core::views::{self, ThreadStatus, Threads, ThreadsQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::check_filters;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only conversations with this status: open, finished or closed
    pub status: Option<ThreadStatus>,
    /// Only conversations this agent takes part in
    pub agent: Option<Name>,
    /// Only conversations whose newest message is older than this message
    pub before: Option<MessageNo>,
    /// Maximum number of conversations
    pub limit: u16,
}

/// The default limit.
pub const LIMIT_DEFAULT: u16 = 20;
pub const LIMIT_MAX: u16 = 1000;

impl Default for Input {
    fn default() -> Self {
        Self { status: None, agent: None, before: None, limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "threads";
    const ACCESS: Access = Access::Reads;
    type Answer = Threads;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Threads>> {
        if self.status == Some(ThreadStatus::Archived) {
            let error = Error::usage("archived conversations are not listed");
            return Err(error.hint(note!("show one by any of its messages: " [thread, conversation = "N"])));
        }
        input::check_limit(self.limit, LIMIT_MAX)?;
        check_filters(desk.office, None, self.agent.as_ref().map(Name::as_str))?;
        let query = ThreadsQuery {
            status: self.status,
            agent: self.agent.map(|name| name.to_string()),
            before: self.before,
            limit: self.limit.into(),
        };
        let page = views::threads(desk.office.store(), &query)?;
        match (page.threads.is_empty(), page.next) {
            (true, None) => desk.say("no conversation matches"),
            (true, Some(next)) => desk.say(note!("none found yet; continue with " {before = next})),
            (false, _) => {}
        }
        let damage = page.damage.clone();
        Ok(Answered::new(page).damaged(damage))
    }
}
