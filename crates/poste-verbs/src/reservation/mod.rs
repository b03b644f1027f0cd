//! Reservations of paths that an agent works on. One file per verb, and what they have in common.

pub mod check;
pub mod extend;
pub mod list;
pub mod release;
pub mod reserve;

use poste_core::fold::{Effect, Outcome, Reserved};
use poste_core::limits;
use poste_core::log::Position;
use poste_core::text::RecordId;
use poste_core::views::{ReservationConflict, ReservationView};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Error, Note, Result};

/// The answer of verbs that hold paths.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HeldAnswer {
    /// Reservations that are held now; after a repeat, those that are still held.
    pub reserved: Vec<Reserved>,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// Position of the record in the log.
    pub position: Option<Position>,
    /// The same request was done before under this id; nothing changed.
    pub repeat: bool,
}

impl HeldAnswer {
    fn of(outcome: Outcome, effect: Effect) -> Result<Self> {
        let Effect::Reserved(reserved) = effect else { return Err(Error::unexpected_effect("it")) };
        Ok(Self { reserved, id: outcome.id, position: outcome.position, repeat: outcome.repeat })
    }
}

/// `ann holds src/auth/** (it overlaps src/*/login.rs), ends in 42m: the new login`.
pub fn conflict_note(conflict: &ReservationConflict) -> Note {
    let held = &conflict.held;
    let how = if held.shared { "shares" } else { "holds" };
    let overlap = match held.pattern == conflict.wanted {
        true => String::new(),
        false => format!(" (it overlaps {})", conflict.wanted),
    };
    let (holder, pattern, reason) = (&held.holder, &held.pattern, reason(held));
    note!("{holder} {how} {pattern}{overlap}, ends " (held.until) ": {reason}")
}

/// Why it is held, in one line.
pub fn reason(held: &ReservationView) -> String {
    const CHARS_MAX: usize = 200;
    if held.redacted {
        return "(the reason was redacted)".to_owned();
    }
    let Some(why) = &held.why else { return "(no reason given)".to_owned() };
    let line = why.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut text: String = line.chars().take(CHARS_MAX).collect();
    if text.len() < why.trim_end().len() {
        text.push('…');
    }
    text
}

/// Truncates a text to the maximum length of a subject.
fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(limits::SUBJECT_BYTES_MAX - '…'.len_utf8());
    match end == text.len() {
        true => text.to_owned(),
        false => format!("{}…", &text[..end]),
    }
}
