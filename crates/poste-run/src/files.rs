//! Files in a folder that a command may write to as well: it may put a pipe, a link or a folder anywhere, at any
//! moment. None of these may block, overfill or redirect a reader or writer.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Creates a file that only this user can access, replacing anything at that path.
pub fn create(path: &Path) -> io::Result<File> {
    clear(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes anything at that path. The target of a link stays.
fn clear(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(failed) => Err(failed),
    };
    match removed {
        Err(none) if none.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Moves a file, replacing anything at the new path.
pub(crate) fn replace(fresh: &Path, path: &Path) -> io::Result<()> {
    if fs::rename(fresh, path).is_ok() {
        return Ok(());
    }
    clear(path)?;
    fs::rename(fresh, path)
}
