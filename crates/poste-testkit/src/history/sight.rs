//! What a caller sees of an office before it proposes something.

use poste_core::store::Store;
use poste_core::store::tables::{
    Agent, Approval, Context, Handler, RunRow, SessionRow, State, StepRow, TaskRow, Untold, WorkflowRow,
};
use poste_core::text::{Label, Name, Session};
use poste_core::{Address, Error, MessageNo, Position, Timestamp};

/// What a caller sees of one delivery.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub message: MessageNo,
    pub address: Address,
    pub state: State,
    pub ready: bool,
    pub token: Option<Position>,
    pub holder: Option<Name>,
    pub session: Option<Session>,
    pub sender: String,
}

/// A handoff as listed.
#[derive(Debug, Clone)]
pub(super) struct SeenHandoff {
    pub number: MessageNo,
    pub sender: String,
    pub checks: u32,
    pub verifies: u32,
}

/// What a caller knows about an office before it proposes.
#[derive(Debug)]
pub(super) struct Sight {
    pub active: Vec<Agent>,
    pub retired: Vec<Agent>,
    pub seen: Vec<Seen>,
    pub message_last: u64,
    pub head: Position,
    pub policy_version: u64,
    pub now: Timestamp,
    /// Some of the conversations in which nothing is open.
    pub finished: Vec<Label>,
    /// The newest records with content, and their actors.
    pub said: Vec<(Position, String)>,
    /// Some of the archived messages.
    pub archived: Vec<MessageNo>,
    /// The newest approvals, decided or not.
    pub asked: Vec<Approval>,
    /// The newest handoffs, pending ones first.
    pub handoffs: Vec<SeenHandoff>,
    pub contexts: Vec<Context>,
    /// The newest sessions, live or ended.
    pub sessions: Vec<SessionRow>,
    /// The newest runs, running or ended.
    pub runs: Vec<RunRow>,
    pub handlers: Vec<Handler>,
    /// Some of the notifications that failed.
    pub untold: Vec<Untold>,
    /// The newest proposals that can be agreed on.
    pub proposals: Vec<MessageNo>,
    /// The newest workflows, open or ended, with their steps and messages.
    pub workflows: Vec<SeenWorkflow>,
}

/// A workflow as its owner sees it.
#[derive(Debug, Clone)]
pub(super) struct SeenWorkflow {
    pub row: WorkflowRow,
    pub steps: Vec<StepRow>,
    pub tasks: Vec<TaskRow>,
}

impl Sight {
    pub fn of(store: &Store, now: Timestamp) -> Result<Self, Error> {
        let tables = store.tables()?;
        let (active, retired) = tables.agents()?.into_iter().partition(Agent::is_active);
        Ok(Self {
            active,
            retired,
            seen: newest_deliveries(store)?,
            message_last: tables.cursor.message_last.0,
            head: tables.cursor.head.position,
            policy_version: tables.policy()?.version,
            now,
            finished: finished_conversations(store)?,
            said: newest_content(store)?,
            archived: some_archived(store)?,
            asked: tables.newest_approvals(12)?,
            handoffs: newest_handoffs(store)?,
            contexts: tables.contexts()?,
            sessions: tables.newest_sessions(12)?,
            runs: tables.newest_runs(8)?,
            handlers: tables.handlers()?,
            untold: tables.all_untold(None, 10)?,
            proposals: newest_proposals(store)?,
            workflows: newest_workflows(store)?,
        })
    }

    pub fn in_state(&self, wanted: impl Fn(&Seen) -> bool) -> Vec<&Seen> {
        self.seen.iter().filter(|seen| wanted(seen)).collect()
    }

    /// Active agents that may claim a delivery.
    pub fn takers(&self, seen: &Seen) -> Vec<&Agent> {
        let excluded = |agent: &Agent| seen.address.is_group() && agent.name.as_str() == seen.sender;
        self.active.iter().filter(|agent| agent.addresses().contains(&seen.address) && !excluded(agent)).collect()
    }
}

/// The newest open and the newest ended deliveries; older mail is left to ticks and to chance.
fn newest_deliveries(store: &Store) -> Result<Vec<Seen>, Error> {
    const EACH: &str = "SELECT d.message, d.address, d.state, d.ready, d.token, d.holder, d.session, m.sender
         FROM deliveries d JOIN messages m ON m.number = d.message";
    let sql = format!(
        "SELECT * FROM ({EACH} WHERE d.state <= 1 ORDER BY d.number DESC LIMIT 30)
         UNION ALL SELECT * FROM ({EACH} WHERE d.state > 1 ORDER BY d.number DESC LIMIT 15)"
    );
    Ok(store
        .conn()
        .prepare_cached(&sql)?
        .query_map([], |row| {
            Ok(Seen {
                message: row.get(0)?,
                address: row.get(1)?,
                state: row.get(2)?,
                ready: row.get(3)?,
                token: row.get(4)?,
                holder: row.get(5)?,
                session: row.get(6)?,
                sender: row.get(7)?,
            })
        })?
        .collect::<Result<_, _>>()?)
}

fn finished_conversations(store: &Store) -> Result<Vec<Label>, Error> {
    let sql = "SELECT DISTINCT conversation FROM messages c
         WHERE NOT EXISTS (SELECT 1 FROM messages m JOIN deliveries d ON d.message = m.number
                           WHERE m.conversation = c.conversation AND d.state <= 1)
         ORDER BY number LIMIT 20";
    Ok(store.conn().prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn newest_content(store: &Store) -> Result<Vec<(Position, String)>, Error> {
    let sql = "SELECT position, json_extract(CAST(envelope AS TEXT), '$.actor') FROM log
         WHERE malformed = 0 AND json_extract(CAST(envelope AS TEXT), '$.content') IS NOT NULL ORDER BY position DESC LIMIT 20";
    let mut statement = store.conn().prepare_cached(sql)?;
    let said = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(said.collect::<Result<_, _>>()?)
}

fn newest_handoffs(store: &Store) -> Result<Vec<SeenHandoff>, Error> {
    let sql = "SELECT number, sender, checks, verifies FROM handoffs ORDER BY state > 0, number DESC LIMIT 8";
    let mut statement = store.conn().prepare_cached(sql)?;
    let handoffs = statement.query_map([], |row| {
        Ok(SeenHandoff { number: row.get(0)?, sender: row.get(1)?, checks: row.get(2)?, verifies: row.get(3)? })
    })?;
    Ok(handoffs.collect::<Result<_, _>>()?)
}

fn some_archived(store: &Store) -> Result<Vec<MessageNo>, Error> {
    let sql = "SELECT number FROM archived_messages ORDER BY number DESC LIMIT 10";
    Ok(store.conn().prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn newest_workflows(store: &Store) -> Result<Vec<SeenWorkflow>, Error> {
    let tables = store.tables()?;
    let mut found = Vec::new();
    for row in tables.newest_workflows(4)? {
        let (steps, tasks) = (tables.steps_of_workflow(row.number)?, tables.tasks_of_workflow(row.number)?);
        found.push(SeenWorkflow { row, steps, tasks });
    }
    Ok(found)
}

fn newest_proposals(store: &Store) -> Result<Vec<MessageNo>, Error> {
    let sql = "SELECT number FROM messages WHERE type = 'interface_contract' ORDER BY number DESC LIMIT 4";
    Ok(store.conn().prepare_cached(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}
