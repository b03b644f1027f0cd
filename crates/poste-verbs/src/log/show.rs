//! Shows records of the log.

use poste_core::Position;
use poste_core::office::head;
use poste_core::views::{self, MalformedView, RecordView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Verb, input};

pub const LIMIT_DEFAULT: u16 = 20;
const LIMIT_MAX: u16 = 1000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Only the record at this log position
    pub position: Option<Position>,
    /// Records after this position; default: the newest
    pub after: Option<Position>,
    /// Maximum number of records
    #[serde(default = "limit")]
    pub limit: u16,
}

fn limit() -> u16 {
    LIMIT_DEFAULT
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The records, oldest first
    pub records: Vec<RecordView>,
    /// Entries among them that are not valid records, if the log is ordered elsewhere
    pub malformed: Vec<MalformedView>,
}

impl Verb for Input {
    const NAME: &'static str = "log show";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        input::check_limit(self.limit, LIMIT_MAX)?;
        let store = desk.office.store();
        let limit = usize::from(self.limit);
        let newest = head(store)?;
        if let Some(position) = self.position {
            let records = Vec::from_iter(views::record(store, position)?);
            let malformed = views::malformed(store, Position(position.0.saturating_sub(1)), position)?;
            return match records.is_empty() && malformed.is_empty() {
                true => Err(Error::not_found(format!("there is no record {position}"))),
                false => Ok(Answered::new(Answer { records, malformed })),
            };
        }
        let after = self.after.unwrap_or(Position(newest.0.saturating_sub(self.limit.into())));
        let records = views::records(store, after, limit)?;
        let until = records.last().filter(|_| records.len() == limit).map_or(newest, |last| last.position);
        let malformed = views::malformed(store, after, until)?;
        Ok(Answered::new(Answer { records, malformed }))
    }
}
