//! Reports how a blocker was resolved, and how long that took.

use poste_core::views::{self, BlockerReport};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::thread;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Number of any message of the conversation, or the conversation's name
    pub conversation: String,
}

impl Verb for Input {
    const NAME: &'static str = "report blocker";
    const ACCESS: Access = Access::Reads;
    type Answer = BlockerReport;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<BlockerReport>> {
        let conversation = thread::named(desk.office, &self.conversation)?;
        let report = views::blocker_report(desk.office.store(), &conversation, desk.now()?)?.ok_or_else(|| {
            Error::not_found(format!("no blocker was reported in conversation {conversation}"))
                .hint("a blocker is reported by a message of type blocker_notification")
                .hint(note!("see the conversation: " [report conversation, conversation = self.conversation]))
        })?;
        let damage = report.damage.clone();
        Ok(Answered::new(report).damaged(damage))
    }
}
