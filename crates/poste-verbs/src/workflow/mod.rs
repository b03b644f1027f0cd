//! Workflows: a definition is read and checked, started once, and advanced by any command.
//!
//! ```text
//!  NAME.toml ── lint ──▶ Definition ── start ──▶ workflow.start        the log keeps the definition, too
//!                                                    │
//!        plan(definition, inputs, what happened) ◀───┘   views::workflow
//!                     │ acts
//!                     ▼
//!                  advance ──▶ workflow.step · workflow.mark · workflow.end
//! ```

pub mod advance;
pub mod approve;
pub mod cancel;
mod check;
mod definition;
pub mod definitions;
mod engine;
#[allow(clippy::disallowed_methods, reason = "definitions are files of the office and beside it")]
mod files;
pub mod graph;
pub mod lint;
pub mod list;
mod plan;
pub mod render;
pub mod retry;
pub mod run;
pub mod show;
mod source;
mod words;

use poste_config::Trust;
use poste_config::trust::changed_lines;
use poste_core::Foreign;
use poste_core::log::Intent;
use poste_core::office::Office;
use poste_core::store::tables::{Agent, WorkflowState};
use poste_core::text::{Label, RecordId, nearest};
use poste_core::views::{self, WorkflowView};
use poste_core::vocabulary::AgentKind;
use schemars::JsonSchema;
use serde::Serialize;

pub use check::{AnyAddress, Known, lint};
pub use definition::{Definition, ForEach, Input, OnFail, Step, Target};
pub use engine::{
    Advanced, Registered, Started, advance, advance_news, advance_news_of, advance_one, began, proposal_of, start,
};
pub use files::{FOLDER, Given, Source, definitions, no_workflow};
pub use plan::{Act, Inputs, Pending, Task, plan};
pub use source::Format;

use crate::actions::CarriedOut;
use crate::draft::said;
use crate::secret::Secrets;
use crate::{Answered, Desk, Error, Result};

/// The answer of verbs that change a workflow.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Changed {
    /// Name of the workflow.
    pub workflow: Label,
    /// State of the workflow after the change.
    pub state: WorkflowState,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// The change was already made under this id; nothing happened.
    pub repeat: bool,
}

/// A definition as a person reviews it: started by a person, it sends its mail in the person's name.
pub(crate) fn candidate(office: &Office, source: &Source) -> Result<poste_config::Candidate> {
    let file = poste_config::trust::name_of(office, &source.path)?;
    let speaks = poste_config::Command {
        key: "workflow".to_owned(),
        line: 1,
        command: "its messages, in your name".to_owned(),
        ..poste_config::Command::default()
    };
    let kind = poste_config::trust::Kind::Workflow;
    Ok(poste_config::Candidate { kind, file, text: source.text.clone(), commands: vec![speaks] })
}

/// Refuses a definition that would speak as a person who has not reviewed it.
fn check_trust(office: &Office, owner: &Agent, source: &Source) -> Result {
    let candidate = candidate(office, source)?;
    let file = Foreign::name(&*candidate.file);
    let why = match poste_config::trust::trust(office, &candidate)? {
        _ if owner.kind != AgentKind::Human => return Ok(()),
        Trust::Trusted(_) => return Ok(()),
        Trust::Never => format!("{file} was never trusted here"),
        Trust::Changed(reviewed) => {
            let lines = Foreign::lines(changed_lines(&reviewed, &candidate.text, 4).join("\n"));
            format!("{file} changed since {} trusted it:{lines}", reviewed.by)
        }
    };
    let error = Error::refused(format!("{} would speak as {}, who has not trusted it", source.name, owner.name));
    let workflow = match source.is_of(office.path()?) {
        true => source.name.to_string(),
        false => source.path.display().to_string(),
    };
    Err(error.code("untrusted").cause(why).hint(note!("read it, then trust it: " [trust, workflow = workflow])))
}

/// Proposes a change of a workflow, and advances it.
fn change(
    desk: &mut Desk<'_>,
    workflow: Label,
    intent: Intent,
    reason: Option<&str>,
    id: Option<RecordId>,
    secrets: Secrets,
) -> Result<Answered<Changed>> {
    let content = reason.map(|reason| secrets.text("reason", said("reason", reason)?)).transpose()?;
    if found(desk.office, &workflow)?.name.is_none() {
        return Err(Error::refused(format!("{workflow} is only a label that messages carry"))
            .code("unknown_workflow")
            .hint("retry, drop or close the messages themselves"));
    }
    let proposal = desk.proposal(intent, content, id)?;
    let (outcome, _) = desk.decide(&proposal)?;
    advance_and_warn(desk, &workflow)?;
    let state = found(desk.office, &workflow)?.state;
    Ok(Answered::new(Changed { workflow, state, id: outcome.id, repeat: outcome.repeat }))
}

/// Advances a workflow before its state is returned.
fn advance_and_warn(desk: &mut Desk<'_>, workflow: &Label) -> Result {
    let mut advanced = Advanced::default();
    advance_one(desk.office, desk.caller.via, workflow, &mut advanced)?;
    advanced.waiting.into_iter().for_each(|why| desk.warn(why));
    Ok(())
}

/// Advances every workflow in which something has ended: the process that ended it may have died before advancing it.
fn advance_ended(desk: &mut Desk<'_>) {
    let mut done = CarriedOut::default();
    done.advanced(advance_news(desk.office, desk.caller.via));
    done.all_warnings().into_iter().for_each(|why| desk.warn(why));
}

/// Finds a workflow by name.
fn found(office: &Office, workflow: &Label) -> Result<WorkflowView> {
    if let Some(view) = views::workflow(office.store(), workflow)? {
        return Ok(view);
    }
    let known = views::workflows(office.store(), true, 1_000)?;
    let near = nearest(workflow.as_str(), known.iter().map(|line| line.workflow.as_str()));
    let error = no_workflow(workflow.as_str());
    Err(match near.first() {
        Some(near) => error.hint(format!("did you mean {near}?")),
        None => error.hint(note!("see all workflows: " [workflow list, all = true])),
    })
}
