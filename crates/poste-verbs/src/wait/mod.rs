//! Looks for mail that is new to the caller. An answer without messages means "not yet": wait, then ask again with what
//! it returned.

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
    /// Only messages of this type
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// Only messages from this sender
    pub from: Option<String>,
    /// Only messages of this topic
    pub topic: Option<Topic>,
    /// All mail that became available after this cursor, shown or not
    pub after: Option<Position>,
    /// Maximum number of messages
    pub limit: u16,
    /// How far the last answer to the same question looked, so that nothing is read twice.
    #[serde(skip)]
    pub looked: Option<Looked>,
}

pub const LIMIT_DEFAULT: u16 = 20;
pub const LIMIT_MAX: u16 = 200;

impl Default for Input {
    fn default() -> Self {
        Self { kind: None, from: None, topic: None, after: None, limit: LIMIT_DEFAULT, looked: None }
    }
}

/// Up to this position there was nothing new for these addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    until: Option<Position>,
    addresses: Vec<Address>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub news: NewMail,
    /// If nothing is new: what to pass to the next call.
    #[serde(skip)]
    pub looked: Option<Looked>,
}

impl Verb for Input {
    const NAME: &'static str = "wait";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        // Looked up on every call: the agent may have been retired, or its roles may have changed.
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
            None => note!("there is more new mail: "[wait]),
        };
        Ok(Answered::new(Answer { news, looked: None }).mark(shown).next(next))
    }
}

impl Input {
    /// Refuses to wait for mail that can never arrive.
    fn check(&self, desk: &Desk<'_>) -> Result {
        input::check_limit(self.limit, LIMIT_MAX)?;
        check_filters(desk.office, self.kind.as_ref(), self.from.as_deref())?;
        let name = desk.speaker()?;
        if let Some(topic) = &self.topic
            && !views::hears(desk.office.store(), &name, topic)?
        {
            let message = format!("{name} is not subscribed to {topic}, so no message of it would arrive");
            return Err(Error::refused(message).hint(note!("subscribe: " [subscribe, topic = topic])));
        }
        self.after.map_or(Ok(()), |after| check_cursor(desk.office, after))
    }
}

/// A cursor beyond the log belongs to another log, or to one that lost its end. Waiting after it would miss mail.
pub(crate) fn check_cursor(office: &Office, after: Position) -> Result {
    let newest = head(office.store())?;
    if after <= newest {
        return Ok(());
    }
    Err(Error::refused(format!("cursor {after} is beyond the end of the log, record {newest}"))
        .code("cursor_beyond_log")
        .hint("the office may have been restored from a snapshot, or it is another one")
        .hint(note!("see the inbox: " [inbox] "; then repeat without " {after} ", or with a cursor of this office")))
}
