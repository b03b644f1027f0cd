//! The dispatcher: looks at the office whenever it changed, and starts supervisors for what waits.
//!
//! It holds nothing. What it knows it reads anew each time, what it decides is [`choose`], and whether a start takes place is
//! decided by the claim of the supervisor. So it may be killed at any time, and any number of them may run.

mod choose;
mod dispatcher;
mod facts;
mod hold;
mod picture;
mod tally;
mod times;

pub use choose::{AgentFacts, Choice, Facts, Failures, Hold, Start, Wait, WaitReason, choose};
pub use dispatcher::{Dispatcher, Event, Listener, Stopper, Told, Until};
pub use facts::{Scope, Sight, look};
pub use picture::{AgentPicture, AgentState, Picture, RunPicture, SpentPicture, picture};
pub use tally::{Left, Tally, left, went_well};
