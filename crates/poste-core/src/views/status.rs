//! The office at a glance.

use schemars::JsonSchema;
use serde::Serialize;

use super::{COUNT_MAX, count_up_to};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::time::{Timestamp, rfc3339, rfc3339_option};

/// Counting stops at a thousand; then `at_least` is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Count {
    pub count: u64,
    pub at_least: bool,
}

impl Count {
    pub(super) fn of(count: u64) -> Self {
        Self { count, at_least: count >= COUNT_MAX }
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Status {
    /// Number of records in the log, and when the last one was written.
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub messages: u64,
    pub agents: u64,
    pub people: u64,
    pub retired: u64,
    pub pending: Count,
    pub claimed: Count,
    /// The oldest message that can be claimed.
    pub oldest_pending: Option<MessageNo>,
    #[serde(serialize_with = "rfc3339_option")]
    pub oldest_pending_at: Option<Timestamp>,
    /// Overdue responses.
    pub overdue: Count,
    /// Dead letters.
    pub dead: Count,
    /// When the next change is due.
    #[serde(serialize_with = "rfc3339_option")]
    pub next_due: Option<Timestamp>,
    pub archives: u64,
    pub policy: u64,
    pub database_bytes: u64,
}

/// A few lookups per address with mail; the cost does not grow with the history.
pub fn status(store: &Store, now: Timestamp) -> Result<Status, Error> {
    store.view(|tables| {
        let agents = |condition: &str| tables.value(&format!("SELECT count(*) FROM agents WHERE {condition}"), []);
        let pragma = |name: &str| tables.conn().pragma_query_value(None, name, |row| row.get::<_, u64>(0));
        let (mut pending, mut oldest): (u64, Option<MessageNo>) = (0, None);
        let mut address = tables.next_address("")?;
        while let Some(this) = address {
            if pending < COUNT_MAX {
                pending += count_up_to(tables, "deliveries WHERE address = ?1 AND state = 0", [&this])?;
            }
            for rank in 0..=3_u8 {
                let first: Option<MessageNo> = tables.maybe(
                    "SELECT message FROM deliveries
                     WHERE address = ?1 AND state = 0 AND ready = 1 AND rank = ?2 ORDER BY message LIMIT 1",
                    rusqlite::params![this, rank],
                )?;
                oldest = [oldest, first].into_iter().flatten().min();
            }
            address = tables.next_address(&this)?;
        }
        let oldest_at = oldest.map(|number| tables.message(number)).transpose()?.flatten().map(|message| message.at);
        let overdue = "deliveries WHERE respond_by IS NOT NULL AND answer IS NULL AND state <= 1 AND respond_by <= ?1";
        Ok(Status {
            position: tables.cursor.head.position,
            at: tables.cursor.head.at,
            messages: tables.cursor.message_last.0,
            agents: agents("retired_at IS NULL AND kind = 0")?,
            people: agents("retired_at IS NULL AND kind = 1")?,
            retired: agents("retired_at IS NOT NULL")?,
            pending: Count::of(pending.min(COUNT_MAX)),
            claimed: Count::of(count_up_to(tables, "deliveries WHERE holder IS NOT NULL AND state = 1", [])?),
            oldest_pending: oldest,
            oldest_pending_at: oldest_at,
            overdue: Count::of(count_up_to(tables, overdue, [now])?),
            dead: Count::of(count_up_to(tables, "deliveries WHERE state >= 3 AND dropped_at IS NULL", [])?),
            next_due: tables.next_due()?,
            archives: tables.value("SELECT count(*) FROM archives", [])?,
            policy: tables.policy()?.version,
            database_bytes: pragma("page_count")? * pragma("page_size")?,
        })
    })
}

/// When the next change is due.
pub fn next_due(store: &Store) -> Result<Option<Timestamp>, Error> {
    store.tables()?.next_due()
}
