//! Shows the office as it was after a record, by folding the log again.
use poste_core::office::head;
use poste_core::store::Store;
use poste_core::store::table_digest::refold_for_reading;
use poste_core::views::{self, PastOffice};
use poste_core::{Position, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reading;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Log position of the last record to fold; default: the newest
    pub until: Option<Position>,
}

/// An answer about the past.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Past<A> {
    #[serde(flatten)]
    pub answer: A,
    /// The time of the state, to which relative times such as "in 5m" refer.
    #[serde(skip)]
    pub at: Timestamp,
}

impl Verb for Input {
    const NAME: &'static str = "log replay";
    const ACCESS: Access = Access::Reads;
    type Answer = Past<PastOffice>;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Past<PastOffice>>> {
        let past = Folded::up_to(desk, self.until)?;
        past.answer(views::past_office(&past.store)?)
    }
}

/// The office up to a record.
pub(super) struct Folded {
    pub(super) store: Store,
    pub(super) until: Position,
}

impl Folded {
    pub(super) fn up_to(desk: &mut Desk<'_>, until: Option<Position>) -> Result<Self> {
        let (office, report) = desk.watched_office();
        let newest = head(office.store())?;
        let until = until.unwrap_or(newest);
        if until > newest || until.0 == 0 {
            return Err(Error::not_found(format!("there is no record {until}"))
                .hint(format!("the newest is {newest}; the first is 1")));
        }
        let store = refold_for_reading(office.store(), until, reading(report, until))?;
        Ok(Self { store, until })
    }

    pub(super) fn answer<A>(&self, answer: A) -> Result<Answered<Past<A>>> {
        Ok(Answered::new(Past { answer, at: views::newest_time(&self.store)? }))
    }
}
