//! The core of Poste: one log, one fold, and the SQLite file that holds them.
//!
//! ```text
//!  surfaces ── Proposal ──▶ Office ──▶ order ──▶ fold(tables, record) ──▶ tables ──▶ views
//! ```
//!
//! * [`log`]: envelopes, content, the kinds of records, the [`Sequencer`](log::Sequencer) trait.
//! * [`fold`]: every rule of the office, one file per concept. Deterministic and total.
//! * [`store`]: the only part that touches the machine: SQLite, locks, clocks, files, the bell.
//! * [`pattern`]: paths with wildcards, and whether two of them overlap.
//! * [`views`]: queries for people and programs, read from the tables.
//! * [`gates`]: checks that a message must pass before work on it begins.
//! * [`office`]: the API that every surface uses.
//! * [`backup`]: copying offices, and restoring them from copies.
//! * [`doctor`]: finds problems of an office, explains them and suggests fixes.
//!
//! This crate never prints and has no async runtime.
#![warn(clippy::disallowed_methods, clippy::disallowed_types, clippy::float_arithmetic)]

#[macro_use]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "faults on purpose, in no ordinary build")]
mod sabotage;

pub mod address;
pub mod backup;
pub mod digest;
pub mod doctor;
pub mod document;
pub mod error;
pub mod escape;
pub mod fold;
pub mod foreign;
pub mod gates;
pub mod handoff;
pub mod limits;
pub mod log;
pub mod office;
pub mod pattern;
pub mod payload;
pub mod progress;
pub mod secrets;
#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the store's job is the machine: files, clocks, locks, threads"
)]
pub mod store;
pub mod text;
pub mod time;
pub mod views;
pub mod vocabulary;

pub use address::Address;
pub use digest::Digest;
pub use error::Error;
pub use foreign::Foreign;
pub use log::{MessageNo, Position};
pub use office::Office;
pub use time::Timestamp;
