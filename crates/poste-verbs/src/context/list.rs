//! Lists the contexts, and which of them went on since the caller has seen them.

use poste_core::views::{self, ContextLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub contexts: Vec<ContextLine>,
}

impl Verb for Input {
    const NAME: &'static str = "context list";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let reader = desk.reader()?.map(|reader| reader.name);
        let contexts = views::contexts(desk.office.store(), reader.as_ref())?;
        if contexts.is_empty() {
            desk.say(note!("no contexts yet; make one: " [context create, name = "NAME"]));
        }
        Ok(Answered::new(Answer { contexts }))
    }
}
