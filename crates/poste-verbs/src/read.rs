//! Reads a message. If it is addressed to the caller, printing it marks it as shown.

use poste_core::log::MessageNo;
use poste_core::views::{self, MessageView};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::explain::no_message;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "read";
    const ACCESS: Access = Access::Reads;
    type Answer = MessageView;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<MessageView>> {
        let message = views::message(desk.office.store(), self.number)?.ok_or_else(|| no_message(self.number))?;
        let mut answered = Answered::new(message);
        answered.marks.extend(desk.shown_mark(self.number)?);
        Ok(match desk.caller.actor {
            Some(_) => answered,
            None => answered.next(note!("not marked as shown: no agent was given; pass " @Speaker)),
        })
    }
}
