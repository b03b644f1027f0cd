//! Shows records as they are.

use poste_core::Position;
use poste_core::office::head;
use poste_core::views::{self, RecordView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Verb, input};

pub const LIMIT_DEFAULT: u16 = 20;
const LIMIT_MAX: u16 = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Only this record
    pub position: Option<Position>,
    /// Records after this one; otherwise the newest
    pub after: Option<Position>,
    /// At most so many
    #[serde(default = "limit")]
    pub limit: u16,
}

fn limit() -> u16 {
    LIMIT_DEFAULT
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub records: Vec<RecordView>,
}

impl Verb for Input {
    const NAME: &'static str = "log show";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        let store = desk.office.store();
        let limit = self.limit.into();
        let records = match (self.position, self.after) {
            (Some(position), _) => {
                let record = views::record(store, position)?;
                vec![record.ok_or_else(|| Error::not_found(format!("there is no record {position}")))?]
            }
            (None, Some(after)) => views::records(store, after, limit)?,
            (None, None) => {
                let newest = head(store)?;
                let after = Position(newest.0.saturating_sub(self.limit.into()));
                views::records(store, after, limit)?
            }
        };
        Ok(Answered::new(Answer { records }))
    }
}
