//! How much mail there was, and how long each stage of delivery took.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{State, Tables};
use crate::time::{Timestamp, rfc3339};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Stats {
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
    /// Messages stored in this time, including notices of the office.
    pub messages: u64,
    pub messages_per_hour: f64,
    pub all: GroupStats,
    pub by_type: Vec<GroupStats>,
    /// By the agent that took the mail; if none did, by its address.
    pub by_agent: Vec<GroupStats>,
    /// Messages stored in each of equal parts of this time, for a chart.
    pub volume: Vec<u64>,
    pub as_of: Position,
}

/// A group of deliveries.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct GroupStats {
    pub name: String,
    pub deliveries: u64,
    pub pending: u64,
    pub claimed: u64,
    pub done: u64,
    pub failed: u64,
    pub dead: u64,
    pub expired: u64,
    pub returned: u64,
    /// From stored to shown for the first time.
    pub shown: Durations,
    /// From stored to the newest claim.
    pub taken: Durations,
    /// From the newest claim to done.
    pub worked: Durations,
    /// From stored to done.
    pub finished: Durations,
}

/// Percentiles, in milliseconds; null if there was nothing to measure.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Durations {
    pub count: u64,
    pub p50_ms: Option<i64>,
    pub p90_ms: Option<i64>,
    pub p99_ms: Option<i64>,
    pub max_ms: Option<i64>,
    #[serde(skip)]
    all: Vec<i64>,
}

impl Durations {
    fn add(&mut self, from: Option<Timestamp>, to: Option<Timestamp>) {
        if let (Some(from), Some(to)) = (from, to) {
            self.all.push(to.since_ms(from).max(0));
        }
    }

    fn settle(&mut self) {
        let mut all = std::mem::take(&mut self.all);
        all.sort_unstable();
        let percentile = |percent| percentile(&all, percent);
        self.count = all.len() as u64;
        self.p50_ms = percentile(50);
        self.p90_ms = percentile(90);
        self.p99_ms = percentile(99);
        self.max_ms = all.last().copied();
    }
}

/// The percentile of sorted values.
pub(super) fn percentile(sorted: &[i64], percent: usize) -> Option<i64> {
    sorted.get((sorted.len() * percent).div_ceil(100).saturating_sub(1)).copied()
}

impl GroupStats {
    fn add(&mut self, row: &Measured) {
        self.deliveries += 1;
        *match row.state {
            State::Pending => &mut self.pending,
            State::Claimed => &mut self.claimed,
            State::Done => &mut self.done,
            State::Failed => &mut self.failed,
            State::Dead => &mut self.dead,
            State::Expired => &mut self.expired,
            State::Returned => &mut self.returned,
        } += 1;
        let done_at = row.ended_at.filter(|_| row.state == State::Done);
        self.shown.add(Some(row.stored_at), row.shown_at);
        self.taken.add(Some(row.stored_at), row.claimed_at);
        self.worked.add(row.claimed_at, done_at);
        self.finished.add(Some(row.stored_at), done_at);
    }

    fn settled(mut self) -> Self {
        for durations in [&mut self.shown, &mut self.taken, &mut self.worked, &mut self.finished] {
            durations.settle();
        }
        self
    }
}

struct Measured {
    kind: String,
    who: String,
    state: State,
    stored_at: Timestamp,
    shown_at: Option<Timestamp>,
    claimed_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
}

/// Number of bars in the chart of volume.
const PARTS: usize = 24;

/// Mail stored since a time, without archived deliveries. Reads every live delivery of it.
#[allow(clippy::float_arithmetic, reason = "a rate for people, used for display only")]
pub fn stats(store: &Store, since: Timestamp, now: Timestamp) -> Result<Stats, Error> {
    store.view(|tables| {
        let first = first_since(tables, since)?;
        let mut statement = tables.conn().prepare_cached(
            "SELECT m.type, coalesce(d.holder, d.address), d.state, m.at, d.shown_at,
               (SELECT at FROM log WHERE position = d.token), d.ended_at
             FROM messages m JOIN deliveries d ON d.message = m.number WHERE m.number >= ?1",
        )?;
        let mut rows = statement.query([first])?;
        let mut all = GroupStats { name: "all".to_owned(), ..GroupStats::default() };
        let (mut by_type, mut by_agent) = (BTreeMap::new(), BTreeMap::new());
        while let Some(row) = rows.next()? {
            let row = Measured {
                kind: row.get(0)?,
                who: row.get(1)?,
                state: row.get(2)?,
                stored_at: row.get(3)?,
                shown_at: row.get(4)?,
                claimed_at: row.get(5)?,
                ended_at: row.get(6)?,
            };
            all.add(&row);
            group(&mut by_type, &row.kind).add(&row);
            group(&mut by_agent, &row.who).add(&row);
        }
        let messages = (tables.cursor.message_last.0 + 1).saturating_sub(first.0);
        let hours = (now.since_ms(since).max(1)) as f64 / crate::limits::HOUR_MS as f64;
        Ok(Stats {
            since,
            until: now,
            messages,
            messages_per_hour: (messages as f64 / hours * 100.0).round() / 100.0,
            all: all.settled(),
            by_type: by_type.into_values().map(GroupStats::settled).collect(),
            by_agent: by_agent.into_values().map(GroupStats::settled).collect(),
            volume: volume(tables, since, now)?,
            as_of: tables.cursor.head.position,
        })
    })
}

fn group<'a>(groups: &'a mut BTreeMap<String, GroupStats>, name: &str) -> &'a mut GroupStats {
    groups.entry(name.to_owned()).or_insert_with(|| GroupStats { name: name.to_owned(), ..GroupStats::default() })
}

/// Numbers are assigned in the order of time, so the volume of a part is the difference of two numbers.
fn volume(tables: &Tables<'_>, since: Timestamp, now: Timestamp) -> Result<Vec<u64>, Error> {
    let length = now.since_ms(since).max(1);
    let mut edges = Vec::with_capacity(PARTS + 1);
    for part in 0..PARTS {
        let ms = length * i64::try_from(part).unwrap_or_default() / i64::try_from(PARTS).unwrap_or(1);
        edges.push(first_since(tables, since.plus_ms(ms))?.0);
    }
    edges.push(tables.cursor.message_last.0 + 1);
    Ok(edges.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect())
}

/// The first message that was stored at or after a time.
fn first_since(tables: &Tables<'_>, since: Timestamp) -> Result<MessageNo, Error> {
    tables.first_number_after(tables.last_before(since)?)
}
