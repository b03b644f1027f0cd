//! Starts a workflow: its first steps are sent.

use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views::{self, WorkflowView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Given, Inputs, Source, StartError, found, go_on, start};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The name of a definition
    #[schemars(with = "String")]
    pub name: Given,
    /// What it is given, by name
    #[serde(default)]
    pub inputs: Inputs,
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub id: RecordId,
    /// It was started before under this id; there is no second one.
    pub repeat: bool,
    #[serde(flatten)]
    pub view: WorkflowView,
}

impl Verb for Input {
    const NAME: &'static str = "workflow run";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let owner = desk.active_agent()?.name;
        let source = self.name.find(desk.office.path()?)?;
        self.secrets.text("definition", &source.text)?;
        for (name, text) in &self.inputs {
            self.secrets.text(&format!("input {name}"), text)?;
        }
        let id = self.id.unwrap_or_else(|| desk.fresh_id());
        let author = (&owner, desk.caller.session.clone(), desk.caller.via);
        let started = start(desk.office, author, id.clone(), &source, &self.inputs);
        let started = started.map_err(|error| start_error(&source, error))?;
        let workflow = started.workflow;
        desk.note_stored(format!("workflow {workflow}, id {id}"));
        go_on(desk, &workflow)?;
        let view = found(desk.office, &workflow)?;
        desk.say(note!("see how it goes: " [workflow show, workflow = workflow]));
        // A workflow only sends. That its agents are started is somebody else's, and without runs it looks as if nobody does so.
        if nobody_runs(desk.office)? {
            desk.say("no agent runs now; if no dispatcher is there to start them: poste dispatch");
        }
        Ok(Answered::new(Answer { id, repeat: started.repeat, view }))
    }
}

fn nobody_runs(office: &Office) -> Result<bool> {
    Ok(!poste_config::runners(office)?.agents.is_empty() && views::all_running(office.store())?.is_empty())
}

pub(super) fn start_error(source: &Source, error: StartError) -> Error {
    match error {
        StartError::Core(error) => error.into(),
        StartError::Refused(rejection) => rejection.into(),
        StartError::Inputs(why) => {
            Error::usage(why).hint(note!([workflow run, name = source.name] " --input NAME=TEXT"))
        }
        StartError::Unfit(problems) => {
            let first = problems.first().map(ToString::to_string).unwrap_or_default();
            let more = problems.len().saturating_sub(1);
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let file = source.path.display().to_string();
            Error::usage(format!("{file}: {first}{more}"))
                .hint(note!("see everything that is wrong: " [workflow lint, names = file]))
        }
    }
}
