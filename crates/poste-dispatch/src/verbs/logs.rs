//! Prints the output of a run.

use poste_core::log::{MessageNo, RunOutcome};
use poste_core::text::{Name, Session};
use poste_core::views;
use poste_verbs::{Access, Answered, Desk, Result, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find_run;
use crate::run::Output;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A run, or a message number for its last run
    pub run: String,
    /// Return only the run, whose output is then followed
    #[serde(skip)]
    pub follows: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub run: Session,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
    /// Null: it has not ended.
    pub how: Option<RunOutcome>,
    /// Why it failed, unless its output says so.
    pub why: Option<String>,
    /// Both streams, as far as they are kept.
    pub output: String,
}

impl Verb for Input {
    const NAME: &'static str = "dispatch logs";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let run = find_run(desk.office, &self.run)?;
        // The folder has more of it than the log, until it is deleted.
        let output = match Output::of(desk.office, &run.run)?.text() {
            _ if self.follows => String::new(),
            Ok(text) => text,
            Err(_) => views::printed(desk.office.store(), &run.run)?.unwrap_or_default(),
        };
        let why = run.said.filter(|_| run.how.is_some() && run.code.is_none());
        let nothing = match run.how.is_some() {
            _ if self.follows || !output.is_empty() => None,
            true => Some("it printed nothing"),
            false => Some("it has printed nothing yet"),
        };
        let first = why.iter().filter(|_| !self.follows).map(|why| why.as_str().into()).collect();
        let answer = Answer { run: run.run, agent: run.agent, messages: run.messages, how: run.how, why, output };
        let next = nothing.into_iter().map(Into::into).collect();
        Ok(Answered { first, next, ..Answered::new(answer) })
    }
}
