//! Shows the messages of a conversation. Listing a message does not mark it as shown.

pub mod close;

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::text::{Label, quoted};
use poste_core::views::{self, Thread, ThreadSummary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::no_message;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Number of any message of the conversation, or the conversation's name
    pub conversation: String,
    /// Return participants, duration, status and outcome instead of messages; reads the whole conversation
    #[serde(default)]
    pub summary: bool,
    /// Only messages after this number
    #[serde(default)]
    pub after: MessageNo,
    /// Maximum number of messages
    #[serde(default = "limit")]
    pub limit: u16,
}

pub const LIMIT_DEFAULT: u16 = 200;
pub const LIMIT_MAX: u16 = 10_000;

fn limit() -> u16 {
    LIMIT_DEFAULT
}

/// The messages of a conversation, or its summary.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Answer {
    Messages(Thread),
    Summary(ThreadSummary),
}

impl Verb for Input {
    const NAME: &'static str = "thread";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        let conversation = named(desk.office, &self.conversation)?;
        let store = desk.office.store();
        if self.summary {
            let summary = views::thread_summary(store, &conversation)?;
            let damage = summary.damage.clone();
            return Ok(Answered::new(Answer::Summary(summary)).damaged(damage));
        }
        let thread = views::thread(store, &conversation, self.after, self.limit.into())?;
        if thread.messages.is_empty() {
            desk.say(format!("conversation {conversation} has no message after #{}", self.after));
        }
        Ok(Answered::new(Answer::Messages(thread)))
    }
}

/// Finds a conversation by a message or by its name. A number is tried as a message first.
pub fn named(office: &Office, text: &str) -> Result<Label> {
    let number = text.strip_prefix('#').unwrap_or(text).parse().ok().map(MessageNo);
    if let Some(number) = number
        && let Some(conversation) = views::conversation_of(office.store(), number)?
    {
        return Ok(conversation);
    }
    if let Ok(label) = text.parse::<Label>()
        && !views::thread(office.store(), &label, MessageNo(0), 1)?.messages.is_empty()
    {
        return Ok(label);
    }
    Err(match number {
        Some(number) => no_message(number),
        None => {
            Error::not_found(format!("there is no conversation {}", quoted(text))).hint(note!("see them: "[threads]))
        }
    })
}
