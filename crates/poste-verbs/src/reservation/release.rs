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
    /// As they were reserved; none: all of them
    #[serde(default)]
    pub patterns: Vec<Pattern>,
    /// What this agent reserved; for its lead and for humans. It is told
    pub of: Option<Name>,
    /// With of: why
    pub reason: Option<String>,
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// What is free again.
    pub released: Vec<Reserved>,
    /// The message that told the holder, if it is another one.
    pub told: Option<MessageNo>,
    /// The record that did it.
    pub position: Option<Position>,
    /// The same was done before, under the same id.
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
            _ => return Err(Error::odd_effect("it")),
        };
        Ok(Answered::new(Answer { released, told, position: outcome.position, repeat: outcome.repeat }))
    }
}

/// What the holder is told whose paths another one freed.
fn freed(desk: &Desk<'_>, patterns: &[Pattern], reason: &str, secrets: Secrets) -> Result<Content> {
    let which = match patterns {
        [] => "all that you reserved".to_owned(),
        some => some.iter().map(|pattern| one_line(pattern.as_str())).collect::<Vec<_>>().join(" "),
    };
    let subject = shortened(&format!("{} freed {which}", desk.speaker()?));
    let content = Content { subject, ..secrets.text("reason", reason)? };
    secrets.check_as(&content, "reason")?;
    Ok(content)
}
