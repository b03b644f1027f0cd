//! Reports the participants, duration, status and outcome of a conversation.

use poste_core::views::{self, ConversationReport};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::thread;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Number of any message of the conversation, or the conversation's name
    pub conversation: String,
}

impl Verb for Input {
    const NAME: &'static str = "report conversation";
    const ACCESS: Access = Access::Reads;
    type Answer = ConversationReport;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<ConversationReport>> {
        let conversation = thread::named(desk.office, &self.conversation)?;
        let report = views::conversation_report(desk.office.store(), &conversation)?;
        let damage = report.damage.clone();
        Ok(Answered::new(report).damaged(damage))
    }
}
