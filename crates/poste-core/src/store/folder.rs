//! What is in a folder (modes, owners, sizes, ages), and the few changes that `poste doctor --fix` makes there.
//!
//! Nothing here opens a file. Closing any descriptor of a database drops this process's locks on it, so the database
//! and its companions are only queried by name.

use std::fs::{self, DirEntry, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{make_private_folder, private_file};
use crate::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    Other,
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub path: PathBuf,
    pub name: String,
    pub kind: Kind,
    pub mode: u32,
    pub owner: u32,
    pub bytes: u64,
    /// Time since the last write, by the machine's clock; zero if that is in the future.
    pub age_ms: i64,
}

impl Entry {
    fn new(path: PathBuf, meta: &Metadata) -> Self {
        let kind = match meta.file_type() {
            kind if kind.is_file() => Kind::File,
            kind if kind.is_dir() => Kind::Folder,
            kind if kind.is_symlink() => Kind::Link,
            _ => Kind::Other,
        };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let age_ms = age_ms(meta).unwrap_or(0);
        Self { path, name, kind, mode: meta.mode() & 0o7777, owner: meta.uid(), bytes: meta.len(), age_ms }
    }
}

/// This process's user id.
pub(crate) fn me() -> u32 {
    rustix::process::geteuid().as_raw()
}

pub(crate) fn age_ms(meta: &Metadata) -> Option<i64> {
    let age = meta.modified().ok()?.elapsed().unwrap_or_default();
    Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// What is at a path, without following a link. `None` if there is nothing.
pub(crate) fn entry(path: &Path) -> Result<Option<Entry>, Error> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(Entry::new(path.to_owned(), &meta))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

/// What is in a folder, sorted by name. Empty if there is no such folder.
pub(crate) fn entries(folder: &Path) -> Result<Vec<Entry>, Error> {
    let listing = match fs::read_dir(folder) {
        Ok(listing) => listing,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::io(folder, error)),
    };
    let read = |found: io::Result<DirEntry>| -> io::Result<Option<Entry>> {
        let path = found?.path();
        match fs::symlink_metadata(&path) {
            Ok(meta) => Ok(Some(Entry::new(path, &meta))),
            // It was deleted in the meantime, as temporary files are.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    };
    let mut found = listing
        .map(read)
        .filter_map(io::Result::transpose)
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| Error::io(folder, error))?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// Changes the mode of a file or folder, never of what a link points to.
pub(crate) fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    match entry(path)? {
        Some(Entry { kind: Kind::File | Kind::Folder, .. }) => {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| Error::io(path, error))
        }
        _ => Err(Error::io(path, io::Error::other("it is no longer a file or folder"))),
    }
}

/// Removes a file. A file that is already gone counts as removed.
pub(crate) fn remove_file(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

pub(crate) fn remove_folder(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Creates the files that every office has, where they are missing.
pub(crate) fn make_missing(office: &Path) -> Result<(), Error> {
    make_private_folder(&office.join("blobs"))?;
    private_file(&office.join("bell"))?;
    let ignore = office.join(".gitignore");
    if !ignore.exists() {
        fs::write(&ignore, "*\n").map_err(|error| Error::io(&ignore, error))?;
    }
    Ok(())
}

/// The folder that a path is in; for a plain name, the current one.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The path with all links resolved.
pub(crate) fn real(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|error| Error::io(path, error))
}

/// Whether a path leads to a folder, following links.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir()
}
