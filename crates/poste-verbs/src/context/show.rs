//! Shows a context at a version.

use poste_core::text::ContextName;
use poste_core::views::ContextView;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{follow_mirror, read_mark, view};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// This version instead of the newest
    pub at: Option<u64>,
}

impl Verb for Input {
    const NAME: &'static str = "context show";
    const ACCESS: Access = Access::Reads;
    type Answer = ContextView;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<ContextView>> {
        let reader = desk.reader()?.map(|reader| reader.name);
        let view = view(desk.office, &self.name, self.at)?;
        follow_mirror(desk, &self.name);
        let mark = read_mark(desk, reader.as_ref(), &self.name, view.version)?;
        let mut answered = Answered::new(view);
        answered.marks.extend(mark);
        Ok(answered)
    }
}
