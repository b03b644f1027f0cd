//! Workflows, their steps and the messages these are; and the numbered steps of messages that belong to none.

use std::sync::LazyLock;

use rusqlite::types::Type;
use rusqlite::{Row, params};

use super::{Due, DueItem, Optional as _, Tables};
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::text::{Label, Name};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// What became of a workflow.
    WorkflowState {
        Open = 0 "open",
        Finished = 1 "finished",
        Failed = 2 "failed",
        Cancelled = 3 "cancelled",
    }
);

worded_enum!(
    /// What became of a step, in its newest round.
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
    /// What became of one message of a step.
    TaskState { Open = 0 "open", Done = 1 "done", Failed = 2 "failed" }
);

worded_enum!(
    /// Why a message of a step was sent.
    TaskPart {
        Work = 0 "work",
        /// Somebody is asked what to do about a failure.
        Question = 1 "question",
    }
);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkflowRow {
    pub number: u64,
    /// What it is called; also its conversation.
    pub label: Label,
    pub name: Label,
    pub position: Position,
    pub at: Timestamp,
    /// Who speaks for it.
    pub owner: Name,
    pub lead: Option<Name>,
    pub digest: Digest,
    pub state: WorkflowState,
    pub ended_at: Option<Timestamp>,
    pub ended_by: Option<Position>,
    /// How many runs it came out of, one after the other; what is sent for it came out of as many.
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
    /// By their ordinals.
    pub needs: Vec<u32>,
    pub again: Vec<u32>,
    pub max_rounds: u32,
    pub instead: Option<u32>,
    pub state: StepState,
    pub round: u32,
    /// How often somebody let it try again after it had failed.
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
    /// When its time is over.
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

const COLUMNS: &str = "number, label, name, position, at, owner, lead, digest, state, ended_at, ended_by, hops";
const STEP_COLUMNS: &str =
    "workflow, ordinal, key, needs, again, max_rounds, instead, state, round, granted, marked_at, marked_by";
const TASK_COLUMNS: &str = "workflow, step, round, item, attempt, part, items, message, position, at, deadline, state, \
     ended_at, ended_by";

fn workflow_row(row: &Row<'_>) -> rusqlite::Result<WorkflowRow> {
    Ok(WorkflowRow {
        number: row.get(0)?,
        label: row.get(1)?,
        name: row.get(2)?,
        position: row.get(3)?,
        at: row.get(4)?,
        owner: row.get(5)?,
        lead: row.get(6)?,
        digest: Digest::from_bytes(row.get(7)?),
        state: row.get(8)?,
        ended_at: row.get(9)?,
        ended_by: row.get(10)?,
        hops: row.get(11)?,
    })
}

fn step_row(row: &Row<'_>) -> rusqlite::Result<StepRow> {
    Ok(StepRow {
        workflow: row.get(0)?,
        ordinal: row.get(1)?,
        key: row.get(2)?,
        needs: ordinals(row, 3)?,
        again: ordinals(row, 4)?,
        max_rounds: row.get(5)?,
        instead: row.get(6)?,
        state: row.get(7)?,
        round: row.get(8)?,
        granted: row.get(9)?,
        marked_at: row.get(10)?,
        marked_by: row.get(11)?,
    })
}

fn task_row(row: &Row<'_>) -> rusqlite::Result<TaskRow> {
    Ok(TaskRow {
        workflow: row.get(0)?,
        step: row.get(1)?,
        round: row.get(2)?,
        item: row.get(3)?,
        attempt: row.get(4)?,
        part: row.get(5)?,
        of: row.get(6)?,
        message: row.get(7)?,
        position: row.get(8)?,
        at: row.get(9)?,
        deadline: row.get(10)?,
        state: row.get(11)?,
        ended_at: row.get(12)?,
        ended_by: row.get(13)?,
    })
}

/// A list of ordinals is kept as one text.
fn ordinals(row: &Row<'_>, column: usize) -> rusqlite::Result<Vec<u32>> {
    let text: String = row.get(column)?;
    let parsed: Result<_, _> = text.split_whitespace().map(str::parse).collect();
    parsed.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error)))
}

fn listed(ordinals: &[u32]) -> String {
    ordinals.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}

impl Tables<'_> {
    pub fn workflow(&self, label: &Label) -> Result<Option<WorkflowRow>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM workflows WHERE label = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([label], workflow_row).optional()
    }

    pub fn workflow_numbered(&self, number: u64) -> Result<Option<WorkflowRow>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM workflows WHERE number = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([number], workflow_row).optional()
    }

    /// The one a record began.
    pub fn workflow_at(&self, position: Position) -> Result<Option<WorkflowRow>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM workflows WHERE position = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([position], workflow_row).optional()
    }

    /// Every workflow that is not over, the oldest first.
    pub fn open_workflows(&self) -> Result<Vec<WorkflowRow>, Error> {
        self.workflows_where("state = 0 ORDER BY number", [])
    }

    /// Those an agent speaks for.
    pub fn open_workflows_of(&self, owner: &Name) -> Result<Vec<WorkflowRow>, Error> {
        self.workflows_where("owner = ?1 AND state = 0 ORDER BY number", [owner])
    }

    /// Over or not, the newest first.
    pub fn newest_workflows(&self, limit: usize) -> Result<Vec<WorkflowRow>, Error> {
        self.workflows_where("TRUE ORDER BY number DESC LIMIT ?1", [limit])
    }

    fn workflows_where(&self, condition: &str, params: impl rusqlite::Params) -> Result<Vec<WorkflowRow>, Error> {
        Ok(self
            .conn
            .prepare_cached(&format!("SELECT {COLUMNS} FROM workflows WHERE {condition}"))?
            .query_map(params, workflow_row)?
            .collect::<Result<_, _>>()?)
    }

    /// The number the next one gets.
    pub fn next_workflow(&self) -> Result<u64, Error> {
        let sql = "SELECT coalesce(max(number), 0) + 1 FROM workflows";
        Ok(self.conn.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
    }

    /// In the order of the definition.
    pub fn steps_of_workflow(&self, workflow: u64) -> Result<Vec<StepRow>, Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {STEP_COLUMNS} FROM workflow_steps WHERE workflow = ?1 ORDER BY ordinal"));
        Ok(self.conn.prepare_cached(&SQL)?.query_map([workflow], step_row)?.collect::<Result<_, _>>()?)
    }

    /// Every message of a workflow, by step, round, item and attempt.
    pub fn tasks_of_workflow(&self, workflow: u64) -> Result<Vec<TaskRow>, Error> {
        self.tasks_where("workflow = ?1 ORDER BY step, round, item, attempt, part", [workflow])
    }

    /// Those of a step in one round.
    pub fn tasks_of_step(&self, workflow: u64, step: u32, round: u32) -> Result<Vec<TaskRow>, Error> {
        let condition = "workflow = ?1 AND step = ?2 AND round = ?3 ORDER BY item, attempt, part";
        self.tasks_where(condition, params![workflow, step, round])
    }

    /// What of a workflow a message is.
    pub fn task(&self, message: MessageNo) -> Result<Option<TaskRow>, Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {TASK_COLUMNS} FROM workflow_mail WHERE message = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([message], task_row).optional()
    }

    fn tasks_where(&self, condition: &str, params: impl rusqlite::Params) -> Result<Vec<TaskRow>, Error> {
        Ok(self
            .conn
            .prepare_cached(&format!("SELECT {TASK_COLUMNS} FROM workflow_mail WHERE {condition}"))?
            .query_map(params, task_row)?
            .collect::<Result<_, _>>()?)
    }

    pub fn insert_workflow(&mut self, workflow: &WorkflowRow, steps: &[StepRow]) -> Result<(), Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!("INSERT INTO workflows ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, NULL, NULL, ?10)")
        });
        static STEP_SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "INSERT INTO workflow_steps ({STEP_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, NULL, NULL)"
            )
        });
        self.conn.prepare_cached(&SQL)?.execute(params![
            workflow.number,
            workflow.label,
            workflow.name,
            workflow.position,
            workflow.at,
            workflow.owner,
            workflow.lead,
            workflow.digest.as_bytes(),
            workflow.state,
            workflow.hops,
        ])?;
        let mut insert = self.conn.prepare_cached(&STEP_SQL)?;
        for step in steps {
            insert.execute(params![
                step.workflow,
                step.ordinal,
                step.key,
                listed(&step.needs),
                listed(&step.again),
                step.max_rounds,
                step.instead,
                step.state,
                step.round,
                step.granted,
            ])?;
        }
        drop(insert);
        self.workflow_changed(workflow.number)
    }

    /// Writes who speaks for it and what became of it.
    pub fn update_workflow(&mut self, after: &WorkflowRow) -> Result<(), Error> {
        let sql = "UPDATE workflows SET owner = ?2, lead = ?3, state = ?4, ended_at = ?5, ended_by = ?6, hops = ?7
                   WHERE number = ?1";
        let WorkflowRow { number, owner, lead, state, ended_at, ended_by, hops, .. } = after;
        self.conn.prepare_cached(sql)?.execute(params![number, owner, lead, state, ended_at, ended_by, hops])?;
        self.workflow_changed(*number)
    }

    pub fn update_step(&mut self, after: &StepRow) -> Result<(), Error> {
        let sql = "UPDATE workflow_steps SET state = ?3, round = ?4, granted = ?5, marked_at = ?6, marked_by = ?7
                   WHERE workflow = ?1 AND ordinal = ?2";
        let StepRow { workflow, ordinal, state, round, granted, marked_at, marked_by, .. } = after;
        self.conn
            .prepare_cached(sql)?
            .execute(params![workflow, ordinal, state, round, granted, marked_at, marked_by])?;
        self.workflow_changed(*workflow)
    }

    pub fn insert_task(&mut self, task: &TaskRow) -> Result<(), Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "INSERT INTO workflow_mail ({TASK_COLUMNS})
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, NULL, NULL)"
            )
        });
        self.conn.prepare_cached(&SQL)?.execute(params![
            task.workflow,
            task.step,
            task.round,
            task.item,
            task.attempt,
            task.part,
            task.of,
            task.message,
            task.position,
            task.at,
            task.deadline,
            task.state,
        ])?;
        task.due().map_or(Ok(()), |due| self.insert_due(due))
    }

    /// What became of one message of a step; its time limit goes with it.
    pub fn end_task(&mut self, before: &TaskRow, state: TaskState, at: Timestamp, by: Position) -> Result<(), Error> {
        if let Some(due) = before.due() {
            self.delete_due(due)?;
        }
        self.conn
            .prepare_cached("UPDATE workflow_mail SET state = ?2, ended_at = ?3, ended_by = ?4 WHERE message = ?1")?
            .execute(params![before.message, state, at, by])?;
        self.workflow_changed(before.workflow)
    }

    /// Gives every open task with a time limit so much more.
    pub fn move_step_deadlines(&mut self, by_ms: i64) -> Result<usize, Error> {
        let numbers: Vec<MessageNo> = self
            .conn
            .prepare_cached("SELECT subject FROM due WHERE what = ?1 ORDER BY subject")?
            .query_map([Due::Step], |row| row.get(0))?
            .collect::<Result<_, _>>()?;
        for number in &numbers {
            let Some(before) = self.task(*number)? else { continue };
            let after = TaskRow { deadline: before.deadline.map(|at| at.plus_ms(by_ms)), ..before.clone() };
            if let Some(due) = before.due() {
                self.delete_due(due)?;
            }
            self.conn
                .prepare_cached("UPDATE workflow_mail SET deadline = ?2 WHERE message = ?1")?
                .execute(params![number, after.deadline])?;
            if let Some(due) = after.due() {
                self.insert_due(due)?;
            }
        }
        Ok(numbers.len())
    }

    /// A delivery holds up later steps from now on.
    pub fn insert_numbered(&mut self, workflow: &Label, step: u32, delivery: DeliveryNo) -> Result<(), Error> {
        self.conn
            .prepare_cached("INSERT OR IGNORE INTO numbered_steps (workflow, step, delivery) VALUES (?1, ?2, ?3)")?
            .execute(params![workflow, step, delivery])?;
        Ok(())
    }

    /// A delivery holds up nothing any more.
    pub fn delete_numbered(&mut self, delivery: DeliveryNo) -> Result<(), Error> {
        let let_go: Option<(Label, u32)> = self
            .conn
            .prepare_cached("DELETE FROM numbered_steps WHERE delivery = ?1 RETURNING workflow, step")?
            .query_row([delivery], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let_go.map_or(Ok(()), |(workflow, step)| self.came_into_order(&workflow, step))
    }

    /// The earliest delivery a delivery has to wait for, by their numbered steps.
    pub fn held_up_by(&self, delivery: DeliveryNo) -> Result<Option<DeliveryNo>, Error> {
        self.conn
            .prepare_cached(
                "SELECT earlier.delivery FROM numbered_steps own JOIN numbered_steps earlier
                 ON earlier.workflow = own.workflow AND earlier.step < own.step
                 WHERE own.delivery = ?1 ORDER BY earlier.step, earlier.delivery LIMIT 1",
            )?
            .query_row([delivery], |row| row.get(0))
            .optional()
    }
}
