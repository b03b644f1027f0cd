//! Shows where a message was after a record.

use poste_core::Position;
use poste_core::log::MessageNo;
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;

use super::replay::{Folded, Past};
use crate::{Access, Answered, Desk, Error, Result, Verb, track};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Log position of the last record to fold; default: the newest
    pub until: Option<Position>,
    /// The message's number
    pub message: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "log replay message";
    const ACCESS: Access = Access::Reads;
    type Answer = Past<track::Answer>;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Past<track::Answer>>> {
        let number = self.message;
        let past = Folded::up_to(desk, self.until)?;
        let track = views::past_track(&past.store, desk.office.store(), number)?;
        let missing = || Error::not_found(format!("there was no message {number} at record {}", past.until));
        // Holds and runs are known for now, not for then.
        past.answer(track::Answer { track: track.ok_or_else(missing)?, holds: Vec::new(), failed_run: None })
    }
}
