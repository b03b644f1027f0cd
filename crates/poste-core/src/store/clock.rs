//! Clocks, and how the log's time is made from them.

use std::fmt::Debug;
use std::fs;
use std::sync::OnceLock;

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Error;
use crate::limits::{CLOCK_LEAP_MS_MAX, CLOCK_LEAP_MS_MIN};
use crate::time::Timestamp;

/// What the write path asks of a machine's clocks.
pub trait Clock: Send + Sync + Debug {
    fn wall(&self) -> Timestamp;
    fn boot(&self) -> Boot;
}

/// The clock that only ever runs forward, and which boot it counts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Boot {
    pub id: String,
    pub ms: i64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn wall(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_ms(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    fn boot(&self) -> Boot {
        #[cfg(target_os = "linux")]
        let clock = rustix::time::ClockId::Boottime; // goes on while the machine sleeps
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        // Without a boot id two boots could be taken for one; an empty id is never the same boot.
        static BOOT_ID: OnceLock<String> = OnceLock::new();
        let id = BOOT_ID.get_or_init(|| {
            let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
            id.trim().to_owned()
        });
        Boot { id: id.clone(), ms: now.tv_sec * 1_000 + now.tv_nsec / 1_000_000 }
    }
}

/// This machine's clocks at its last write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    pub boot: Boot,
    pub at: Timestamp,
}

/// What time the log may call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Now(Timestamp),
    /// The wall clock ran ahead of the boot clock by this much: leases move along.
    Leap {
        at: Timestamp,
        leap_ms: i64,
    },
    /// By more than a day: somebody must accept it.
    TooFar {
        leap_ms: i64,
        expected: Timestamp,
    },
}

impl Reading {
    /// For views: never ahead of what the next record would say.
    pub fn for_views(self) -> Timestamp {
        match self {
            Self::Now(at) => at,
            Self::Leap { at, leap_ms } => at.plus_ms(-leap_ms),
            Self::TooFar { expected, .. } => expected,
        }
    }
}

/// The time of the next record after one at `last`.
pub fn read(clock: &dyn Clock, last: Timestamp, remembered: Option<&Remembered>) -> Reading {
    let wall = clock.wall();
    let boot = clock.boot();
    let progress = remembered
        .filter(|remembered| remembered.boot.id == boot.id && !boot.id.is_empty())
        .map(|remembered| (remembered.at, (boot.ms - remembered.boot.ms).max(0)));
    let Some((remembered_at, progress_ms)) = progress else {
        // Another boot, or the first write: how long the machine was away is not known, so nothing is a leap.
        return Reading::Now(wall.max(last));
    };
    let expected = remembered_at.plus_ms(progress_ms).max(last);
    let leap_ms = wall.since_ms(expected);
    if leap_ms > CLOCK_LEAP_MS_MAX {
        return Reading::TooFar { leap_ms, expected };
    }
    if leap_ms > CLOCK_LEAP_MS_MIN {
        return Reading::Leap { at: wall, leap_ms };
    }
    // Behind the last record the wall clock tells nothing; the boot clock carries time on.
    Reading::Now(if wall >= last { wall } else { expected })
}

pub fn remembered(conn: &Connection) -> Result<Option<Remembered>, Error> {
    Ok(conn
        .prepare_cached("SELECT boot_id, boot_ms, at FROM machine WHERE one = 1 AND boot_id <> ''")?
        .query_row([], |row| Ok(Remembered { boot: Boot { id: row.get(0)?, ms: row.get(1)? }, at: row.get(2)? }))
        .optional()?)
}

/// What is remembered is how far the two clocks are apart. While that stays as it was, nothing is written: it would
/// be one more page with every commit.
pub fn remember(conn: &Connection, boot: &Boot, at: Timestamp) -> Result<(), Error> {
    conn.prepare_cached(
        "UPDATE machine SET boot_id = ?1, boot_ms = ?2, at = ?3
         WHERE one = 1 AND (boot_id <> ?1 OR abs((?3 - ?2) - (at - boot_ms)) > ?4)",
    )?
    .execute(params![boot.id, boot.ms, at, DRIFT_MS_MAX])?;
    Ok(())
}

/// Clocks may part by this much before it is written down; far less than what counts as a leap.
const DRIFT_MS_MAX: i64 = 1_000;
