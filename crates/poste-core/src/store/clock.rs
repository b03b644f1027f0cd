//! Clocks, and how the time of a record is computed from them.

use std::fmt::Debug;
use std::fs;
use std::sync::OnceLock;

use rusqlite::{Connection, OptionalExtension, params};

use crate::error::Error;
use crate::limits::{CLOCK_LEAP_MS_MAX, CLOCK_LEAP_MS_MIN};
use crate::time::Timestamp;

/// What the write path needs from a machine's clocks.
pub trait Clock: Send + Sync + Debug {
    fn wall(&self) -> Timestamp;
    fn boot(&self) -> Boot;
}

/// A clock that only runs forward, and the boot it counts from.
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
        let clock = rustix::time::ClockId::Boottime; // also counts time while the machine sleeps
        #[cfg(not(target_os = "linux"))]
        let clock = rustix::time::ClockId::Monotonic;
        let now = rustix::time::clock_gettime(clock);
        // Without a boot id, two boots could be mistaken for one. An empty id never counts as the same boot.
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

/// The time that the next record may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    Now(Timestamp),
    /// The wall clock ran ahead of the boot clock by this much; leases are extended accordingly.
    Leap {
        at: Timestamp,
        leap_ms: i64,
    },
    /// It ran ahead by more than a day, so a person must accept the new time.
    TooFar {
        leap_ms: i64,
        expected: Timestamp,
    },
}

impl Reading {
    /// The time for views: never later than what the next record would say.
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
        // After a reboot, or at the first write, it is unknown how long the machine was off, so no jump counts as a
        // leap.
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
    // A wall clock behind the last record is wrong, so the boot clock determines the time.
    Reading::Now(if wall >= last { wall } else { expected })
}

pub fn remembered(conn: &Connection) -> Result<Option<Remembered>, Error> {
    Ok(conn
        .prepare_cached("SELECT boot_id, boot_ms, at FROM machine WHERE one = 1 AND boot_id <> ''")?
        .query_row([], |row| Ok(Remembered { boot: Boot { id: row.get(0)?, ms: row.get(1)? }, at: row.get(2)? }))
        .optional()?)
}

/// Stores how far the two clocks are apart. Nothing is written while that distance stays the same, because it would add
/// a page to every commit.
pub fn remember(conn: &Connection, boot: &Boot, at: Timestamp) -> Result<(), Error> {
    conn.prepare_cached(
        "UPDATE machine SET boot_id = ?1, boot_ms = ?2, at = ?3
         WHERE one = 1 AND (boot_id <> ?1 OR abs((?3 - ?2) - (at - boot_ms)) > ?4)",
    )?
    .execute(params![boot.id, boot.ms, at, DRIFT_MS_MAX])?;
    Ok(())
}

/// How far the clocks may drift apart before the distance is stored again; far less than what counts as a leap.
const DRIFT_MS_MAX: i64 = 1_000;
