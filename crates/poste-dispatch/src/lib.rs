//! Agents that run, teams that last, workflows that finish, and handlers that tell people.
//!
//! Nothing here decides what becomes of mail: rules live in the fold. These are engines that read views, start processes
//! and propose records, and any number of them may do so at once.

pub mod engine;
pub mod ingest;
pub mod notify;
pub mod run;
mod speaker;
pub mod team;
pub mod verbs;
pub mod wake;

use poste_verbs::mark;
pub use speaker::{SPEAKER, speaker};
pub use verbs::VERBS;
