//! Decides the approval that a step of a workflow waits for: with its first choice, or another one.

use poste_core::MessageNo;
use poste_core::store::tables::{TaskState, WorkflowState};
use poste_core::text::{Label, RecordId, Word};
use poste_core::views::WorkflowView;
use schemars::JsonSchema;
use serde::Deserialize;

use super::found;
use crate::approve::{Answer, decide};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb, input};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name of the workflow, such as review-1
    pub workflow: Label,
    /// Step to decide; needed if more than one waits
    pub step: Option<Label>,
    /// Choice to make; default: the first
    pub choice: Option<Word>,
    /// Note to the asker, in Markdown
    #[serde(default, deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub note: Vec<u8>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "workflow approve";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let view = found(desk.office, &self.workflow)?;
        let (number, first) = question(&view, self.step.as_ref())?;
        decide(desk, number, self.choice.unwrap_or(first), self.note, self.id, self.secrets)
    }
}

/// The one pending approval, and its first choice.
fn question(view: &WorkflowView, step: Option<&Label>) -> Result<(MessageNo, Word)> {
    let mut asked: Vec<(&Label, MessageNo, &Word)> = Vec::new();
    for it in view.steps.iter().filter(|it| step.is_none_or(|step| it.key == *step)) {
        let open = it.tasks.iter().filter(|task| task.state == TaskState::Open);
        asked.extend(open.filter_map(|task| Some((&it.key, task.message, task.choices.first()?))));
    }
    let workflow = &view.workflow;
    match asked.as_slice() {
        [(_, number, first)] => Ok((*number, (*first).clone())),
        [] => {
            let error = Error::refused(format!("no step waits for a decision in {workflow}"))
                .code("nothing_to_do")
                .hint(note!("see its state: " [workflow show, workflow = workflow]));
            Err(match view.state == WorkflowState::Failed {
                true => error.hint(note!("retry failed steps: " [workflow retry, workflow = workflow])),
                false => error,
            })
        }
        several => {
            let keys: Vec<String> = several.iter().map(|(key, number, _)| format!("{key} (#{number})")).collect();
            let error = Error::usage(format!("several steps wait for a decision: {}", keys.join(", ")));
            Err(error.hint(note!(
                "name the step: " [workflow approve, workflow = workflow, step = "STEP"] ", or: " [approve, number = "N"]
            )))
        }
    }
}
