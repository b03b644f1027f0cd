//! What dispatchers ask: for what an agent may be started now, what runs, and what that came to.

use schemars::JsonSchema;
use serde::Serialize;

use super::track::said;
use crate::address::Address;
use crate::error::Error;
use crate::log::{HoldReason, MessageNo, Position, RunOutcome, SessionProcess};
use crate::store::Store;
use crate::store::tables::{Agent, Delivery, HoldRow, Message, RunRow, Spent, Tables};
use crate::text::{Name, Session};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::{Priority, Urgency};

/// A delivery its recipient may be started for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Startable {
    pub message: MessageNo,
    pub address: Address,
    pub priority: Priority,
    pub urgency: Urgency,
    #[serde(serialize_with = "rfc3339")]
    pub stored_at: Timestamp,
    pub attempts: u32,
    /// How many runs it came out of, one after the other.
    pub hops: u32,
}

/// Mail an agent may be started for now, the best first: it asks for work, or for a look before the next session.
///
/// What nobody waits for does not start anybody, nor does what the office itself says: such mail is there at the next start.
pub fn startable(store: &Store, agent: &Agent, now: Timestamp, limit: usize) -> Result<Vec<Startable>, Error> {
    let tables = store.tables()?;
    let holds = tables.holds_of(&agent.name)?;
    let is_held = |hold: &HoldRow| !hold.is_over(now);
    if holds.iter().any(|hold| hold.delivery.is_none() && is_held(hold)) {
        return Ok(Vec::new());
    }
    let may_start = |message: &Message, delivery: &Delivery| {
        let is_own = delivery.address.is_group() && message.sender == agent.name;
        let is_held = holds.iter().any(|hold| hold.delivery == Some(delivery.number) && is_held(hold));
        starts(message) && !is_own && !is_held
    };
    let mut found = Vec::new();
    for address in agent.addresses() {
        let waiting = "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message";
        found.extend(tables.scan_inbox(waiting, [&address], limit, may_start)?);
    }
    found.sort_by_key(|(message, _)| (std::cmp::Reverse(message.priority), message.number));
    found.truncate(limit);
    Ok(found.into_iter().map(|(message, delivery)| startable_view(&message, delivery)).collect())
}

/// Whether a message is worth starting somebody for.
fn starts(message: &Message) -> bool {
    let is_soon = matches!(message.urgency, Urgency::Now | Urgency::Turn);
    message.notice.is_none() && message.urgency != Urgency::Later && (message.work || is_soon)
}

fn startable_view(message: &Message, delivery: Delivery) -> Startable {
    Startable {
        message: message.number,
        address: delivery.address,
        priority: message.priority,
        urgency: message.urgency,
        stored_at: message.at,
        attempts: delivery.attempts,
        hops: message.hops,
    }
}

/// One start of an agent's program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RunView {
    pub run: Session,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
    pub runner: String,
    pub host: String,
    pub supervisor: u32,
    #[serde(serialize_with = "rfc3339")]
    pub started_at: Timestamp,
    pub hops: u32,
    #[serde(serialize_with = "rfc3339_option")]
    pub ended_at: Option<Timestamp>,
    pub how: Option<RunOutcome>,
    pub code: Option<u8>,
    pub took_ms: Option<u64>,
    pub cost_micros: Option<u64>,
    /// What it printed last.
    pub said: Option<String>,
    #[serde(skip)]
    pub process: SessionProcess,
}

/// A run that was started, whether it is over or not.
pub fn run(store: &Store, run: &Session) -> Result<Option<RunView>, Error> {
    let tables = store.tables()?;
    tables.run(run)?.map(|row| view(store, &tables, row)).transpose()
}

/// The runs of an agent that are not over, the oldest first.
pub fn running(store: &Store, agent: &Name) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    tables.running(agent)?.into_iter().map(|row| view(store, &tables, row)).collect()
}

/// The latest runs of an agent, or of all, the newest first.
pub fn latest_runs(store: &Store, agent: Option<&Name>, limit: u32) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    let rows = match agent {
        Some(agent) => tables.latest_runs(agent, limit)?,
        None => tables.newest_runs(limit)?,
    };
    rows.into_iter().map(|row| view(store, &tables, row)).collect()
}

/// Who was started for a message.
pub fn runs_of(store: &Store, message: MessageNo) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    tables.runs_of_message(message)?.into_iter().map(|row| view(store, &tables, row)).collect()
}

fn view(store: &Store, tables: &Tables<'_>, row: RunRow) -> Result<RunView, Error> {
    let messages = tables.messages_of_run(&row.run)?;
    let said = row.end.map(|end| said(store, end.position)).transpose()?.flatten();
    Ok(RunView {
        run: row.run,
        agent: row.agent,
        messages,
        runner: row.runner,
        host: row.host,
        supervisor: row.supervisor.pid,
        started_at: row.at,
        hops: row.hops,
        ended_at: row.end.map(|end| end.at),
        how: row.end.map(|end| end.how),
        code: row.end.and_then(|end| end.code),
        took_ms: row.end.map(|end| end.took_ms),
        cost_micros: row.end.and_then(|end| end.cost_micros),
        said,
        process: row.supervisor,
    })
}

/// What the runs an agent began since then have come to.
pub fn spent(store: &Store, agent: &Name, since: Timestamp) -> Result<Spent, Error> {
    store.tables()?.spent(agent, since)
}

/// Something an agent is not started for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HoldView {
    pub agent: Name,
    /// Without one, it is not started at all.
    pub message: Option<MessageNo>,
    pub why: HoldReason,
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub until: Option<Timestamp>,
}

/// What an agent is not started for at this time.
pub fn holds(store: &Store, agent: &Name, now: Timestamp) -> Result<Vec<HoldView>, Error> {
    let tables = store.tables()?;
    let mut found = Vec::new();
    for hold in tables.holds_of(agent)?.into_iter().filter(|hold| !hold.is_over(now)) {
        let delivery = hold.delivery.map(|number| tables.delivery(number)).transpose()?.flatten();
        found.push(HoldView {
            agent: hold.agent,
            message: delivery.map(|delivery| delivery.message),
            why: hold.why,
            position: hold.position,
            since: hold.at,
            until: hold.until,
        });
    }
    Ok(found)
}
