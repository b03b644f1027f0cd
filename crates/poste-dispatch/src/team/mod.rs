//! Teams: their members, what each does now, and how they are started and stopped.

mod alerts;
mod facts;
mod start;
mod state;
mod stop;

use std::time::Instant;

pub use alerts::alerts;
pub(crate) use facts::role;
pub use facts::{Member, PATIENCE_MS, Teammate, TeammateRun, facts, members, patience_ms, status, why};
pub use start::{Started, StartedHow, Starts};
pub use state::{
    FAILURES, Facts, Failures, HoldFacts, LeaseFacts, RunFacts, SessionFacts, Shown, State, Trouble, shown, troubles,
};
pub use stop::{Stop, Stopped, StoppedHow};

#[allow(clippy::disallowed_methods, reason = "how long programs take is measured on the machine, not in the log")]
fn now_instant() -> Instant {
    Instant::now()
}
