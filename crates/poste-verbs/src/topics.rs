//! Lists topics with their subscribers and the number of published messages.

use poste_core::views::{self, TopicView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The topics with their subscribers.
    pub topics: Vec<TopicView>,
}

impl Verb for Input {
    const NAME: &'static str = "topics";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let topics = views::topics(desk.office.store())?;
        if topics.is_empty() {
            desk.say(note!("no topics yet; make one: " [publish, topic = "TOPIC", subject = "SUBJECT"]));
        }
        Ok(Answered::new(Answer { topics }))
    }
}
