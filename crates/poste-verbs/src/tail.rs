//! Lists what happened after a position in an inbox, a topic or the whole log. To follow, ask again with the cursor.

use poste_core::log::Position;
use poste_core::office::head;
use poste_core::text::{Name, Topic};
use poste_core::views::{self, TimelineLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::wait::check_cursor;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Input {
    /// Only this topic
    pub topic: Option<Topic>,
    /// The whole log instead of the caller's inbox
    pub log: bool,
    /// Start after this log position; default: now
    pub after: Option<Position>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// What happened, oldest first.
    pub lines: Vec<TimelineLine>,
    /// Position to pass as `after` next.
    pub cursor: Position,
    /// There are more lines after the cursor.
    pub more: bool,
    /// What could not be read, on any line: the unreadable part may include the recipients.
    pub damage: Vec<String>,
}

/// What to list.
enum Followed {
    Inbox(Name),
    Topic(Topic),
    Log,
}

impl Followed {
    fn takes(&self, line: &TimelineLine) -> bool {
        match self {
            Self::Log => true,
            Self::Topic(topic) => line.topic.as_ref() == Some(topic),
            Self::Inbox(name) => line.recipients.iter().any(|recipient| recipient == name.as_str()),
        }
    }
}

impl Verb for Input {
    const NAME: &'static str = "tail";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        /// Records to read at a time.
        const PAGE: usize = 500;
        let followed = match (self.topic, self.log, &desk.caller.actor) {
            (Some(topic), ..) => Followed::Topic(topic),
            (None, false, Some(_)) => Followed::Inbox(desk.agent()?.name),
            _ => Followed::Log,
        };
        let store = desk.office.store();
        let after = match self.after {
            Some(after) => after,
            None => head(store)?,
        };
        check_cursor(desk.office, after)?;
        let mut lines = views::timeline(store, after, PAGE)?;
        let more = lines.len() >= PAGE;
        let cursor = lines.last().map_or(after, |line| line.position);
        let damage = lines.iter().filter_map(|line| line.unreadable.clone()).collect();
        lines.retain(|line| followed.takes(line));
        Ok(Answered::new(Answer { lines, cursor, more, damage }))
    }
}
