//! Runs that dispatchers started, their messages, and holds that keep messages and agents from being started.

use rusqlite::{Row, params};

use super::rows::Selected;
use super::{Concern, Tables};
use crate::error::Error;
use crate::log::{DeliveryNo, HoldReason, MessageNo, Position, RunOutcome, SessionProcess};
use crate::text::{Label, Name, Session};
use crate::time::Timestamp;

/// One start of an agent's program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunRow {
    pub run: Session,
    /// The position of its start, which is also the token of every message it claimed.
    pub position: Position,
    pub at: Timestamp,
    pub agent: Name,
    pub runner: String,
    /// The machine its processes are on, with the host name for people next to it.
    pub machine: Label,
    pub host: String,
    pub supervisor: SessionProcess,
    /// The longest chain of runs that led to one of its messages.
    pub hops: u32,
    pub end: Option<RunEnded>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunEnded {
    pub position: Position,
    pub at: Timestamp,
    pub how: RunOutcome,
    pub code: Option<u8>,
    pub took_ms: u64,
    pub cost_micros: Option<u64>,
}

impl RunRow {
    pub fn is_running(&self) -> bool {
        self.end.is_none()
    }
}

/// A hold on an agent or on one of its deliveries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HoldRow {
    pub agent: Name,
    /// Without a delivery, nothing is started for the agent.
    pub delivery: Option<DeliveryNo>,
    pub why: HoldReason,
    pub position: Position,
    pub at: Timestamp,
    pub until: Option<Timestamp>,
    /// When an agent other than `agent` last lifted a hold here, for whatever reason it is held now.
    pub let_go_at: Option<Timestamp>,
}

impl HoldRow {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

/// What an agent's runs used in a period.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    pub runs: u64,
    /// Only of runs that ended.
    pub took_ms: u64,
    pub cost_micros: u64,
}

impl Selected for RunRow {
    const SELECT: &'static str =
        "SELECT run, position, at, agent, runner, machine, host, pid, pid_started_ms, pid_place, hops, ended_by,
         ended_at, how, code, took_ms, cost_micros FROM runs";
}

impl TryFrom<&Row<'_>> for RunRow {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        let end = match row.get(11)? {
            None => None,
            Some(position) => Some(RunEnded {
                position,
                at: row.get(12)?,
                how: row.get(13)?,
                code: row.get(14)?,
                took_ms: row.get(15)?,
                cost_micros: row.get(16)?,
            }),
        };
        Ok(Self {
            run: row.get(0)?,
            position: row.get(1)?,
            at: row.get(2)?,
            agent: row.get(3)?,
            runner: row.get(4)?,
            machine: row.get(5)?,
            host: row.get(6)?,
            supervisor: SessionProcess { pid: row.get(7)?, started_ms: row.get(8)?, place: row.get(9)? },
            hops: row.get(10)?,
            end,
        })
    }
}

stored!(HoldRow in "run_holds": agent, delivery with delivery_or_0, why, position, at, until, let_go_at);

/// A key cannot be NULL, so 0 stands for no delivery; numbers start at 1.
mod delivery_or_0 {
    use crate::log::DeliveryNo;

    pub(super) fn get(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<DeliveryNo>> {
        row.get(column).map(|number| Some(number).filter(|number| *number != DeliveryNo(0)))
    }

    pub(super) fn put(delivery: &Option<DeliveryNo>) -> DeliveryNo {
        delivery.unwrap_or(DeliveryNo(0))
    }
}

impl Tables<'_> {
    pub fn run(&self, run: &Session) -> Result<Option<RunRow>, Error> {
        self.one(select!(RunRow, "WHERE run = ?1"), [run])
    }

    /// The newest runs of all agents, newest first.
    pub fn newest_runs(&self, limit: u32) -> Result<Vec<RunRow>, Error> {
        self.all(select!(RunRow, "ORDER BY position DESC LIMIT ?1"), [limit])
    }

    /// The newest runs of an agent, newest first.
    pub fn latest_runs(&self, agent: &Name, limit: u32) -> Result<Vec<RunRow>, Error> {
        self.all(select!(RunRow, "WHERE agent = ?1 ORDER BY at DESC, position DESC LIMIT ?2"), params![agent, limit])
    }

    pub fn starts_since(&self, agent: &Name, since: Timestamp) -> Result<Vec<Timestamp>, Error> {
        self.column("SELECT at FROM runs WHERE agent = ?1 AND at > ?2 ORDER BY at, position", params![agent, since])
    }

    /// The unfinished runs of an agent, oldest first.
    pub fn running(&self, agent: &Name) -> Result<Vec<RunRow>, Error> {
        self.all(select!(RunRow, "WHERE agent = ?1 AND ended_by IS NULL ORDER BY position"), [agent])
    }

    /// All unfinished runs, by agent.
    pub fn all_running(&self) -> Result<Vec<RunRow>, Error> {
        self.all(select!(RunRow, "WHERE ended_by IS NULL ORDER BY agent, position"), [])
    }

    /// The messages of a run.
    pub fn messages_of_run(&self, run: &Session) -> Result<Vec<MessageNo>, Error> {
        self.column("SELECT message FROM run_claims WHERE run = ?1 ORDER BY message", [run])
    }

    /// The runs that worked on a message, in the order they started.
    pub fn runs_of_message(&self, message: MessageNo) -> Result<Vec<RunRow>, Error> {
        let sql = select!(RunRow, "WHERE run IN (SELECT run FROM run_claims WHERE message = ?1) ORDER BY position");
        self.all(sql, [message])
    }

    /// What an agent's runs since then have used.
    pub fn spent(&self, agent: &Name, since: Timestamp) -> Result<Spent, Error> {
        let sql = "SELECT count(*), coalesce(sum(took_ms), 0), coalesce(sum(cost_micros), 0) FROM runs
                   WHERE agent = ?1 AND at >= ?2";
        let spent = |row: &Row<'_>| Ok(Spent { runs: row.get(0)?, took_ms: row.get(1)?, cost_micros: row.get(2)? });
        Ok(self.conn.prepare_cached(sql)?.query_row(params![agent, since], spent)?)
    }

    pub fn insert_run(&mut self, run: &RunRow, messages: &[MessageNo]) -> Result<(), Error> {
        self.execute(
            "INSERT INTO runs (run, position, at, agent, runner, machine, host, pid, pid_started_ms, pid_place, hops)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                run.run,
                run.position,
                run.at,
                run.agent,
                run.runner,
                run.machine,
                run.host,
                run.supervisor.pid,
                run.supervisor.started_ms,
                run.supervisor.place,
                run.hops,
            ],
        )?;
        let mut claim = self.conn.prepare_cached("INSERT INTO run_claims (run, message) VALUES (?1, ?2)")?;
        for message in messages {
            claim.execute(params![run.run, message])?;
        }
        self.concern(|| Concern::Agent(run.agent.clone()));
        Ok(())
    }

    pub fn end_run(&mut self, run: &Session, end: &RunEnded) -> Result<(), Error> {
        let sql = "UPDATE runs SET ended_by = ?2, ended_at = ?3, how = ?4, code = ?5, took_ms = ?6, cost_micros = ?7
                   WHERE run = ?1";
        let RunEnded { position, at, how, code, took_ms, cost_micros } = end;
        self.execute(sql, params![run, position, at, how, code, took_ms, cost_micros])?;
        self.run_changed(run)
    }

    /// The hold on a delivery of an agent or, without a delivery, on the agent itself.
    pub fn hold(&self, agent: &Name, delivery: Option<DeliveryNo>) -> Result<Option<HoldRow>, Error> {
        let sql = select!(HoldRow, "WHERE agent = ?1 AND delivery = ?2");
        self.one(sql, params![agent, delivery_or_0::put(&delivery)])
    }

    pub fn holds_of(&self, agent: &Name) -> Result<Vec<HoldRow>, Error> {
        self.all(select!(HoldRow, "WHERE agent = ?1 ORDER BY delivery"), [agent])
    }

    pub fn set_hold(&mut self, hold: &HoldRow) -> Result<(), Error> {
        self.lift_hold(hold)?;
        self.insert(hold)
    }

    pub fn lift_hold(&mut self, hold: &HoldRow) -> Result<(), Error> {
        let delivery = delivery_or_0::put(&hold.delivery);
        let sql = "DELETE FROM run_holds WHERE agent = ?1 AND delivery = ?2";
        self.execute(sql, params![hold.agent, delivery])?;
        if hold.delivery.is_none() {
            self.forget_stop_told(&hold.agent)?;
        }
        self.concern(|| Concern::Agent(hold.agent.clone()));
        Ok(())
    }

    fn forget_stop_told(&mut self, agent: &Name) -> Result<(), Error> {
        self.execute("DELETE FROM stop_told WHERE agent = ?1", [agent])
    }

    /// Records that a sender was notified that an agent is stopped. Returns false if it already was.
    pub fn insert_stop_told(&mut self, agent: &Name, sender: &Name) -> Result<bool, Error> {
        let sql = "INSERT OR IGNORE INTO stop_told (agent, sender) VALUES (?1, ?2)";
        Ok(self.conn.prepare_cached(sql)?.execute(params![agent, sender])? == 1)
    }

    /// Lifts all holds on a delivery, whichever agent they are for.
    pub fn lift_holds_on(&mut self, delivery: DeliveryNo) -> Result<(), Error> {
        let sql = "DELETE FROM run_holds WHERE delivery = ?1 AND delivery > 0";
        self.execute(sql, [delivery])
    }
}
