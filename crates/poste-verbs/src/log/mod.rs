//! The log, in which every change is a record: one file per verb, and shared code.

pub mod diff_digest;
pub mod replay;
pub mod replay_inbox;
pub mod replay_message;
pub mod show;
pub mod verify;
pub mod why;
pub mod why_id;
pub mod why_reservation;

use poste_core::Position;
use poste_core::progress::Progress;

/// Reports how far the log was read.
fn reading(mut report: impl FnMut(Progress), until: Position) -> impl FnMut(Position) {
    move |position| report(Progress { what: "reading the log", done: position.0, of: until.0 })
}
