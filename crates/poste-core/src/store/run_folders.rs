//! The folders of runs, in `runs/`: the input of an agent's program, its output and its answer.
//!
//! Supervisors write and read them. This module only knows where they are, so that redacted content can be erased from
//! them too.

use std::io;

use super::Folder;
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
pub(crate) fn forget(office: &Folder, runs: &[Session]) -> Result<(), Error> {
    for run in runs {
        let path = std::path::Path::new(FOLDER).join(name(run));
        let forget = || -> io::Result<()> {
            let folder = office.below(&path)?;
            for name in folder.names()? {
                // The program may have put anything here, folders too.
                if !KEPT.iter().any(|kept| name == *kept) {
                    folder.clear(&name)?;
                }
            }
            folder.sync()
        };
        match forget() {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(&office.path().join(&path), error));
            }
            _ => {}
        }
    }
    Ok(())
}
