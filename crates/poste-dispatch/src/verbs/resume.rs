//! Lifts the hold on an agent, or on one of its messages.

use poste_core::fold::{Code, Effect};
use poste_core::log::{HoldReason, Intent, MessageNo, Position, RunResume};
use poste_core::text::{Name, RecordId};
use poste_core::views;
use poste_verbs::draft::said;
use poste_verbs::secret::Secrets;
use poste_verbs::{Access, Answered, Desk, Result, Verb, note, unknown_agent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::does_not_stay;
use crate::run;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub agent: Name,
    /// Only for this message
    pub number: Option<MessageNo>,
    /// Only a hold with this reason.
    #[serde(skip)]
    pub why: Option<HoldReason>,
    /// Reason, for the log
    pub reason: Option<String>,
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub agent: Name,
    pub message: Option<MessageNo>,
    /// Number of holds lifted; null for a repeat.
    pub lifted: Option<usize>,
    pub id: RecordId,
    pub position: Option<Position>,
    /// Whether the id was used before, so that this had no effect.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "dispatch resume";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let content = match &self.reason {
            Some(reason) => Some(self.secrets.text("reason", said("reason", reason)?)?),
            None => None,
        };
        if desk.office.agent(&self.agent)?.is_none() {
            return Err(unknown_agent(desk.office, &self.agent)?);
        }
        let resume = RunResume { agent: self.agent.clone(), message: self.number, why: self.why };
        let proposal = desk.proposal(Intent::RunResume(resume), content, self.id)?;
        let (outcome, effect) = match desk.decide(&proposal) {
            Err(error) if error.is(Code::NothingToDo) => {
                let runs = !views::running(desk.office.store(), &self.agent)?.is_empty();
                return Err(error.hint(match !runs && run::is_kept(desk.office.path()?, &self.agent) {
                    true => does_not_stay(&self.agent),
                    false => note!("see what is held: "[dispatch status]),
                }));
            }
            decided => decided?,
        };
        let lifted = match effect {
            Effect::Touched(lifted) if !outcome.repeat => Some(lifted),
            _ => None,
        };
        Ok(Answered::new(Answer {
            agent: self.agent,
            message: self.number,
            lifted,
            id: outcome.id,
            position: outcome.position,
            repeat: outcome.repeat,
        }))
    }
}
