//! Reports which recipients have answered a message. A waiter asks again until it [is complete](Wanted::is_complete).

use poste_core::log::MessageNo;
use poste_core::views::{self, Replies};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::no_message;
use crate::{Access, Answered, Desk, Error, Kind, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Number of the message
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "wait replies";
    const ACCESS: Access = Access::Reads;
    type Answer = Replies;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Replies>> {
        let replies = views::replies(desk.office.store(), self.number)?;
        Ok(Answered::new(replies.ok_or_else(|| no_message(self.number))?))
    }
}

/// Whose answers to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Those of all recipients.
    All,
    /// The first one.
    Any,
}

impl Wanted {
    /// Whether there is nothing more to wait for.
    pub fn is_complete(self, replies: &Replies) -> bool {
        replies.missing == 0 || self.has_enough(replies)
    }

    fn has_enough(self, replies: &Replies) -> bool {
        self == Self::Any && replies.answered > 0
    }

    /// The error at the end of a wait, if answers are missing.
    pub fn check(self, replies: &Replies) -> Result {
        let silent = |settled: bool| -> Vec<&str> {
            let silent = replies.recipients.iter().filter(|it| it.answer.is_none() && it.is_settled() == settled);
            silent.map(|reply| reply.recipient.as_str()).collect()
        };
        let (missing, without) = (silent(false), silent(true));
        if !self.is_complete(replies) {
            let who = match missing.len() {
                1 => "1 recipient has".to_owned(),
                count => format!("{count} recipients have"),
            };
            return Err(Error::new(Kind::TimedOut, format!("{who} not answered: {}", missing.join(", "))));
        }
        // A recipient that ended its delivery without an answer will not send one, and scripts must not miss that.
        if without.is_empty() || self.has_enough(replies) {
            return Ok(());
        }
        Err(Error::not_found(format!("no answer will come from {}", without.join(", ")))
            .hint(note!("see how it ended: " [track, number = replies.number])))
    }
}
