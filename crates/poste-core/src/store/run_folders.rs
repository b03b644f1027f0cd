//! The folders of runs, in `runs/`: the input of an agent's program, its output and its answer.
//!
//! Supervisors write and read them. This module only knows where they are, so that redacted content can be erased from
//! them too.

use std::fs;
use std::io;
use std::path::Path;

use crate::error::Error;
use crate::text::Session;

/// Relative to the office.
pub const FOLDER: &str = "runs";
/// The files that say which agent a run was for and how it ended. They hold no content.
pub const KEPT: &[&str] = &["lock", "run.json", "end.json"];

/// The name of a run's folder. A session id may contain any printable character, a folder name may not.
pub fn name(run: &Session) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
    let sign = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02x}") };
    run.as_str().bytes().map(sign).collect()
}

/// Deletes the texts of runs whose input or answer was redacted. A program that is still running is not stopped.
pub(crate) fn forget(office: &Path, runs: &[Session]) -> Result<(), Error> {
    for run in runs {
        let folder = office.join(FOLDER).join(name(run));
        let failed = |error: io::Error| Error::io(&folder, error);
        let entries = match fs::read_dir(&folder) {
            Err(none) if none.kind() == io::ErrorKind::NotFound => continue,
            entries => entries.map_err(failed)?,
        };
        for entry in entries {
            let entry = entry.map_err(failed)?;
            if KEPT.iter().any(|kept| entry.file_name() == *kept) {
                continue;
            }
            // The program may have put anything here, folders too.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_folder { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) };
            match removed {
                Err(gone) if gone.kind() == io::ErrorKind::NotFound => {}
                removed => removed.map_err(failed)?,
            }
        }
        super::sync_folder(&folder)?;
    }
    Ok(())
}
