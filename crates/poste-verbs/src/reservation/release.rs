//! Frees reserved paths.

use poste_core::Address;
use poste_core::fold::{Effect, Reserved};
use poste_core::log::{Content, Intent, MessageNo, Position, Send, Unreserve};
use poste_core::pattern::Pattern;
use poste_core::text::{Name, RecordId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shortened;
use crate::draft::{one_line, said};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Patterns as they were reserved; none: all of them
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    /// Release the reservations of this agent, and notify it; for its lead and for people
    pub of: Option<Name>,
    /// Reason for the holder; only with of
    pub reason: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Reservations that were released.
    pub released: Vec<Reserved>,
    /// Message that notified the holder, if that is another agent.
    pub told: Option<MessageNo>,
    /// Position of the record in the log.
    pub position: Option<Position>,
    /// The same request was done before under this id; nothing changed.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "release paths";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let other = self.of.clone().filter(|holder| desk.caller.actor.as_ref().is_some_and(|actor| actor != holder));
        let mail = match other {
            Some(holder) => Some(Send::plain("alert".parse()?, vec![Address::Agent(holder)])),
            None => None,
        };
        let content = match (&mail, &self.reason) {
            (Some(_), Some(reason)) => Some(freed(desk, &self.patterns, said("reason", reason)?, self.secrets)?),
            _ => None,
        };
        let intent = Intent::Unreserve(Unreserve { patterns: self.patterns, holder: self.of, mail });
        let proposal = desk.proposal(intent, content, self.id)?;
        let (outcome, effect) = desk.decide(&proposal)?;
        let (released, told) = match effect {
            Effect::Reserved(released) => (released, None),
            Effect::Freed { released, message } => (released, Some(message)),
            _ => return Err(Error::unexpected_effect("it")),
        };
        Ok(Answered::new(Answer { released, told, position: outcome.position, repeat: outcome.repeat }))
    }
}

/// The message to a holder whose paths another agent freed.
fn freed(desk: &Desk<'_>, patterns: &[Pattern], reason: &str, secrets: Secrets) -> Result<Content> {
    let which = match patterns {
        [] => "all your reservations".to_owned(),
        some => some.iter().map(|pattern| one_line(pattern.as_str())).collect::<Vec<_>>().join(" "),
    };
    let subject = shortened(&format!("{} freed {which}", desk.speaker()?));
    let content = Content { subject, ..secrets.text("reason", reason)? };
    secrets.check_as(&content, "reason")?;
    Ok(content)
}
