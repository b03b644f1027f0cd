//! Runs the gates of a message without changing anything.

use poste_core::gates::Report;
use poste_core::log::MessageNo;
use poste_core::views;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::explain::no_message;
use crate::{Access, Answered, Desk, Error, Result, Verb, gates};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Whether poste.toml or local.toml has gates for it; if not, only its artifacts were checked.
    pub gated: bool,
    #[serde(flatten)]
    pub report: Report,
}

impl Verb for Input {
    const NAME: &'static str = "verify";
    const ACCESS: Access = Access::Reads;
    const RUNS_COMMANDS: bool = true;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let number = self.number;
        let message = views::message(desk.office.store(), number)?.ok_or_else(|| no_message(number))?;
        let all = poste_config::gates(desk.office)?;
        let own = all.of_message(&message);
        let report = gates::run_unclaimed(desk, &all, &message)?;
        let gated = !own.is_empty();
        let blocked = all.untrusted(&own);
        let failure = match (report.passed, blocked.is_empty(), gated) {
            (true, ..) => None,
            (_, false, _) => {
                Some(gates::untrusted(desk.office, &format!("message {number} cannot be verified"), &blocked))
            }
            (_, _, true) => {
                Some(Error::refused(format!("message {number} does not pass its gates")).code("gate_failed"))
            }
            _ => Some(Error::refused(format!("artifacts of message {number} have changed")).code("artifact_changed")),
        };
        let answered = Answered::new(Answer { gated, report });
        Ok(match failure {
            Some(failure) => answered.with_error(failure),
            None => answered,
        })
    }
}
