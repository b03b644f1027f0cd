//! Starts a workflow: its first steps are sent.

use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views::{self, WorkflowView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Given, Inputs, found, go_on, start};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

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
        let started = start(desk.office, author, id.clone(), &source, &self.inputs)?;
        let workflow = started.workflow;
        desk.note_stored(format!("workflow {workflow}, id {id}"));
        go_on(desk, &workflow)?;
        let view = found(desk.office, &workflow)?;
        desk.say(note!("see how it goes: " [workflow show, workflow = workflow]));
        // A workflow only sends. That its agents are started is somebody else's, and without runs it looks as if nobody does so.
        if nobody_runs(desk.office)? {
            desk.say(note!("no agent runs now; if no dispatcher is there to start them: "[dispatch]));
        }
        Ok(Answered::new(Answer { id, repeat: started.repeat, view }))
    }
}

fn nobody_runs(office: &Office) -> Result<bool> {
    Ok(!poste_config::runners(office)?.agents.is_empty() && views::all_running(office.store())?.is_empty())
}
