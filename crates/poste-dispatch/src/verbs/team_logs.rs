//! Prints the output of a teammate's current or last run.

use std::io;

use poste_core::Foreign;
use poste_core::text::{Name, Session};
use poste_core::views;
use poste_verbs::{Access, Answered, Desk, Error, Result, Verb, note, unknown_agent};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::run::{Output, RunFolder};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The teammate
    pub name: Name,
    /// This run instead
    pub run: Option<Session>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub agent: Name,
    pub run: Session,
    /// Whether the run has ended.
    pub over: bool,
    pub text: String,
}

impl Verb for Input {
    const NAME: &'static str = "team logs";
    const ACCESS: Access = Access::Reads;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let (name, store) = (&self.name, desk.office.store());
        let is_registered = desk.office.agent(name)?.is_some();
        let run = match self.run {
            _ if !is_registered && !poste_config::runners(desk.office)?.agents.contains_key(name) => None,
            Some(run) => Some(run),
            None => current(desk, name)?,
        };
        let Some(run) = run else {
            return Err(match is_registered {
                true => {
                    Error::not_found(format!("{name} has never run here")).hint(note!("see its state: "[team status]))
                }
                false => unknown_agent(desk.office, name)?,
            });
        };
        let view = views::run(store, &run)?.filter(|view| view.agent == *name);
        let view = view.ok_or_else(|| Error::not_found(format!("{name} has no run {run}")))?;
        if !RunFolder::of(desk.office.path()?, &run).is_there() {
            return Err(Error::not_found(format!(
                "the files of run {run} were deleted, or are on {}",
                Foreign::name(&*view.host)
            ))
            .hint(note!("its last output is in the log: "[log show])));
        }
        let text = match Output::of(desk.office, &run)?.text() {
            Err(none) if none.kind() == io::ErrorKind::NotFound => String::new(),
            text => {
                text.map_err(|error| Error::not_found(format!("could not read the output of run {run}: {error}")))?
            }
        };
        Ok(Answered::new(Answer { agent: self.name, run, over: view.ended_at.is_some(), text }))
    }
}

/// The current run, else the last.
fn current(desk: &Desk<'_>, name: &Name) -> Result<Option<Session>> {
    let store = desk.office.store();
    let running = views::running(store, name)?.pop();
    let last = match running {
        None => views::latest_runs(store, Some(name), 1)?.pop(),
        running => running,
    };
    Ok(last.map(|run| run.run))
}
