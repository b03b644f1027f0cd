//! Rewrites the mirror file of a context.

use poste_core::store::mirror::{self, Mirror};
use poste_core::text::ContextName;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{drop_edit, take_over, unknown};
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// Discard edits made by hand
    #[serde(default)]
    pub force: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The context's name.
    pub name: ContextName,
    /// The path of the mirror.
    pub path: String,
}

impl Verb for Input {
    const NAME: &'static str = "context mirror";
    const ACCESS: Access = Access::Reads;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("force", Touch::Nothing)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let name = self.name;
        let path = mirror::path(desk.office.path()?, &name).display().to_string();
        match desk.office.mirror(&name, self.force)? {
            None => Err(unknown(desk.office, &name)?),
            Some(Mirror::Edited(_)) => Err(Error::conflict(format!("{path} was edited by hand and is left unchanged"))
                .hint(take_over(&name, &path))
                .hint(drop_edit(&name))),
            Some(Mirror::Current | Mirror::Behind) => Ok(Answered::new(Answer { name, path })),
        }
    }
}
