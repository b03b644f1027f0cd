//! Sends several messages in one transaction.

use poste_core::fold::{Effect, Verdict};
use poste_core::log::{MessageNo, Sealed};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::explain;
use crate::{Access, Answered, Desk, Error, Note, Result, Verb, send};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The messages, in order
    pub messages: Vec<send::Input>,
    /// Idempotency key: repeating the batch with it resumes; messages without an id get one derived from it
    pub id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The outcome of each message, in the same order.
    pub lines: Vec<Line>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "line", rename_all = "snake_case")]
pub enum Line {
    Sent {
        number: MessageNo,
    },
    /// The id was used before; nothing new was stored.
    Repeat,
    Refused {
        reason: String,
        #[serde(skip)]
        hints: Vec<Note>,
    },
}

impl From<Error> for Line {
    fn from(error: Error) -> Self {
        Self::Refused { reason: error.message, hints: error.hints }
    }
}

impl Verb for Input {
    const NAME: &'static str = "send batch";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        desk.agent()?; // without a sender, report one error instead of one per message
        let mut lines: Vec<Option<Line>> = Vec::new();
        let mut proposals = Vec::new();
        for (n, mut message) in (1..).zip(self.messages) {
            set_id(&mut message, self.id.as_ref(), n);
            lines.push(match proposal(desk, message) {
                Ok(proposal) => {
                    proposals.push(proposal);
                    None
                }
                Err(error) => Some(error.into()),
            });
        }
        let outcomes = if proposals.is_empty() { Vec::new() } else { desk.submit(&proposals)? };
        let mut decided = proposals.iter().zip(outcomes);
        let mut all = Vec::with_capacity(lines.len());
        for line in lines {
            let line = match line {
                Some(refused) => refused,
                None => {
                    let Some((proposal, outcome)) = decided.next() else {
                        return Err(Error::internal("the office did not answer a message"));
                    };
                    match outcome.verdict {
                        Verdict::Rejected(rejection) => explain(desk.office, proposal, rejection.into())?.into(),
                        Verdict::Accepted(_) if outcome.repeat => Line::Repeat,
                        Verdict::Accepted(Effect::Sent(sent)) => Line::Sent { number: sent.number },
                        Verdict::Accepted(_) => return Err(Error::unexpected_effect("a message")),
                    }
                }
            };
            all.push(line);
        }
        Ok(Answered::new(Answer { lines: all }))
    }
}

/// Derives the id of a message without one from the batch's id and the line.
pub fn set_id(message: &mut send::Input, batch: Option<&RecordId>, line: u64) {
    let id = &mut message.message.id;
    *id = id.take().or_else(|| batch.map(|batch| batch.then(line)));
}

fn proposal(desk: &Desk<'_>, input: send::Input) -> Result<poste_core::log::Proposal> {
    let proposal = input.proposal(desk)?;
    // Sealed here to check limits: a message over one is refused alone, not with the whole transaction.
    Sealed::seal(&proposal, desk.office.machine()?).map_err(poste_core::Error::from)?;
    Ok(proposal)
}
