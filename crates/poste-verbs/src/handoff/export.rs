//! Writes the package of a handoff into a new folder.

use std::path::{Path, PathBuf};

use poste_core::handoff::documents;
use poste_core::log::MessageNo;
use poste_core::store::package;
use poste_core::views::HandoffView;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find;
use crate::{Access, Answered, Desk, Error, Result, Touch, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The handoff's number
    pub number: MessageNo,
    /// The folder to write. Only people can write outside the office.
    #[serde(skip)]
    pub folder: Option<Folder>,
}

/// A folder that does not exist yet.
#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    /// The path as it was typed.
    pub name: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The handoff's number.
    pub number: MessageNo,
    /// The folder that was written.
    pub folder: String,
    /// Number of files in artifacts/.
    pub artifacts: usize,
    /// Their total size in bytes.
    pub bytes: u64,
}

impl Verb for Input {
    const NAME: &'static str = "handoff export";
    const ACCESS: Access = Access::Reads;
    const ACTS_OUTSIDE: bool = true;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("folder", Touch::WritesFiles)];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let number = self.number;
        let Some(folder) = self.folder else {
            return Err(Error::refused("only the command line can write a package").code("no_files"));
        };
        let view = find(desk.office, number)?;
        if let Some(redaction) = view.redacted.as_ref().filter(|_| !view.artifacts.is_empty()) {
            let message = format!("handoff {number} and its copies were redacted by {}", redaction.by);
            return Err(Error::refused(message));
        }
        write(desk, &view, &folder.path)?;
        desk.note_stored(format!("the package {}", folder.path.display()));
        Ok(Answered::new(Answer {
            number,
            folder: folder.name,
            artifacts: view.artifacts.len(),
            bytes: view.artifacts.iter().filter_map(|artifact| artifact.size).sum(),
        }))
    }
}

fn write(desk: &mut Desk<'_>, view: &HandoffView, folder: &Path) -> Result {
    let (office, mut watched) = desk.watched_office();
    let blobs = office.store().blobs().ok_or_else(|| Error::usage("this office does not store blobs"))?;
    let exported = package::export(folder, office.path()?, &documents(view), &view.artifacts, blobs, &mut watched);
    exported.map_err(|error| match error {
        error @ poste_core::Error::Occupied(_) => Error::from(error).hint("name a folder that does not exist"),
        error => error.into(),
    })
}
