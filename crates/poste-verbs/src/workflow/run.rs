//! Starts a workflow, and sends its first steps.

use poste_core::log::Author;
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views::{self, WorkflowView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Given, Inputs, advance_and_warn, check_trust, found, start};
use crate::secret::Secrets;
use crate::{Access, Answered, Caller, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the definition
    #[schemars(with = "String")]
    pub name: Given,
    /// Values of its inputs, by name
    #[serde(default)]
    pub inputs: Inputs,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// Idempotency key of this write.
    pub id: RecordId,
    /// The workflow was already started under this id; no second one was started.
    pub repeat: bool,
    #[serde(flatten)]
    pub view: WorkflowView,
}

impl Verb for Input {
    const NAME: &'static str = "workflow run";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let owner = desk.active_agent()?;
        let source = self.name.find(desk.office.path()?)?;
        check_trust(desk.office, &owner, &source)?;
        self.secrets.text("definition", &source.text)?;
        for (name, text) in &self.inputs {
            self.secrets.text(&format!("input {name}"), text)?;
        }
        let id = self.id.unwrap_or_else(|| desk.fresh_id());
        let Caller { session, via, proof, .. } = desk.caller;
        let author = Author { actor: owner.name, session: session.clone(), via: *via, proof: *proof };
        let started = start(desk.office, &author, id.clone(), &source, &self.inputs)?;
        let workflow = started.workflow;
        desk.note_stored(format!("workflow {workflow}, id {id}"));
        advance_and_warn(desk, &workflow)?;
        let view = found(desk.office, &workflow)?;
        desk.say(note!("follow it: " [workflow show, workflow = workflow]));
        // A workflow only sends messages. A dispatcher starts the agents, and without runs there may be none.
        if no_agent_runs(desk.office)? {
            desk.say(note!("no agent is running; if no dispatcher starts them: "[dispatch]));
        }
        Ok(Answered::new(Answer { id, repeat: started.repeat, view }))
    }
}

fn no_agent_runs(office: &Office) -> Result<bool> {
    Ok(!poste_config::runners(office)?.agents.is_empty() && views::all_running(office.store())?.is_empty())
}
