//! Explains how a reservation came to its state.

use poste_core::log::ReservationNo;
use poste_core::views::{self, ReservationWhy};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The reservation's number
    pub reservation: u64,
}

impl Verb for Input {
    const NAME: &'static str = "log why reservation";
    const ACCESS: Access = Access::Reads;
    type Answer = ReservationWhy;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<ReservationWhy>> {
        let why = views::why_reservation(desk.office.store(), ReservationNo(self.reservation))?;
        let missing = || {
            Error::not_found(format!("there is no reservation {}", self.reservation))
                .hint(note!("list reservations: " [reservations, all = true]))
        };
        Ok(Answered::new(why.ok_or_else(missing)?))
    }
}
