//! Clocks that a test sets by hand: nothing waits, and the same steps give the same times.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst};

use poste_core::Timestamp;
use poste_core::store::clock::{Boot, Clock};

/// When every simulated clock starts: early in 2027, far from both ends of the range of a [`Timestamp`].
pub const START_MS: i64 = 1_800_000_000_000;

/// A wall clock and a boot clock that move only when told to. All holders of a shared clock see the same time.
#[derive(Debug)]
pub struct SimClock {
    wall_ms: AtomicI64,
    boot_ms: AtomicI64,
    boot: AtomicU32,
}

impl SimClock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self { wall_ms: AtomicI64::new(START_MS), boot_ms: AtomicI64::new(0), boot: AtomicU32::new(1) })
    }

    /// Lets time pass on both clocks.
    pub fn advance(&self, ms: i64) {
        assert!(ms >= 0, "time does not pass backwards; step_wall does that");
        self.wall_ms.fetch_add(ms, SeqCst);
        self.boot_ms.fetch_add(ms, SeqCst);
    }

    /// Sets the wall clock, forward or backward, without moving the boot clock.
    pub fn step_wall(&self, ms: i64) {
        self.wall_ms.fetch_add(ms, SeqCst);
    }

    pub fn set_wall(&self, at: Timestamp) {
        self.wall_ms.store(at.ms(), SeqCst);
    }

    /// The machine was off for a while: a new boot, whose clock starts at zero.
    pub fn reboot(&self, off_ms: i64) {
        self.wall_ms.fetch_add(off_ms, SeqCst);
        self.boot_ms.store(0, SeqCst);
        self.boot.fetch_add(1, SeqCst);
    }
}

impl Clock for SimClock {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(self.wall_ms.load(SeqCst))
    }

    fn boot(&self) -> Boot {
        Boot { id: format!("boot-{}", self.boot.load(SeqCst)), ms: self.boot_ms.load(SeqCst) }
    }
}
