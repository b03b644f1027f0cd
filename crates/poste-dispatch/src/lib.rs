//! Runs agents for their mail, manages teams, advances workflows and notifies people.
//!
//! Nothing here decides the state of mail: those rules live in the fold. This crate reads views, starts processes and
//! proposes records, and any number of processes may do so at once.
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
