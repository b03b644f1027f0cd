//! Lists the caller's mail, by priority, then age. Listing marks nothing as shown.

use poste_core::text::TypeName;
use poste_core::views::{self, InboxPage, InboxQuery};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::check_filters;
use crate::{Access, Answered, Desk, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only messages that were not shown yet
    pub unread: bool,
    /// Only messages of this type
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// Only messages from this sender
    pub from: Option<String>,
    /// Include ended deliveries, newest first
    pub all: bool,
    /// Maximum number of messages
    pub limit: u16,
}

/// The default limit.
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
            desk.say(if query.filters() { "no pending mail matches" } else { "no pending mail" });
        }
        Ok(Answered::new(page))
    }
}
