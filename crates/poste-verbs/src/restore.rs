//! Creates an office from a snapshot. Not a verb: verbs need an office.

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
    /// A folder made by `poste snapshot`
    pub snapshot: PathBuf,
    /// Replace an existing office, which is kept next to the new one
    #[serde(default)]
    pub replace: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The office's folder.
    pub path: String,
    /// The office's id: the same as before.
    pub office: String,
    /// The newest record in it.
    pub position: Position,
    /// The hash chain at that record.
    pub chain: Digest,
    /// The digest of all tables; null if they were upgraded to a newer schema.
    pub tables: Option<Digest>,
    /// Where the replaced office was moved to.
    pub kept: Option<String>,
    /// The newest record of the replaced office, if it was a copy of the same office.
    pub kept_position: Option<Position>,
}

pub fn restore(place: &Place, input: &Input, progress: &mut dyn FnMut(Progress)) -> Result<Answered<Answer>> {
    let restored = poste_config::adopt::adopt_made(place, |finished| {
        backup::restore(&input.snapshot, place, input.replace, progress, finished)
    });
    let restored = restored.map_err(|error| match error {
        error @ poste_core::Error::Occupied(_) => {
            Error::from(error).hint(note!("to replace it and keep it next to the new one: " {replace = true}))
        }
        error => error.into(),
    })?;
    let manifest = restored.manifest;
    let path = place.path.display().to_string();
    let kept = restored.kept.map(|path| path.display().to_string());
    let beside = kept.as_ref().map(|kept| format!(", with the old one kept in {kept}")).unwrap_or_default();
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
        answered = answered.warn(format!("{lost} written after the snapshot: only in the office that was kept"));
    }
    if restored.kept_position.is_none() {
        let taken_at = manifest.taken_at;
        answered = answered
            .warn(format!("this is a copy, as of {taken_at}; if the original office is still used, the two diverge"));
    }
    Ok(answered)
}
