//! Finds messages by their content and by what was written about them, newest first.

use poste_core::log::MessageNo;
use poste_core::progress::Progress;
use poste_core::store::search::{Filters, Words};
use poste_core::store::tables::State;
use poste_core::text::{Label, Name, TypeName, count};
use poste_core::time::When;
use poste_core::views::{self, Refreshed, SearchPage, SearchQuery};
use poste_core::{Address, Timestamp};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Error, Result, Verb, check_filters, input, unknown_agent};

pub const LIMIT_DEFAULT: u16 = 20;
const LIMIT_MAX: u16 = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Words that must all match; also "a phrase", prefix* and -excluded
    pub words: String,
    /// Only messages from this sender
    pub from: Option<Name>,
    /// Only messages to this agent or group (role:R, can:C)
    pub to: Option<Address>,
    /// Only messages this agent sent, received or wrote about
    pub agent: Option<Name>,
    /// Only messages of this type
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// Only messages of this conversation
    pub conversation: Option<Label>,
    /// Only messages sent at this time or later: a day, a timestamp, or how long ago
    #[serde(default, deserialize_with = "input::past")]
    #[schemars(with = "Option<String>")]
    pub since: Option<When>,
    /// Only messages sent before this time: a day, a timestamp, or how long ago
    #[serde(default, deserialize_with = "input::past")]
    #[schemars(with = "Option<String>")]
    pub until: Option<When>,
    /// Only messages in this state for at least one recipient
    pub state: Option<State>,
    /// Maximum number of messages
    #[serde(default = "limit")]
    pub limit: u16,
    /// Only messages with a lower number: the next page
    pub before: Option<MessageNo>,
    /// Sort the newest 10 000 matches by relevance
    #[serde(default)]
    pub rank: bool,
}

fn limit() -> u16 {
    LIMIT_DEFAULT
}

impl Verb for Input {
    const NAME: &'static str = "search";
    const ACCESS: Access = Access::Reads;
    type Answer = SearchPage;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<SearchPage>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        let words: Words = self.words.parse().map_err(|error| {
            Error::usage(format!("{error}"))
                .hint(note!("name words to search for: " [search, words = "login \"null check\" -draft"]))
        })?;
        let limit = self.limit.into();
        let query = self.query(desk, words)?;
        let (office, mut report) = desk.watched_office();
        let (page, refreshed) = views::search(office.store(), &query, |step| {
            report(match step {
                views::Progress::Reading { done, total } => Progress { what: "reading the log", done, of: total },
                views::Progress::Indexing { done, total } => Progress { what: "indexing", done, of: total },
            });
        })?;
        drop(report);
        report_index(desk, &refreshed);
        explain_limits(desk, &page, limit);
        if !page.hits.is_empty() {
            return Ok(Answered::new(page));
        }
        let hint = match page.next_before {
            Some(before) => note!("to search further back, repeat it with " {before = before}),
            None if query.filters() => "search without filters, or for fewer words".into(),
            None => "search for fewer words, or for a prefix: word*".into(),
        };
        let error = Error::not_found("no message matches").code("no_match").hint(hint);
        Ok(Answered::new(page).with_error(error))
    }
}

impl Input {
    /// The query, after checking that its filters can match at all.
    fn query(self, desk: &Desk<'_>, words: Words) -> Result<SearchQuery> {
        check_filters(desk.office, self.kind.as_ref(), self.from.as_ref().map(Name::as_str))?;
        let named = match &self.to {
            Some(Address::Agent(name)) => Some(name),
            Some(Address::Role(_) | Address::Can(_)) | None => None,
            Some(other) => {
                return Err(Error::usage(format!("{other} has no mailbox to search"))
                    .hint(note!({to} " takes an agent, role:R or can:C")));
            }
        };
        for name in named.into_iter().chain(&self.agent) {
            if desk.office.agent(name)?.is_none() {
                return Err(unknown_agent(desk.office, name)?);
            }
        }
        let now = desk.now()?;
        let ago = |when: When| match when {
            When::At(at) => at,
            When::InMs(ms) => now.plus_ms(-ms),
        };
        let (since, until): (Option<Timestamp>, Option<Timestamp>) = (self.since.map(ago), self.until.map(ago));
        let Self { from, to, agent, kind, conversation, state, limit, before, rank, .. } = self;
        let filters = Filters { from, to, agent, kind, conversation };
        Ok(SearchQuery { words, filters, since, until, state, before, limit: limit.into(), rank })
    }
}

/// Reports the state of the search index.
fn report_index(desk: &mut Desk<'_>, refreshed: &Refreshed) {
    if let Some(why) = &refreshed.rebuilt {
        desk.say(format!("the search index was rebuilt: {why}"));
    }
    if refreshed.borrowed {
        desk.say("the office is read-only here, so the index was built for this search only");
    }
    for number in &refreshed.unreadable {
        desk.warn(note!("the content of #{number} is damaged and cannot be searched; check it: " [log verify]));
    }
}

fn explain_limits(desk: &mut Desk<'_>, page: &SearchPage, limit: usize) {
    if page.not_indexed > 0 || page.indexed_to < page.as_of {
        let behind = match page.not_indexed {
            0 => format!("it covers the log up to record {}", page.indexed_to),
            left => {
                format!("{} not indexed yet, the oldest", count(usize::try_from(left).unwrap_or(usize::MAX), "message"))
            }
        };
        desk.say(format!("the search index is not up to date: {behind}"));
    }
    if let Some(looked_at) = page.looked_at {
        desk.say(format!("only the newest {looked_at} matches were checked"));
    }
    if let Some(before) = page.next_before.filter(|_| page.hits.len() == limit) {
        desk.say(note!("more results: " {before = before}));
    }
}
