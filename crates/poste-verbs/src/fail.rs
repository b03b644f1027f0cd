//! Fails a message, for good or for now.

use poste_core::log::{Fail, Intent, MessageNo, Position};
use poste_core::store::tables::Event;
use poste_core::text::RecordId;
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answer::Changed;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// The reason
    pub reason: String,
    /// Not final: try again later
    #[serde(default)]
    pub retry: bool,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "fail";
    const ACCESS: Access = Access::Writes;
    type Answer = Changed;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Changed>> {
        let number = self.number;
        let content = self.secrets.text("reason", &self.reason)?;
        let intent = Intent::Fail(Fail { message: number, token: self.token, retry: self.retry, delay_ms: None });
        let proposal = desk.proposal(intent, Some(content), self.id)?;
        let (outcome, _) = desk.decide(&proposal)?;
        let is_dead = self.retry && ended_dead(desk, number, outcome.position)?;
        let what = match (self.retry, is_dead) {
            (false, _) => "failed",
            (true, false) => "attempt failed",
            (true, true) => "last attempt failed, dead now",
        };
        let next = match is_dead {
            true => note!("its sender is notified; retry it: " [retry, number = number]),
            false => note!("follow it: " [track, number = number]),
        };
        Ok(Answered::new(Changed::new(number, what, &outcome)).next(next))
    }
}

/// Whether this record used up the last attempt.
fn ended_dead(desk: &Desk<'_>, number: MessageNo, position: Option<Position>) -> Result<bool> {
    let Some(track) = views::track(desk.office.store(), number, desk.now()?)? else { return Ok(false) };
    let mut steps = track.deliveries.iter().flat_map(|delivery| &delivery.history);
    Ok(steps.any(|step| Some(step.position) == position && step.event == Event::Dead))
}
