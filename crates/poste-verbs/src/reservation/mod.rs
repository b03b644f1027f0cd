//! Reservations of paths that an agent works on. One file per verb, and what they have in common.

pub mod check;
pub mod extend;
pub mod list;
pub mod release;
pub mod reserve;

use poste_core::Foreign;
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

/// `ann holds src/auth/** (it overlaps src/*/login.rs), ends in 42m: "the new login"`.
pub fn conflict_note(conflict: &ReservationConflict) -> Note {
    let held = &conflict.held;
    let how = if held.shared { "shares" } else { "holds" };
    let overlap = match held.pattern == conflict.wanted {
        true => String::new(),
        false => format!(" (it overlaps {})", Foreign::name(conflict.wanted.as_str())),
    };
    let (holder, pattern, reason) = (&held.holder, Foreign::name(held.pattern.as_str()), quoted_reason(held));
    note!("{holder} {how} {pattern}{overlap}, ends " (held.until) ": {reason}")
}

/// Why it is held, in one line: the holder's words, or else why there are none.
pub fn reason(held: &ReservationView) -> Result<String, &'static str> {
    const CHARS_MAX: usize = 200;
    if held.redacted {
        return Err("(the reason was redacted)");
    }
    let Some(why) = &held.why else { return Err("(no reason given)") };
    let line = why.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut text: String = line.chars().take(CHARS_MAX).collect();
    if text.len() < why.trim_end().len() {
        text.push('…');
    }
    Ok(text)
}

/// [`reason`] for a text of Poste's own.
pub fn quoted_reason(held: &ReservationView) -> String {
    reason(held).map_or_else(ToOwned::to_owned, |why| Foreign::words(why).to_string())
}

/// Truncates a text to the maximum length of a subject.
fn shortened(text: &str) -> String {
    let end = text.floor_char_boundary(limits::SUBJECT_BYTES_MAX - '…'.len_utf8());
    match end == text.len() {
        true => text.to_owned(),
        false => format!("{}…", &text[..end]),
    }
}
