//! Shows what waits for the caller, by priority, then age. Listing never counts as showing.

use poste_core::text::TypeName;
use poste_core::views::{self, InboxPage, InboxQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::check_filters;
use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only what was not shown yet
    pub unread: bool,
    /// Only this type
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// Only from this sender
    pub from: Option<String>,
    /// Ended ones too, newest first
    pub all: bool,
    /// Maximum number of messages
    pub limit: u16,
}

/// How many are listed unless a number is given.
pub const LIMIT_DEFAULT: u16 = 50;
pub const LIMIT_MAX: u16 = 1000;

impl Default for Input {
    fn default() -> Self {
        Self { unread: false, kind: None, from: None, all: false, limit: LIMIT_DEFAULT }
    }
}

impl Verb for Input {
    const NAME: &'static str = "inbox";
    const ACCESS: Access = Access::Reads;
    type Answer = InboxPage;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<InboxPage>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        let agent = desk.agent()?;
        check_filters(desk.office, self.kind.as_ref(), self.from.as_deref())?;
        let query = InboxQuery {
            unread: self.unread,
            kind: self.kind,
            from: self.from,
            all: self.all,
            limit: self.limit.into(),
        };
        let page = views::inbox(desk.office.store(), &agent, &query, desk.now()?)?;
        if page.messages.is_empty() && page.left_out.count == 0 {
            desk.say(if query.filters() { "nothing waits that matches" } else { "nothing waits" });
        }
        Ok(Answered::new(page))
    }
}
