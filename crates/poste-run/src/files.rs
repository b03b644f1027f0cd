//! Files in a folder that a command may write to as well: it may put a pipe, a link or a folder anywhere, at any
//! moment. None of these may block, overfill or redirect a reader or writer.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// Opens without following links and without waiting for the other end of a pipe.
fn carefully() -> OpenOptions {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let mut options = OpenOptions::new();
    options.custom_flags(flags.cast_signed());
    options
}

fn plain(file: File) -> io::Result<File> {
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")),
    }
}

/// Creates a file that only this user can access, replacing anything at that path.
pub fn create(path: &Path) -> io::Result<File> {
    clear(path)?;
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// Removes anything at that path. The target of a link stays.
pub fn clear(path: &Path) -> io::Result<()> {
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
pub fn replace(fresh: &Path, path: &Path) -> io::Result<()> {
    if fs::rename(fresh, path).is_ok() {
        return Ok(());
    }
    clear(path)?;
    fs::rename(fresh, path)
}

/// Opens or creates a regular file for locking. It must never be replaced: a new file would be a different lock.
pub fn lockable(path: &Path) -> io::Result<File> {
    plain(carefully().write(true).create(true).truncate(false).mode(0o600).open(path)?)
}

/// Opens an existing regular file, for writing or locking.
pub fn existing(path: &Path) -> io::Result<File> {
    plain(carefully().write(true).open(path)?)
}

/// Opens an existing regular file for reading.
pub fn readable(path: &Path) -> io::Result<File> {
    plain(carefully().read(true).open(path)?)
}

/// The first `max` bytes of a regular file.
pub fn beginning(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    readable(path)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The last `max` bytes of a regular file.
pub fn ending(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut file = readable(path)?;
    let from = file.metadata()?.len().saturating_sub(max);
    file.seek(io::SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}
