//! Shows the history of a message for each recipient, with times and reasons.

use poste_core::log::MessageNo;
use poste_core::office::Office;
use poste_core::store::tables::State;
use poste_core::text::Name;
use poste_core::views::{self, HoldView, RunView, Track};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::no_message;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub track: Track,
    /// Holds that keep agents from being started for it.
    pub holds: Vec<HoldView>,
    /// The last run for it, if that failed.
    #[serde(skip)]
    pub failed_run: Option<RunView>,
}

impl Verb for Input {
    const NAME: &'static str = "track";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let store = desk.office.store();
        let track = views::track(store, self.number, desk.now()?)?.ok_or_else(|| no_message(self.number))?;
        let failed_run = views::runs_of(store, self.number)?.pop().filter(RunView::is_failed);
        let holds = holds_on(desk.office, &track)?;
        Ok(Answered::new(Answer { track, holds, failed_run }))
    }
}

/// Holds on the message, and on recipients that may still be started for it.
pub fn holds_on(office: &Office, track: &Track) -> Result<Vec<HoldView>> {
    let mut found = Vec::new();
    for delivery in track.deliveries.iter().filter(|delivery| delivery.state == State::Pending) {
        let Ok(agent) = delivery.recipient.parse::<Name>() else { continue };
        let holds = views::holds(office.store(), &agent, office.now()?)?;
        found.extend(holds.into_iter().filter(|hold| hold.message.is_none_or(|message| message == track.number)));
    }
    Ok(found)
}
