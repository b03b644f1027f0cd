//! Agents that run, teams that last, workflows that finish, and handlers that tell people.
//!
//! Nothing here decides what becomes of mail: rules live in the fold. These are engines that read views, start processes
//! and propose records, and any number of them may do so at once.
#![warn(clippy::disallowed_methods)]

#[allow(clippy::disallowed_methods, reason = "a dispatcher is a surface")]
pub mod engine;
#[allow(clippy::disallowed_methods, reason = "mail from outside is read from files and streams")]
pub mod ingest;
#[allow(clippy::disallowed_methods, reason = "notifiers start programs and read their secrets")]
pub mod notify;
#[allow(clippy::disallowed_methods, reason = "a supervisor is a surface, with a folder for each run")]
pub mod run;
mod speaker;
pub mod team;
pub mod verbs;
#[allow(clippy::disallowed_methods, reason = "actions start processes")]
pub mod wake;

use poste_verbs::mark;
pub use speaker::{SPEAKER, speaker};
pub use verbs::VERBS;
