//! The dispatcher: checks the office whenever it changes, and starts supervisors for pending mail.
//!
//! It keeps no state: it reads the facts each time, [`choose`] decides what to do, and the claim of a supervisor
//! decides whether a start takes place. So it may be killed at any time, and any number of dispatchers may run.

mod choose;
mod dispatcher;
mod facts;
mod hold;
mod picture;
mod tally;
mod times;

pub use choose::{AgentFacts, Choice, Facts, Failures, Hold, Start, Wait, WaitReason, choose};
pub use dispatcher::{Dispatcher, Event, Listener, Report, Stopper, Until};
pub use facts::{Scope, Snapshot, read_facts};
pub use picture::{AgentPicture, AgentState, Picture, RunPicture, SpentPicture, picture};
pub use tally::{Left, Tally, left, went_well};
