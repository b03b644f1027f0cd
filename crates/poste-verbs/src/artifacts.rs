//! Files that belong to a message, recorded as they are now.

use std::path::PathBuf;

use poste_core::fold::Code;
use poste_core::limits;
use poste_core::log::Artifact;

use crate::error::{EMPTY_FILE, MISSING_FILE};
use crate::secret::Secrets;
use crate::{Desk, Error, Result};

/// Files named in an input, by how they are recorded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Named<'a> {
    /// They exist; size and digest are recorded.
    pub present: &'a [PathBuf],
    /// They are copied into the office.
    pub attached: &'a [PathBuf],
    /// They will be written later; nothing is checked.
    pub later: &'a [PathBuf],
}

impl Named<'_> {
    pub fn present(paths: &[PathBuf]) -> Named<'_> {
        Named { present: paths, ..Named::default() }
    }

    fn len(&self) -> usize {
        self.present.len() + self.attached.len() + self.later.len()
    }

    /// Refuses attached files that look like they hold a secret, unless a person allowed that.
    pub fn record(&self, desk: &Desk<'_>, secrets: Secrets) -> Result<Vec<Artifact>> {
        if self.len() == 0 {
            return Ok(Vec::new());
        }
        // The fold checks this too, but only after every file was read and attachments were copied.
        if self.len() > limits::ARTIFACTS_MAX {
            return Err(
                Error::refused(format!("more than {} artifacts", limits::ARTIFACTS_MAX)).code(Code::TooLarge.word())
            );
        }
        let tree = desk.worktree()?;
        let root = tree.root();
        let mut artifacts = Vec::new();
        for path in self.present {
            artifacts.push(tree.present(root, path)?);
        }
        for path in self.attached {
            let blobs = desk.office.store().blobs().ok_or_else(|| Error::usage("this office does not store blobs"))?;
            artifacts.push(tree.attach(root, path, blobs, secrets.are_allowed())?);
        }
        for path in self.later {
            artifacts.push(tree.later(root, path)?);
        }
        Ok(artifacts)
    }
}

/// Adds a hint to errors about missing or empty files, which may not be finished yet.
pub fn suggest_later(error: Error) -> Error {
    if [Some(MISSING_FILE), Some(EMPTY_FILE)].contains(&error.code) {
        return error.hint(note!("if it is still being written, say so: " {artifact_later = "PATH"}));
    }
    error
}
