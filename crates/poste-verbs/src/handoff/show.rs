//! Shows a handoff and its outcome.

use poste_core::log::MessageNo;
use poste_core::views::{self, HandoffView};
use schemars::JsonSchema;
use serde::Deserialize;

use super::find;
use crate::{Access, Answered, Desk, Mark, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The handoff's number
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "handoff show";
    const ACCESS: Access = Access::Reads;
    type Answer = HandoffView;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<HandoffView>> {
        let answered = Answered::new(find(desk.office, self.number)?);
        // Only its recipients mark it as shown.
        Ok(match desk.reader()? {
            Some(reader) if views::is_addressed_to(desk.office.store(), &reader, self.number)? => {
                answered.mark(Mark::Shown(vec![self.number]))
            }
            _ => answered,
        })
    }
}
