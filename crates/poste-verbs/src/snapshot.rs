//! Makes a complete, verified copy of the office in a new folder.

use std::path::PathBuf;

use poste_core::{Digest, Position, backup};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The folder to create. It must not exist, and cannot be inside the office. It may be anywhere else, so a model
    /// cannot set it.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The folder of the snapshot.
    pub snapshot: String,
    /// The office's id, the same for all its copies.
    pub office: String,
    /// The newest record in it.
    pub position: Position,
    /// The hash chain at that record.
    pub chain: Digest,
    /// The digest of all tables.
    pub tables: Digest,
    /// Number of files.
    pub files: usize,
    /// Their total size in bytes.
    pub bytes: u64,
}

impl Verb for Input {
    const NAME: &'static str = "snapshot";
    const ACCESS: Access = Access::Administers;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("folder", Touch::WritesFiles)];
    const ACTS_OUTSIDE: bool = true;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let folder = self.folder.ok_or_else(|| Error::refused("files cannot be named here").code("no_files"))?;
        let (office, mut report) = desk.watched_office();
        let taken = backup::take(office, &folder, &mut report);
        drop(report);
        let manifest = taken.map_err(|error| match error {
            error @ poste_core::Error::Occupied(_) => Error::from(error).hint("name a folder that does not exist"),
            error => error.into(),
        })?;
        let snapshot = folder.display().to_string();
        desk.note_stored(format!("the snapshot {snapshot}"));
        desk.say(note!("restore it: " [restore, snapshot = snapshot]));
        Ok(Answered::new(Answer {
            snapshot,
            files: manifest.files.len(),
            bytes: manifest.bytes(),
            office: manifest.office,
            position: manifest.position,
            chain: manifest.chain,
            tables: manifest.tables,
        }))
    }
}
