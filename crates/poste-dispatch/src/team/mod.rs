//! Teams: who is on it, what each does now, how they are started and how they are asked to stop.

mod alerts;
mod facts;
mod start;
mod state;
mod stop;

pub use alerts::alerts;
pub(crate) use facts::role;
pub use facts::{Member, PATIENCE_MS, Teammate, TeammateRun, facts, members, patience_ms, status, why};
pub use start::{Started, StartedHow, Starts};
pub use state::{
    FAILURES, Facts, Failures, HoldFacts, LeaseFacts, RunFacts, SessionFacts, Shown, State, Trouble, shown, troubles,
};
pub use stop::{Stop, Stopped, StoppedHow};
