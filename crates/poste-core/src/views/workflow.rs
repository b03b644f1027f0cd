//! Workflows for people and engines: every step with its messages and results.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::rows::{MessageRows, or_damage, rows};
use super::track::first_line;
use super::{Found, content, envelope};
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{Artifact, Content, Intent, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{
    Approval, Delivery, EndReason, State, StepRow, StepState, Tables, TaskPart, TaskRow, TaskState, WorkflowRow,
    WorkflowState,
};
use crate::text::{Label, Name, Word};
use crate::time::{Timestamp, rfc3339, rfc3339_option};

/// A workflow, or messages that only carry its label.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkflowView {
    pub workflow: Label,
    /// The definition it was started from; none for messages that only carry its label.
    pub name: Option<Label>,
    pub state: WorkflowState,
    /// The agent in whose name it sends.
    pub owner: Option<Name>,
    pub lead: Option<Name>,
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    /// Why it ended, if a reason was given.
    pub reason: Option<String>,
    #[schemars(with = "Option<String>")]
    pub digest: Option<Digest>,
    pub steps: Vec<StepView>,
    #[serde(skip)]
    pub position: Option<Position>,
}

impl WorkflowView {
    pub fn is_open(&self) -> bool {
        self.state == WorkflowState::Open
    }

    pub fn step(&self, key: &str) -> Option<&StepView> {
        self.steps.iter().find(|step| step.key == key)
    }

    /// Number of steps that need nothing more.
    pub fn settled(&self) -> usize {
        self.steps.iter().filter(|step| step.is_settled()).count()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StepView {
    pub key: Label,
    pub state: StepState,
    /// The round of a loop; 1 without a loop.
    pub round: u32,
    pub max_rounds: u32,
    pub granted: u32,
    pub needs: Vec<Label>,
    /// The step that replaces it when it fails.
    pub instead: Option<Label>,
    #[serde(serialize_with = "rfc3339_option")]
    pub marked_at: Option<Timestamp>,
    /// Why it waits, failed or was skipped.
    pub reason: Option<String>,
    /// Messages sent for it, the oldest first.
    pub tasks: Vec<TaskView>,
    #[serde(skip)]
    pub again: Vec<Label>,
}

impl StepView {
    pub fn is_settled(&self) -> bool {
        matches!(self.state, StepState::Done | StepState::Skipped | StepState::Failed)
    }

    /// The messages of its newest round.
    pub fn current(&self) -> impl Iterator<Item = &TaskView> {
        self.tasks.iter().filter(|task| task.round == self.round)
    }

    /// An agent has it, or it waits in an inbox.
    pub fn is_running(&self) -> bool {
        self.current().any(|task| task.state == TaskState::Open)
    }
}

/// One message of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskView {
    pub message: MessageNo,
    pub part: TaskPart,
    pub round: u32,
    pub item: u32,
    pub of: u32,
    pub attempt: u32,
    pub to: Option<String>,
    /// The agent that took it.
    pub by: Option<Name>,
    pub state: TaskState,
    /// The state of its delivery.
    pub delivery: Option<State>,
    pub why: Option<EndReason>,
    #[serde(serialize_with = "rfc3339")]
    pub sent_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    /// The earlier message it waits for.
    pub held_by: Option<MessageNo>,
    /// The decision of a question.
    pub choice: Option<Word>,
    /// The choices of an open question.
    pub choices: Vec<Word>,
    pub result: Option<TaskResult>,
}

/// The result of a message of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskResult {
    /// The answering message, if it was a reply.
    pub message: Option<MessageNo>,
    pub summary: Option<String>,
    pub text: String,
    /// The structured part, as given.
    #[serde(serialize_with = "as_json")]
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<String>,
    pub files: Vec<Artifact>,
    /// The content was erased.
    pub redacted: bool,
}

fn as_json<S: serde::Serializer>(json: &Option<String>, serializer: S) -> Result<S::Ok, S::Error> {
    let raw = json.as_ref().and_then(|json| RawValue::from_string(json.clone()).ok());
    raw.serialize(serializer)
}

/// A line of a list of workflows.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkflowLine {
    pub workflow: Label,
    pub name: Option<Label>,
    pub state: WorkflowState,
    pub owner: Option<Name>,
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    pub steps: usize,
    pub settled: usize,
    /// Steps that are running, waiting or failed now.
    pub now: Vec<Label>,
}

/// The content a workflow was started with, for advancing it.
#[derive(Debug, Clone)]
pub enum Began {
    With(Box<Content>),
    /// It was erased or cannot be read, so the workflow cannot be advanced.
    Gone,
}

/// The workflow with this label, or, if none was started, the messages that carry the label.
pub fn workflow(store: &Store, label: &Label) -> Result<Option<WorkflowView>, Error> {
    store.view(|tables| match tables.workflow(label)? {
        Some(row) => view(store, tables, row).map(Some),
        None => by_label(store, tables, label),
    })
}

/// Open workflows, or only the given one, oldest first. Cheap: only the open steps of each, and no content.
pub fn open_workflows(store: &Store, only: Option<&Label>) -> Result<Vec<WorkflowView>, Error> {
    let outline = |tables: &Tables<'_>, row: WorkflowRow| {
        let steps = tables.steps_of_workflow(row.number)?;
        let mut tasks: BTreeMap<u32, Vec<TaskView>> = BTreeMap::new();
        for step in steps.iter().filter(|step| !step.is_settled()) {
            let rows = tables.tasks_of_step(row.number, step.ordinal, step.round)?;
            for task in rows {
                let asked = match task.part {
                    TaskPart::Question => tables.approval(task.message)?,
                    TaskPart::Work => None,
                };
                tasks.entry(step.ordinal).or_default().push(task_outline(&task, asked));
            }
        }
        Ok(assemble(row, &steps, tasks))
    };
    store.view(|tables| {
        let rows = match only {
            None => tables.open_workflows()?,
            Some(label) => tables.workflow(label)?.filter(WorkflowRow::is_open).into_iter().collect(),
        };
        rows.into_iter().map(|row| outline(tables, row)).collect()
    })
}

/// The definition and the inputs of a workflow.
pub fn workflow_began(store: &Store, workflow: &WorkflowView) -> Result<Began, Error> {
    let Some(position) = workflow.position else { return Ok(Began::Gone) };
    Ok(match or_damage(content(store, position))? {
        Ok(Found::Content(content)) => Began::With(content),
        Ok(Found::Never | Found::Gone | Found::Redacted(_)) | Err(_) => Began::Gone,
    })
}

/// The newest workflows, including those without a definition.
pub fn workflows(store: &Store, all: bool, limit: usize) -> Result<Vec<WorkflowLine>, Error> {
    store.view(|tables| {
        let rows = match all {
            true => tables.newest_workflows(limit)?,
            false => tables.open_workflows()?.into_iter().rev().take(limit).collect(),
        };
        let mut lines = Vec::new();
        for row in rows {
            let steps = tables.steps_of_workflow(row.number)?;
            let tasks = tables.tasks_of_workflow(row.number)?;
            let is_now = |step: &&StepRow| {
                let runs = tasks.iter().any(|task| task.step == step.ordinal && task.is_open());
                row.is_open() && (runs || matches!(step.state, StepState::Waiting | StepState::Failed))
            };
            lines.push(WorkflowLine {
                now: steps.iter().filter(is_now).map(|step| step.key.clone()).collect(),
                steps: steps.len(),
                settled: steps.iter().filter(|step| step.is_settled()).count(),
                workflow: row.label,
                name: Some(row.name),
                state: row.state,
                owner: Some(row.owner),
                started_at: row.at,
                ended_at: row.ended_at,
            });
        }
        for label in carried(tables, limit)? {
            if tables.workflow(&label)?.is_some() {
                continue;
            }
            let Some(view) = by_label(store, tables, &label)? else { continue };
            if !all && !view.is_open() {
                continue;
            }
            let now = view.steps.iter().filter(|step| step.is_running()).map(|step| step.key.clone()).collect();
            lines.push(WorkflowLine {
                workflow: label,
                name: None,
                state: view.state,
                owner: None,
                started_at: view.started_at,
                ended_at: view.ended_at,
                steps: view.steps.len(),
                settled: view.settled(),
                now,
            });
        }
        lines.sort_by_key(|line| std::cmp::Reverse(line.started_at));
        lines.truncate(limit);
        Ok(lines)
    })
}

fn view(store: &Store, tables: &Tables<'_>, row: WorkflowRow) -> Result<WorkflowView, Error> {
    let steps = tables.steps_of_workflow(row.number)?;
    let mut tasks: BTreeMap<u32, Vec<TaskView>> = BTreeMap::new();
    for task in tables.tasks_of_workflow(row.number)? {
        let step = task.step;
        tasks.entry(step).or_default().push(task_view(store, tables, &task)?);
    }
    let why = |position: Option<Position>| position.map(|position| reason(store, position)).transpose();
    let ended = match row.ended_by.map(|position| intent_at(store, position)).transpose()?.flatten() {
        Some(Intent::Retire(_)) => Some(format!("its owner {} retired, and it has no lead", row.owner)),
        _ => why(row.ended_by)?.flatten(),
    };
    let mut view = assemble(row, &steps, tasks);
    for (view, step) in view.steps.iter_mut().zip(&steps) {
        view.reason = why(step.marked_by)?.flatten();
    }
    Ok(WorkflowView { reason: ended, ..view })
}

fn assemble(row: WorkflowRow, steps: &[StepRow], mut tasks: BTreeMap<u32, Vec<TaskView>>) -> WorkflowView {
    let key = |ordinal: &u32| steps.iter().find(|step| step.ordinal == *ordinal).map(|step| step.key.clone());
    let steps = steps.iter().map(|step| StepView {
        key: step.key.clone(),
        state: step.state,
        round: step.round,
        max_rounds: step.max_rounds,
        granted: step.granted,
        needs: step.needs.iter().filter_map(key).collect(),
        instead: step.instead.as_ref().and_then(key),
        marked_at: step.marked_at,
        reason: None,
        tasks: tasks.remove(&step.ordinal).unwrap_or_default(),
        again: step.again.iter().filter_map(key).collect(),
    });
    WorkflowView {
        workflow: row.label,
        name: Some(row.name),
        state: row.state,
        owner: Some(row.owner),
        lead: row.lead,
        started_at: row.at,
        ended_at: row.ended_at,
        reason: None,
        digest: Some(row.digest),
        steps: steps.collect(),
        position: Some(row.position),
    }
}

/// The text of a record in one line; `None` if it cannot be read.
fn reason(store: &Store, position: Position) -> Result<Option<String>, Error> {
    Ok(match or_damage(content(store, position))? {
        // The text of a message is for its recipient; the reason is in its summary.
        Ok(Found::Content(content)) if !content.subject.is_empty() => content.summary,
        Ok(Found::Content(content)) => first_line(*content),
        Ok(Found::Redacted(_)) => Some("(redacted)".to_owned()),
        Ok(Found::Never | Found::Gone) | Err(_) => None,
    })
}

/// A task without its delivery and result.
fn task_outline(task: &TaskRow, approval: Option<Approval>) -> TaskView {
    TaskView {
        message: task.message,
        part: task.part,
        round: task.round,
        item: task.item,
        of: task.of,
        attempt: task.attempt,
        to: None,
        by: None,
        state: task.state,
        delivery: None,
        why: None,
        sent_at: task.at,
        ended_at: task.ended_at,
        held_by: None,
        choice: approval.as_ref().and_then(|approval| approval.choice.clone()),
        choices: approval.filter(|approval| approval.is_open()).map(|approval| approval.choices).unwrap_or_default(),
        result: None,
    }
}

fn task_view(store: &Store, tables: &Tables<'_>, task: &TaskRow) -> Result<TaskView, Error> {
    let mut view = task_outline(task, tables.approval(task.message)?);
    // An unreadable archive must not hide the course of the workflow.
    let found = or_damage(rows(store, tables, task.message))?.ok().flatten();
    let delivery = found.and_then(|MessageRows { deliveries, .. }| deliveries.into_iter().next());
    if let Some(delivery) = delivery {
        read_delivery(store, tables, &mut view, &delivery)?;
    }
    // Without a note, the choice is the result.
    if let (Some(choice), Some(result)) = (&view.choice, &mut view.result)
        && result.text.trim().is_empty()
        && !result.redacted
    {
        result.text = choice.to_string();
    }
    Ok(view)
}

fn read_delivery(store: &Store, tables: &Tables<'_>, view: &mut TaskView, delivery: &Delivery) -> Result<(), Error> {
    view.to = Some(delivery.address.to_string());
    view.by.clone_from(&delivery.holder);
    view.delivery = Some(delivery.state);
    view.why = delivery.reason;
    view.result = match (delivery.answer, delivery.ended_by) {
        (Some(first), ended_by) if delivery.state == State::Done => {
            // A recipient may reply with questions first: the answer is the last reply before the delivery ended.
            let last = tables.maybe(
                "SELECT number FROM messages WHERE reply_to = ?1 AND sender = ?2 AND position <= ?3 AND notice IS NULL
                 ORDER BY number DESC LIMIT 1",
                (delivery.message, &delivery.holder, ended_by),
            )?;
            let answer = last.unwrap_or(first);
            let position = tables.position_of(answer)?;
            position.map(|position| result(store, position, Some(answer))).transpose()?.flatten()
        }
        (_, Some(position)) if !matches!(delivery.reason, Some(EndReason::RecipientRetired)) => {
            result(store, position, None)?
        }
        _ => None,
    };
    Ok(())
}

fn intent_at(store: &Store, position: Position) -> Result<Option<Intent>, Error> {
    let record = or_damage(envelope(store, position))?.ok().flatten();
    Ok(record.and_then(|record| record.sealed.intent().ok().flatten()))
}

fn result(store: &Store, position: Position, message: Option<MessageNo>) -> Result<Option<TaskResult>, Error> {
    let intent = intent_at(store, position)?;
    // Only a record of the recipient has a result, not a tick or the end of the workflow.
    let Some(intent) = intent.filter(|intent| {
        message.is_some()
            || matches!(intent, Intent::Done(_) | Intent::Fail(_) | Intent::Ack(_) | Intent::GateResult(_))
    }) else {
        return Ok(None);
    };
    let mut found = TaskResult {
        message,
        summary: None,
        text: String::new(),
        payload: None,
        files: intent.artifacts().to_vec(),
        redacted: false,
    };
    match or_damage(content(store, position))? {
        Ok(Found::Content(content)) => {
            found.text = content.body.text().into_owned();
            if found.text.trim().is_empty() {
                found.text = content.summary.clone().unwrap_or_default();
            }
            found.payload = content.payload.as_ref().map(|payload| payload.get().to_owned());
            found.summary = first_line(*content);
        }
        Ok(Found::Redacted(_)) => found.redacted = true,
        Ok(Found::Never | Found::Gone) | Err(_) => {}
    }
    Ok(Some(found))
}

/// Labels that live messages carry.
fn carried(tables: &Tables<'_>, limit: usize) -> Result<Vec<Label>, Error> {
    let sql = "SELECT workflow FROM messages WHERE workflow IS NOT NULL AND notice IS NULL
               GROUP BY workflow ORDER BY max(number) DESC LIMIT ?1";
    tables.column(sql, [limit])
}

/// Messages that carry one label, shown as a workflow with the steps they name.
fn by_label(store: &Store, tables: &Tables<'_>, label: &Label) -> Result<Option<WorkflowView>, Error> {
    let sql = "SELECT number FROM messages WHERE workflow = ?1 AND notice IS NULL AND step IS NOT NULL
               ORDER BY number LIMIT 1000";
    let numbers: Vec<MessageNo> = tables.column(sql, [label])?;
    let mut steps: Vec<StepView> = Vec::new();
    let mut started_at = None;
    for number in numbers {
        let Some(message) = tables.message(number)? else { continue };
        let Some(key) = message.step.clone() else { continue };
        started_at.get_or_insert(message.at);
        for delivery in tables.deliveries_of(number)? {
            let task = carried_task(store, tables, number, message.at, &delivery)?;
            match steps.iter_mut().find(|step| step.key == key) {
                Some(step) => step.tasks.push(task),
                None => steps.push(carried_step(key.clone(), task)),
            }
        }
    }
    let Some(started_at) = started_at else { return Ok(None) };
    for step in &mut steps {
        step.state = carried_state(&step.tasks);
    }
    // Numbered steps by number, then the others in their order.
    steps.sort_by_key(|step| step.key.as_str().parse::<u32>().unwrap_or(u32::MAX));
    let is_over = steps.iter().all(StepView::is_settled);
    let failed = steps.iter().any(|step| step.state == StepState::Failed);
    let state = match (is_over, failed) {
        (false, _) => WorkflowState::Open,
        (true, true) => WorkflowState::Failed,
        (true, false) => WorkflowState::Finished,
    };
    let ended_at = steps.iter().flat_map(|step| &step.tasks).filter_map(|task| task.ended_at).max();
    Ok(Some(WorkflowView {
        workflow: label.clone(),
        name: None,
        state,
        owner: None,
        lead: None,
        started_at,
        ended_at: ended_at.filter(|_| is_over),
        reason: None,
        digest: None,
        steps,
        position: None,
    }))
}

fn carried_step(key: Label, task: TaskView) -> StepView {
    StepView {
        key,
        state: StepState::Open,
        round: 1,
        max_rounds: 1,
        granted: 0,
        needs: Vec::new(),
        instead: None,
        marked_at: None,
        reason: None,
        tasks: vec![task],
        again: Vec::new(),
    }
}

/// A step that was sent to several recipients is done when all of them are.
fn carried_state(tasks: &[TaskView]) -> StepState {
    if tasks.iter().any(|task| task.state == TaskState::Open) {
        return StepState::Open;
    }
    // The newest message of a step decides.
    let newest = tasks.iter().map(|task| task.message).max();
    let mut last = tasks.iter().filter(|task| Some(task.message) == newest);
    if last.all(|task| task.state == TaskState::Done) { StepState::Done } else { StepState::Failed }
}

fn carried_task(
    store: &Store,
    tables: &Tables<'_>,
    message: MessageNo,
    sent_at: Timestamp,
    delivery: &Delivery,
) -> Result<TaskView, Error> {
    let state = match delivery.state {
        State::Done => TaskState::Done,
        state if state.is_open() => TaskState::Open,
        _ => TaskState::Failed,
    };
    let held = tables.held_up_by(delivery.number)?.map(|number| tables.delivery(number)).transpose()?.flatten();
    let mut view = TaskView {
        message,
        part: TaskPart::Work,
        round: 1,
        item: 1,
        of: 1,
        attempt: 1,
        to: None,
        by: None,
        state,
        delivery: None,
        why: None,
        sent_at,
        ended_at: delivery.ended_at,
        held_by: held.filter(|_| delivery.state.is_open()).map(|held| held.message),
        choice: None,
        choices: Vec::new(),
        result: None,
    };
    read_delivery(store, tables, &mut view, delivery)?;
    Ok(view)
}

/// The workflow a message is a step of, if it is one with a definition.
pub fn workflow_of(store: &Store, message: MessageNo) -> Result<Option<Label>, Error> {
    let sql = "SELECT w.label FROM workflow_mail m JOIN workflows w ON w.number = m.workflow WHERE m.message = ?1";
    store.tables()?.maybe(sql, [message])
}
