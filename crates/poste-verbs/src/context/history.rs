//! Lists the versions of a context, newest first.

use poste_core::text::ContextName;
use poste_core::views::{self, VersionView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{follow_mirror, unknown};
use crate::{Access, Answered, Desk, Result, Verb};

/// The default limit.
pub const LIMIT_DEFAULT: u16 = 50;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// Maximum number of versions
    #[serde(default = "limit")]
    pub limit: u16,
}

fn limit() -> u16 {
    LIMIT_DEFAULT
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The context's name.
    pub name: ContextName,
    /// The versions, newest first.
    pub versions: Vec<VersionView>,
    /// There are older versions.
    pub more: bool,
}

impl Verb for Input {
    const NAME: &'static str = "context history";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let found = views::context_history(desk.office.store(), &self.name, 0, self.limit.into())?;
        let Some((versions, more)) = found else { return Err(unknown(desk.office, &self.name)?) };
        follow_mirror(desk, &self.name);
        Ok(Answered::new(Answer { name: self.name, versions, more }))
    }
}
