//! Makes an office from a snapshot. There is none before it, so this is no verb.

use std::path::PathBuf;

use poste_core::office::Place;
use poste_core::progress::Progress;
use poste_core::text::count;
use poste_core::{Digest, Position, backup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Answered, Error, Result};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A folder that `poste snapshot` made
    pub snapshot: PathBuf,
    /// Replace the office that is there; it is kept beside the new one
    #[serde(default)]
    pub replace: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    pub path: String,
    /// The office's id: the same as before.
    pub office: String,
    /// The newest record in it.
    pub position: Position,
    pub chain: Digest,
    /// The digest of all tables, unless they were brought to a newer schema.
    pub tables: Option<Digest>,
    /// Where the office is that was there before.
    pub kept: Option<String>,
    /// The newest record of the one that was there before, if it was a copy of the same office.
    pub kept_position: Option<Position>,
}

pub fn restore(place: &Place, input: &Input, progress: &mut dyn FnMut(Progress)) -> Result<Answered<Answer>> {
    let restored = backup::restore(&input.snapshot, place, input.replace, progress);
    let restored = restored.map_err(|error| match error {
        error @ poste_core::Error::Occupied(_) => Error::from(error)
            .hint(note!("to put the snapshot in its place, and keep what is there beside it: " {replace = true})),
        error => error.into(),
    })?;
    let manifest = restored.manifest;
    let path = place.path.display().to_string();
    let kept = restored.kept.map(|path| path.display().to_string());
    let beside = kept.as_ref().map(|kept| format!(", with what was there kept in {kept}")).unwrap_or_default();
    let stored = format!("the restored office {path}{beside}");
    let position = manifest.position;
    let mut answered = Answered::new(Answer {
        path,
        office: manifest.office,
        position,
        chain: manifest.chain,
        tables: Some(manifest.tables).filter(|_| !restored.migrated),
        kept,
        kept_position: restored.kept_position,
    })
    .stored(stored);
    if let Some(last) = restored.kept_position.filter(|last| *last > position) {
        let lost = count(usize::try_from(last.0 - position.0).unwrap_or(usize::MAX), "record");
        answered = answered
            .warn(format!("{lost} that the office had after the snapshot was taken: only in the one that is kept"));
    }
    if restored.kept_position.is_none() {
        let taken_at = manifest.taken_at;
        answered = answered.warn(format!(
            "this is a copy, as of {taken_at}; if the office it was made of is still used, the two go apart"
        ));
    }
    Ok(answered)
}
