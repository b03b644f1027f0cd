//! Looks for mail that is new to the caller. An answer without messages says "not yet": wait, then ask again with what it
//! gave back.

pub mod replies;

use poste_core::Address;
use poste_core::log::Position;
use poste_core::office::{Office, head};
use poste_core::text::{Topic, TypeName};
use poste_core::views::{self, NewMail, NewsQuery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::check_filters;
use crate::{Access, Answered, Desk, Error, Mark, Result, Verb, input};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only this type
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// Only from this sender
    pub from: Option<String>,
    /// Only of this topic
    pub topic: Option<Topic>,
    /// Everything that became available after this cursor, shown or not
    pub after: Option<Position>,
    /// Maximum number of messages
    pub limit: u16,
    /// How far the last answer to this very question looked, so that nothing is looked at twice.
    #[serde(skip)]
    pub looked: Option<Looked>,
}

/// How many messages come at once unless a number is given.
pub const LIMIT_DEFAULT: u16 = 20;
pub const LIMIT_MAX: u16 = 200;

impl Default for Input {
    fn default() -> Self {
        Self { kind: None, from: None, topic: None, after: None, limit: LIMIT_DEFAULT, looked: None }
    }
}

/// There was nothing up to a position that came to one of these addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    until: Option<Position>,
    addresses: Vec<Address>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub news: NewMail,
    /// Where nothing is new: what to ask again with.
    #[serde(skip)]
    pub looked: Option<Looked>,
}

impl Verb for Input {
    const NAME: &'static str = "wait";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        // Asked anew each time: whoever waits may be retired meanwhile, and a role may come or go.
        let agent = desk.active_agent()?;
        if self.looked.is_none() {
            self.check(desk)?;
        }
        let addresses = agent.addresses();
        let query = NewsQuery {
            session: desk.caller.session.clone(),
            kind: self.kind,
            from: self.from,
            topic: self.topic,
            urgencies: Vec::new(),
            after: self.after,
            looked_until: self.looked.filter(|looked| looked.addresses == addresses).and_then(|looked| looked.until),
            limit: self.limit.into(),
        };
        let news = views::news(desk.office.store(), &agent, &query)?;
        if news.messages.is_empty() {
            let looked = Some(Looked { until: news.cursor, addresses });
            return Ok(Answered::new(Answer { news, looked }));
        }
        let shown = Mark::Shown(news.messages.iter().map(|message| message.number).collect());
        let next = match news.cursor {
            Some(cursor) => note!("cursor {cursor}: " [wait, after = cursor]),
            None => note!("more is new: "[wait]),
        };
        Ok(Answered::new(Answer { news, looked: None }).mark(shown).next(next))
    }
}

impl Input {
    /// Refuses to wait for what can never come.
    fn check(&self, desk: &Desk<'_>) -> Result {
        input::check_limit(self.limit, LIMIT_MAX)?;
        check_filters(desk.office, self.kind.as_ref(), self.from.as_deref())?;
        let name = desk.speaker()?;
        if let Some(topic) = &self.topic
            && !views::hears(desk.office.store(), &name, topic)?
        {
            let message = format!("{name} is not subscribed to {topic}, so nothing of it would come");
            return Err(Error::refused(message).hint(note!("subscribe: " [subscribe, topic = topic])));
        }
        self.after.map_or(Ok(()), |after| check_cursor(desk.office, after))
    }
}

/// A cursor beyond the log is of another log, or of one that lost its end: whoever waited after it would miss mail.
pub(crate) fn check_cursor(office: &Office, after: Position) -> Result {
    let newest = head(office.store())?;
    if after <= newest {
        return Ok(());
    }
    Err(Error::refused(format!("the cursor {after} is beyond the log, which ends at record {newest}"))
        .code("cursor_beyond_log")
        .hint("the office may have been restored from a snapshot, or it is another one")
        .hint(note!("see what waits: " [inbox] "; then go on without " {after} ", or after a cursor of this office")))
}
