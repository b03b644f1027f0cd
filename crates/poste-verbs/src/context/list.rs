//! Lists the contexts, and which of them changed since the caller last saw them.

use poste_core::views::{self, ContextLine};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The contexts of the office.
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
            desk.say(note!("no contexts yet; create one: " [context create, name = "NAME"]));
        }
        Ok(Answered::new(Answer { contexts }))
    }
}
