//! Reports which recipients have acknowledged a broadcast, a publication or any message, and when.

use poste_core::log::MessageNo;
use poste_core::views::{self, BroadcastReport};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Access, Answered, Desk, Result, Verb, no_message};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Number of the message
    pub number: MessageNo,
}

impl Verb for Input {
    const NAME: &'static str = "report broadcast";
    const ACCESS: Access = Access::Reads;
    type Answer = BroadcastReport;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<BroadcastReport>> {
        let report = views::broadcast_report(desk.office.store(), self.number)?;
        let report = report.ok_or_else(|| no_message(self.number))?;
        let damage = report.damage.clone();
        Ok(Answered::new(report).damaged(damage))
    }
}
