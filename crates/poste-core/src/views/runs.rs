//! Queries of dispatchers: mail that an agent may be started for, runs, and their outcomes.

use schemars::JsonSchema;
use serde::Serialize;

use super::track::{first_line, whole_text};
use super::{Found, content};
use crate::address::Address;
use crate::error::Error;
use crate::log::{DeliveryNo, HoldReason, MessageNo, Position, RunOutcome, SessionProcess};
use crate::store::Store;
use crate::store::processes::Presence;
use crate::store::tables::{Agent, Delivery, HoldRow, Message, RunRow, Spent, State, Tables};
use crate::text::{Label, Name, Session};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::{Priority, Urgency};

/// A delivery that its recipient may be started for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Startable {
    pub message: MessageNo,
    pub sender: Name,
    pub address: Address,
    pub priority: Priority,
    pub urgency: Urgency,
    #[serde(serialize_with = "rfc3339")]
    pub stored_at: Timestamp,
    pub attempts: u32,
    /// Number of consecutive runs it came out of.
    pub hops: u32,
}

/// Mail an agent may be started for now, by priority: it asks for work, or should be seen before the next session.
///
/// Other mail, and notices of the office, do not start an agent: it finds them at its next start.
pub fn startable(store: &Store, agent: &Agent, now: Timestamp, limit: usize) -> Result<Vec<Startable>, Error> {
    let tables = store.tables()?;
    if is_held(&tables, &agent.name, now)? {
        return Ok(Vec::new());
    }
    find(&tables, agent, now, limit, |message| starts(&tables, message))
}

/// Like [`startable`], for people: includes the mail of an agent that is held.
pub fn queued(store: &Store, agent: &Agent, now: Timestamp, limit: usize) -> Result<Vec<Startable>, Error> {
    let tables = store.tables()?;
    find(&tables, agent, now, limit, |message| starts(&tables, message))
}

/// A delivery that its recipient will be started for later.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Later {
    pub agent: Name,
    pub message: MessageNo,
    pub why: WhyLater,
    /// When it can be taken; null if there is no such time.
    #[serde(serialize_with = "rfc3339_option")]
    pub until: Option<Timestamp>,
    /// Number of failed attempts, and their maximum.
    pub attempts: u32,
    pub max_attempts: u32,
    /// The message that must be done first.
    pub after: Option<MessageNo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyLater {
    /// It failed and will be retried.
    Attempt,
    /// It has a delivery time.
    Time,
    /// It is held until it is resumed.
    Held,
    /// An earlier step of its workflow is not done.
    Step,
}

/// Mail that an agent is not started for yet, the next one first, for people.
pub fn later(store: &Store, agent: &Agent, now: Timestamp, limit: usize) -> Result<Vec<Later>, Error> {
    let tables = store.tables()?;
    let holds = tables.holds_of(&agent.name)?;
    let is_held = |number: DeliveryNo| holds.iter().any(|hold| hold.delivery == Some(number) && !hold.is_over(now));
    let waits = |delivery: &Delivery| {
        !delivery.ready || is_held(delivery.number) || matches!(tables.held_up_by(delivery.number), Ok(Some(_)))
    };
    let mut found: Vec<Later> = Vec::new();
    for address in agent.addresses() {
        let pending = "address = ?1 AND state = 0 ORDER BY rank, message";
        let waiting = tables.scan_inbox(pending, [&address], limit, |message, delivery| {
            waits(delivery) && starts(&tables, message).unwrap_or(true)
        })?;
        for (message, delivery) in waiting {
            let earlier = tables.held_up_by(delivery.number)?.map(|number| tables.delivery(number)).transpose()?;
            let why = match (delivery.ready, delivery.attempts, is_held(delivery.number)) {
                (false, 0, _) => WhyLater::Time,
                (false, ..) => WhyLater::Attempt,
                (true, _, true) => WhyLater::Held,
                (true, _, false) => WhyLater::Step,
            };
            found.push(Later {
                agent: agent.name.clone(),
                message: message.number,
                why,
                until: delivery.ready_at.filter(|_| !delivery.ready),
                attempts: delivery.attempts,
                max_attempts: message.max_attempts,
                after: earlier.flatten().map(|earlier| earlier.message),
            });
        }
    }
    found.sort_by_key(|later| (later.until.is_none(), later.until, later.message));
    found.dedup_by_key(|later| later.message); // it may wait at two addresses
    Ok(found)
}

fn is_held(tables: &Tables<'_>, agent: &Name, now: Timestamp) -> Result<bool, Error> {
    Ok(tables.hold(agent, None)?.is_some_and(|hold| !hold.is_over(now)))
}

/// Mail stored up to a time that an agent could take now, even if it would not start the agent. For agents that are
/// started by the clock.
pub fn startable_by_clock(
    store: &Store,
    agent: &Agent,
    stored_until: Timestamp,
    now: Timestamp,
    limit: usize,
) -> Result<Vec<Startable>, Error> {
    let tables = store.tables()?;
    if is_held(&tables, &agent.name, now)? {
        return Ok(Vec::new());
    }
    let starts = |message: &Message| {
        let is_due = message.notice.is_none() && message.at <= stored_until;
        Ok(is_due || starts(&tables, message)?)
    };
    find(&tables, agent, now, limit, starts)
}

fn find(
    tables: &Tables<'_>,
    agent: &Agent,
    now: Timestamp,
    limit: usize,
    starts: impl Fn(&Message) -> Result<bool, Error>,
) -> Result<Vec<Startable>, Error> {
    let holds = tables.holds_of(&agent.name)?;
    let is_held = |hold: &HoldRow| !hold.is_over(now);
    let may_start = |message: &Message, delivery: &Delivery| {
        let is_own = delivery.address.is_group() && message.sender == agent.name;
        let is_held = holds.iter().any(|hold| hold.delivery == Some(delivery.number) && is_held(hold));
        // Unreadable mail may start the agent: its run will find out.
        !is_own && !is_held && starts(message).unwrap_or(true)
    };
    let mut found = Vec::new();
    for address in agent.addresses() {
        // A later step of a numbered workflow is held until the earlier ones are done.
        let waiting = "address = ?1 AND state = 0 AND ready = 1 ORDER BY rank, message";
        let in_order = |message: &Message, delivery: &Delivery| {
            may_start(message, delivery) && matches!(tables.held_up_by(delivery.number), Ok(None) | Err(_))
        };
        found.extend(tables.scan_inbox(waiting, [&address], limit, in_order)?);
    }
    found.sort_by_key(|(message, _)| (std::cmp::Reverse(message.priority), message.number));
    found.truncate(limit);
    Ok(found.into_iter().map(|(message, delivery)| startable_view(&message, delivery)).collect())
}

/// Whether a message is worth starting an agent for.
fn starts(tables: &Tables<'_>, message: &Message) -> Result<bool, Error> {
    let is_soon = matches!(message.urgency, Urgency::Now | Urgency::Turn);
    if message.notice.is_some() || message.urgency == Urgency::Later || !(message.work || is_soon) {
        return Ok(false);
    }
    // A remark on a step waits for the next start; otherwise the owner of the workflow would be run for each of them.
    // Mail that asks for work or cannot wait, such as a blocker, is not a remark.
    let is_remark = !message.work && message.urgency != Urgency::Now && !message.wants_response;
    let answers_step = |number: MessageNo| tables.task(number).map(|task| task.is_some());
    if is_remark && message.reply_to.map(answers_step).transpose()?.unwrap_or(false) {
        return Ok(false);
    }
    // An agent that is notified of a stopped loop must not restart it.
    Ok(message.work || !is_of_hold(tables, message)?)
}

/// The name of the record of a hold.
const HOLD: &str = "run.hold";

fn is_of_hold(tables: &Tables<'_>, message: &Message) -> Result<bool, Error> {
    let record = tables.record(message.position)?;
    Ok(record.is_some_and(|record| record.sealed.envelope.name == HOLD))
}

fn startable_view(message: &Message, delivery: Delivery) -> Startable {
    Startable {
        message: message.number,
        sender: message.sender.clone(),
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
    /// Why it failed, in one line; if it did not, the first line it printed.
    pub said: Option<String>,
    /// The last line it printed.
    pub last_line: Option<String>,
    #[serde(skip)]
    pub process: SessionProcess,
    #[serde(skip)]
    pub machine: Label,
}

impl RunView {
    /// Whether its supervisor is running.
    pub fn presence(&self, store: &Store) -> Result<Presence, Error> {
        store.presence(&self.machine, Some(&self.process))
    }

    /// Whether it failed.
    pub fn is_failed(&self) -> bool {
        self.how.is_some_and(|how| how != RunOutcome::Exited || self.code != Some(0))
    }
}

/// A run, ended or not.
pub fn run(store: &Store, run: &Session) -> Result<Option<RunView>, Error> {
    let tables = store.tables()?;
    tables.run(run)?.map(|row| view(store, &tables, row)).transpose()
}

/// The runs of an agent that have not ended, the oldest first.
pub fn running(store: &Store, agent: &Name) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    tables.running(agent)?.into_iter().map(|row| view(store, &tables, row)).collect()
}

/// All runs that have not ended.
pub fn all_running(store: &Store) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    tables.all_running()?.into_iter().map(|row| view(store, &tables, row)).collect()
}

/// The latest runs of an agent, or of all agents, newest first.
pub fn latest_runs(store: &Store, agent: Option<&Name>, limit: u32) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    let rows = match agent {
        Some(agent) => tables.latest_runs(agent, limit)?,
        None => tables.newest_runs(limit)?,
    };
    rows.into_iter().map(|row| view(store, &tables, row)).collect()
}

/// How a run ended, without its output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunEndView {
    pub run: Session,
    pub started_at: Timestamp,
    pub how: RunOutcome,
    pub code: Option<u8>,
}

/// How the latest runs of an agent ended, newest start first, without those that are still running.
pub fn latest_ends(store: &Store, agent: &Name, limit: u32) -> Result<Vec<RunEndView>, Error> {
    let end = |row: RunRow| {
        let (run, started_at) = (row.run, row.at);
        row.end.map(|end| RunEndView { run, started_at, how: end.how, code: end.code })
    };
    Ok(store.tables()?.latest_runs(agent, limit)?.into_iter().filter_map(end).collect())
}

/// When an agent was last started.
pub fn last_start(store: &Store, agent: &Name) -> Result<Option<Timestamp>, Error> {
    Ok(store.tables()?.latest_runs(agent, 1)?.first().map(|row| row.at))
}

/// When an agent was started after a time, the oldest first.
pub fn starts_since(store: &Store, agent: &Name, since: Timestamp) -> Result<Vec<Timestamp>, Error> {
    store.tables()?.starts_since(agent, since)
}

/// The first message of a run.
pub fn first_message(store: &Store, run: &Session) -> Result<Option<MessageNo>, Error> {
    Ok(store.tables()?.messages_of_run(run)?.first().copied())
}

/// The messages an agent was started for and has not done.
pub fn undone(store: &Store, agent: &Name, messages: &[MessageNo]) -> Result<Vec<MessageNo>, Error> {
    let tables = store.tables()?;
    let mut undone = Vec::new();
    for message in messages {
        let is_done = |delivery: &Delivery| delivery.state == State::Done && delivery.holder.as_ref() == Some(agent);
        if !tables.deliveries_of(*message)?.iter().any(is_done) {
            undone.push(*message);
        }
    }
    Ok(undone)
}

/// The runs that were started for a message.
pub fn runs_of(store: &Store, message: MessageNo) -> Result<Vec<RunView>, Error> {
    let tables = store.tables()?;
    tables.runs_of_message(message)?.into_iter().map(|row| view(store, &tables, row)).collect()
}

/// The sender of the message at the beginning of a chain of runs.
pub fn chain_started_by(store: &Store, message: MessageNo) -> Result<Option<Name>, Error> {
    // Longer than any chain that is allowed to continue.
    const CHAIN_MAX: usize = 1_000;
    let tables = store.tables()?;
    let mut found = tables.message(message)?;
    for _ in 0..CHAIN_MAX {
        let Some(message) = &found else { return Ok(None) };
        let record = tables.record(message.position)?;
        let session = record.and_then(|record| record.sealed.envelope.session);
        let run = session.map(|session| tables.run(&session)).transpose()?.flatten();
        let before = match run {
            Some(run) => tables.messages_of_run(&run.run)?.into_iter().min(),
            None => None,
        };
        match before {
            // Only backwards.
            Some(before) if before < message.number => found = tables.message(before)?,
            _ => return Ok(Some(message.sender.clone())),
        }
    }
    Ok(found.map(|message| message.sender))
}

fn view(store: &Store, tables: &Tables<'_>, row: RunRow) -> Result<RunView, Error> {
    let messages = tables.messages_of_run(&row.run)?;
    let (mut said, mut last_line) = (None, None);
    if let Some(end) = row.end
        && let Found::Content(content) = content(store, end.position)?
    {
        last_line = crate::text::last_line(&content.body.text());
        said = first_line(*content);
    }
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
        last_line,
        process: row.supervisor,
        machine: row.machine,
    })
}

/// The output of a run that the log keeps: its end.
pub fn printed(store: &Store, run: &Session) -> Result<Option<String>, Error> {
    let end = store.tables()?.run(run)?.and_then(|row| row.end);
    end.map(|end| whole_text(store, end.position)).transpose().map(Option::flatten)
}

/// What the runs of an agent since a time have used up.
pub fn spent(store: &Store, agent: &Name, since: Timestamp) -> Result<Spent, Error> {
    store.tables()?.spent(agent, since)
}

/// A hold: an agent is not started, at all or for one message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HoldView {
    pub agent: Name,
    /// Null: it is not started at all.
    pub message: Option<MessageNo>,
    pub why: HoldReason,
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub until: Option<Timestamp>,
    /// When it was last resumed, even if it was held again since. Usage is counted from then.
    #[serde(skip)]
    pub let_go_at: Option<Timestamp>,
}

impl HoldView {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// The holds of an agent at this time.
pub fn holds(store: &Store, agent: &Name, now: Timestamp) -> Result<Vec<HoldView>, Error> {
    Ok(all_holds(store, agent)?.into_iter().filter(|hold| !hold.is_over(now)).collect())
}

/// Includes ended holds, which tell since when an agent may be started again.
pub fn all_holds(store: &Store, agent: &Name) -> Result<Vec<HoldView>, Error> {
    let tables = store.tables()?;
    let mut found = Vec::new();
    for hold in tables.holds_of(agent)? {
        let delivery = hold.delivery.map(|number| tables.delivery(number)).transpose()?.flatten();
        found.push(HoldView {
            agent: hold.agent,
            message: delivery.map(|delivery| delivery.message),
            why: hold.why,
            position: hold.position,
            since: hold.at,
            until: hold.until,
            let_go_at: hold.let_go_at,
        });
    }
    Ok(found)
}
