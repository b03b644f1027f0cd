//! Workflows with their steps and messages, and the numbered steps of messages outside of workflows.

use rusqlite::params;

use super::{Due, DueItem, Tables};
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::text::{Label, Name};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// The state of a workflow.
    WorkflowState {
        Open = 0 "open",
        Finished = 1 "finished",
        Failed = 2 "failed",
        Cancelled = 3 "cancelled",
    }
);

worded_enum!(
    /// The state of a step in its newest round.
    StepState {
        Open = 0 "open",
        /// It could not be sent; its mark says why.
        Waiting = 1 "waiting",
        Done = 2 "done",
        Skipped = 3 "skipped",
        Failed = 4 "failed",
    }
);

worded_enum!(
    /// The state of one message of a step.
    TaskState { Open = 0 "open", Done = 1 "done", Failed = 2 "failed" }
);

worded_enum!(
    /// Why a message of a step was sent.
    TaskPart {
        Work = 0 "work",
        /// An agent is asked what to do about a failure.
        Question = 1 "question",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRow {
    pub number: u64,
    /// Its label, which is also its conversation.
    pub label: Label,
    pub name: Label,
    pub position: Position,
    pub at: Timestamp,
    /// The agent in whose name it is run.
    pub owner: Name,
    pub lead: Option<Name>,
    pub digest: Digest,
    pub state: WorkflowState,
    pub ended_at: Option<Timestamp>,
    pub ended_by: Option<Position>,
    /// Length of the chain of runs that led to it. Messages sent for it have the same length.
    pub hops: u32,
}

impl WorkflowRow {
    pub fn is_open(&self) -> bool {
        self.state == WorkflowState::Open
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepRow {
    pub workflow: u64,
    pub ordinal: u32,
    pub key: Label,
    /// The ordinals of the steps it needs.
    pub needs: Vec<u32>,
    pub again: Vec<u32>,
    pub max_rounds: u32,
    pub instead: Option<u32>,
    pub state: StepState,
    pub round: u32,
    /// How often a retry was granted after it had failed.
    pub granted: u32,
    pub marked_at: Option<Timestamp>,
    pub marked_by: Option<Position>,
}

impl StepRow {
    /// Whether nothing more is to be done for it in its round.
    pub fn is_settled(&self) -> bool {
        matches!(self.state, StepState::Done | StepState::Skipped | StepState::Failed)
    }
}

/// One message of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskRow {
    pub workflow: u64,
    pub step: u32,
    pub round: u32,
    pub item: u32,
    pub attempt: u32,
    pub part: TaskPart,
    /// How many items the step has in this round.
    pub of: u32,
    pub message: MessageNo,
    pub position: Position,
    pub at: Timestamp,
    /// When it times out.
    pub deadline: Option<Timestamp>,
    pub state: TaskState,
    pub ended_at: Option<Timestamp>,
    pub ended_by: Option<Position>,
}

impl TaskRow {
    pub fn is_open(&self) -> bool {
        self.state == TaskState::Open
    }

    fn due(&self) -> Option<DueItem> {
        let at = self.deadline.filter(|_| self.is_open())?;
        Some(DueItem { at, what: Due::Step, subject: self.message.0 })
    }
}

stored!(WorkflowRow in "workflows": number, label, name, position, at, owner, lead, digest, state, ended_at, ended_by, hops);
stored!(StepRow in "workflow_steps": workflow, ordinal, key, needs with ordinals, again with ordinals, max_rounds, instead,
    state, round, granted, marked_at, marked_by);
stored!(TaskRow in "workflow_mail": workflow, step, round, item, attempt, part, of as items, message, position, at, deadline,
    state, ended_at, ended_by);

/// Stores a list of ordinals as one text.
mod ordinals {
    use rusqlite::types::Type;

    pub(super) fn get(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Vec<u32>> {
        let text: String = row.get(column)?;
        let parsed: Result<_, _> = text.split_whitespace().map(str::parse).collect();
        parsed.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
    }

    pub(super) fn put(ordinals: &[u32]) -> String {
        ordinals.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
    }
}

impl Tables<'_> {
    pub fn workflow(&self, label: &Label) -> Result<Option<WorkflowRow>, Error> {
        self.one(select!(WorkflowRow, "WHERE label = ?1"), [label])
    }

    pub fn workflow_numbered(&self, number: u64) -> Result<Option<WorkflowRow>, Error> {
        self.one(select!(WorkflowRow, "WHERE number = ?1"), [number])
    }

    /// The workflow that a record started.
    pub fn workflow_at(&self, position: Position) -> Result<Option<WorkflowRow>, Error> {
        self.one(select!(WorkflowRow, "WHERE position = ?1"), [position])
    }

    /// Every open workflow, oldest first.
    pub fn open_workflows(&self) -> Result<Vec<WorkflowRow>, Error> {
        self.all(select!(WorkflowRow, "WHERE state = 0 ORDER BY number"), [])
    }

    /// The open workflows of an owner.
    pub fn open_workflows_of(&self, owner: &Name) -> Result<Vec<WorkflowRow>, Error> {
        self.all(select!(WorkflowRow, "WHERE owner = ?1 AND state = 0 ORDER BY number"), [owner])
    }

    /// The newest workflows, open or ended.
    pub fn newest_workflows(&self, limit: usize) -> Result<Vec<WorkflowRow>, Error> {
        self.all(select!(WorkflowRow, "ORDER BY number DESC LIMIT ?1"), [limit])
    }

    /// The number of the next workflow.
    pub fn next_workflow(&self) -> Result<u64, Error> {
        let sql = "SELECT coalesce(max(number), 0) + 1 FROM workflows";
        self.value(sql, [])
    }

    /// The steps of a workflow, in the order of its definition.
    pub fn steps_of_workflow(&self, workflow: u64) -> Result<Vec<StepRow>, Error> {
        self.all(select!(StepRow, "WHERE workflow = ?1 ORDER BY ordinal"), [workflow])
    }

    /// Every message of a workflow, by step, round, item and attempt.
    pub fn tasks_of_workflow(&self, workflow: u64) -> Result<Vec<TaskRow>, Error> {
        self.all(select!(TaskRow, "WHERE workflow = ?1 ORDER BY step, round, item, attempt, part"), [workflow])
    }

    /// The messages of a step in one round.
    pub fn tasks_of_step(&self, workflow: u64, step: u32, round: u32) -> Result<Vec<TaskRow>, Error> {
        let sql = select!(TaskRow, "WHERE workflow = ?1 AND step = ?2 AND round = ?3 ORDER BY item, attempt, part");
        self.all(sql, params![workflow, step, round])
    }

    /// The task that a message belongs to.
    pub fn task(&self, message: MessageNo) -> Result<Option<TaskRow>, Error> {
        self.one(select!(TaskRow, "WHERE message = ?1"), [message])
    }

    pub fn insert_workflow(&mut self, workflow: &WorkflowRow, steps: &[StepRow]) -> Result<(), Error> {
        self.insert(workflow)?;
        self.insert_all(steps)?;
        self.workflow_changed(workflow.number)
    }

    /// Writes the owner and lead of a workflow, and how it ended.
    pub fn update_workflow(&mut self, after: &WorkflowRow) -> Result<(), Error> {
        update!(self, after, "workflows" SET owner, lead, state, ended_at, ended_by, hops WHERE number)?;
        self.workflow_changed(after.number)
    }

    pub fn update_step(&mut self, after: &StepRow) -> Result<(), Error> {
        update!(self, after, "workflow_steps" SET state, round, granted, marked_at, marked_by
            WHERE workflow AND ordinal)?;
        self.workflow_changed(after.workflow)
    }

    pub fn insert_task(&mut self, task: &TaskRow) -> Result<(), Error> {
        self.insert(task)?;
        self.move_due(None, task.due())
    }

    /// Ends one message of a step, and removes its time limit.
    pub fn end_task(&mut self, before: &TaskRow, state: TaskState, at: Timestamp, by: Position) -> Result<(), Error> {
        self.move_due(before.due(), None)?;
        self.execute(
            "UPDATE workflow_mail SET state = ?2, ended_at = ?3, ended_by = ?4 WHERE message = ?1",
            params![before.message, state, at, by],
        )?;
        self.workflow_changed(before.workflow)
    }

    /// Extends every open task that has a time limit.
    pub fn move_step_deadlines(&mut self, by_ms: i64) -> Result<usize, Error> {
        let numbers: Vec<MessageNo> =
            self.column("SELECT subject FROM due WHERE what = ?1 ORDER BY subject", [Due::Step])?;
        for number in &numbers {
            let Some(before) = self.task(*number)? else { continue };
            let after = TaskRow { deadline: before.deadline.map(|at| at.plus_ms(by_ms)), ..before.clone() };
            self.execute("UPDATE workflow_mail SET deadline = ?2 WHERE message = ?1", params![number, after.deadline])?;
            self.move_due(before.due(), after.due())?;
        }
        Ok(numbers.len())
    }

    /// From now on, a delivery blocks later steps.
    pub fn insert_numbered(&mut self, workflow: &Label, step: u32, delivery: DeliveryNo) -> Result<(), Error> {
        self.execute(
            "INSERT OR IGNORE INTO numbered_steps (workflow, step, delivery) VALUES (?1, ?2, ?3)",
            params![workflow, step, delivery],
        )
    }

    /// A delivery no longer blocks anything.
    pub fn delete_numbered(&mut self, delivery: DeliveryNo) -> Result<(), Error> {
        let sql = "DELETE FROM numbered_steps WHERE delivery = ?1 RETURNING workflow, step";
        let let_go: Option<(Label, u32)> = self.one(sql, [delivery])?;
        let_go.map_or(Ok(()), |(workflow, step)| self.came_into_order(&workflow, step))
    }

    /// The earliest delivery that blocks a delivery, according to their numbered steps.
    pub fn held_up_by(&self, delivery: DeliveryNo) -> Result<Option<DeliveryNo>, Error> {
        self.maybe(
            "SELECT earlier.delivery FROM numbered_steps own JOIN numbered_steps earlier
                 ON earlier.workflow = own.workflow AND earlier.step < own.step
                 WHERE own.delivery = ?1 ORDER BY earlier.step, earlier.delivery LIMIT 1",
            [delivery],
        )
    }
}
