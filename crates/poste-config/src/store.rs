//! What this user decided about offices and files, kept outside of every workspace:
//!
//! ```text
//! poste/                    in the user's state folder
//!   lock                    held while something is decided
//!   offices/KEY.json        an adopted office
//!   trusted/KEY/FILE.json   a file of it whose commands may run, with the whole text that was reviewed
//!   programs/DIGEST         a copy of a program that lay in a worktree when its command was trusted
//! ```
//!
//! A key is derived from what identifies the office's folder, so that looking one up is one small read, and a folder that
//! is renamed keeps its entries. Only this user may own or open any of it.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use poste_core::store::{Options, sync_folder};
use poste_core::{Digest, Error, limits};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

const ENDING: &str = ".json";
const PROGRAMS: &str = "programs";

/// The store of this user. It may not exist yet.
#[derive(Debug, Clone)]
pub(crate) struct UserStore {
    folder: PathBuf,
}

/// Held while something is decided. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Held(fs::File);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

impl UserStore {
    /// `None` if this user has no place for it.
    pub(crate) fn of(options: &Options) -> Option<Self> {
        options.state.clone().map(|folder| Self { folder })
    }

    pub(crate) fn exists(&self) -> bool {
        self.folder.symlink_metadata().is_ok()
    }

    /// Creates the store if necessary, and keeps other processes from deciding. Fails if it cannot be written.
    pub(crate) fn hold(&self) -> Result<Held, Error> {
        self.make_folder(&self.folder)?;
        let path = self.folder.join("lock");
        let failed = |error| Error::io(&path, error);
        let mut open = fs::OpenOptions::new();
        open.read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NOFOLLOW.bits() as i32);
        let file = open.open(&path).map_err(failed)?;
        flock(&file, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
        // A lock on a disk that is full or mounted for reading says nothing about the files beside it.
        self.write_new("probe", b"")
            .and_then(|probe| fs::remove_file(&probe).map_err(|error| Error::io(&probe, error)))?;
        Ok(Held(file))
    }

    fn make_folder(&self, folder: &Path) -> Result<(), Error> {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(|error| Error::io(folder, error))?;
        self.check_folder(folder)
    }

    fn check_folder(&self, folder: &Path) -> Result<(), Error> {
        let meta = folder.symlink_metadata().map_err(|error| Error::io(folder, error))?;
        check_private(folder, &meta, meta.is_dir())
    }

    /// The entry of this name, if there is one.
    pub(crate) fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.folder.join(format!("{name}{ENDING}"));
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = match fs::OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(&path) {
            Ok(file) => file,
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(Error::io(&path, error)),
        };
        self.check_folder(&self.folder)?;
        let failed = |error| Error::io(&path, error);
        let meta = file.metadata().map_err(failed)?;
        check_private(&path, &meta, meta.is_file())?;
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(failed)?;
        let wrong = |error: serde_json::Error| Error::Config { path: path.clone(), message: error.to_string() };
        serde_json::from_str(&text).map(Some).map_err(wrong)
    }

    /// The names of all entries in a folder of the store.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, Error> {
        let path = self.folder.join(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if is_missing(&error) => return Ok(Vec::new()),
            Err(error) => return Err(Error::io(&path, error)),
        };
        let names = entries.flatten().filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            Some(format!("{folder}/{}", name.strip_suffix(ENDING)?))
        });
        let mut names: Vec<String> = names.collect();
        names.sort();
        Ok(names)
    }

    pub(crate) fn write(&self, name: &str, entry: &impl Serialize) -> Result<(), Error> {
        let text = serde_json::to_string_pretty(entry).expect("plain data");
        self.replace(&format!("{name}{ENDING}"), text.as_bytes(), 0o600)
    }

    /// Returns whether there was an entry.
    pub(crate) fn remove(&self, name: &str) -> Result<bool, Error> {
        let path = self.folder.join(format!("{name}{ENDING}"));
        match fs::remove_file(&path) {
            Ok(()) => sync_folder(path.parent().unwrap_or(&self.folder)).map(|()| true),
            Err(error) if is_missing(&error) => Ok(false),
            Err(error) => Err(Error::io(&path, error)),
        }
    }

    /// Where the copy of a program with this digest is.
    pub(crate) fn program(&self, digest: &Digest) -> PathBuf {
        self.folder.join(PROGRAMS).join(digest.to_string())
    }

    /// Keeps a copy of a program, which runs in place of the file that it was copied from.
    pub(crate) fn keep_program(&self, bytes: &[u8]) -> Result<Digest, Error> {
        let digest = Digest::of(bytes);
        if self.program(&digest).symlink_metadata().is_err() {
            self.replace(&format!("{PROGRAMS}/{digest}"), bytes, 0o700)?;
        }
        Ok(digest)
    }

    fn replace(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), Error> {
        let path = self.folder.join(name);
        let folder = path.parent().unwrap_or(&self.folder);
        self.make_folder(folder)?;
        let unfinished = self.write_new("entry", bytes)?;
        let placed = fs::set_permissions(&unfinished, fs::Permissions::from_mode(mode))
            .and_then(|()| fs::rename(&unfinished, &path));
        if placed.is_err() {
            let _ = fs::remove_file(&unfinished);
        }
        placed.map_err(|error| Error::io(&path, error))?;
        sync_folder(folder)
    }

    /// A synced file under a name that no other process uses.
    fn write_new(&self, what: &str, bytes: &[u8]) -> Result<PathBuf, Error> {
        let path = self.folder.join(format!("{what}-{}.tmp", uuid::Uuid::new_v4().simple()));
        let written =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).and_then(|mut file| {
                file.write_all(bytes)?;
                file.sync_all()
            });
        if written.is_err() {
            let _ = fs::remove_file(&path);
        }
        written.map(|()| path.clone()).map_err(|error| Error::io(&path, error))
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.mode() & 0o111 != 0)
}

/// The bytes of a program, if it is a file that can be run and not too large to be copied.
pub(crate) fn read_program(path: &Path) -> Option<Vec<u8>> {
    let is_small = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.len() <= limits::PROGRAM_BYTES_MAX);
    let file = (is_program(path) && is_small(path)).then(|| fs::File::open(path).ok()).flatten()?;
    let mut bytes = Vec::new();
    file.take(limits::PROGRAM_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

fn is_missing(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory)
}

/// Refuses what another user could have written.
fn check_private(path: &Path, meta: &fs::Metadata, is_expected: bool) -> Result<(), Error> {
    let is_own = meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0;
    if is_expected && is_own {
        return Ok(());
    }
    let message =
        "somebody else may have written it; check what is in it, then make it yours alone (chmod go=)".to_owned();
    Err(Error::Config { path: path.to_owned(), message })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store() -> (tempfile::TempDir, UserStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = UserStore { folder: folder.path().join("poste") };
        (folder, store)
    }

    #[test]
    fn everything_in_it_is_this_users_alone_whatever_else_is_there() {
        let (_folder, store) = store();
        assert_eq!(store.read::<String>("offices/a").unwrap(), None);
        let held = store.hold().unwrap();
        store.write("offices/a", &"hello").unwrap();
        let program = store.program(&store.keep_program(b"#!/bin/sh\n").unwrap());
        drop(held);
        let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
        assert_eq!(mode(&store.folder), 0o700);
        assert_eq!(mode(&store.folder.join("offices")), 0o700);
        assert_eq!(mode(&store.folder.join("offices/a.json")), 0o600);
        assert_eq!(mode(&program), 0o700);
        let left: Vec<_> = fs::read_dir(&store.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "no leftovers: {left:?}");

        assert_eq!(store.read::<String>("offices/a").unwrap().as_deref(), Some("hello"));
        assert_eq!(store.names("offices").unwrap(), ["offices/a"]);
        for (path, good, bad) in [("offices/a.json", 0o600, 0o640), ("", 0o700, 0o755)] {
            let path = store.folder.join(path);
            fs::set_permissions(&path, fs::Permissions::from_mode(bad)).unwrap();
            assert!(store.read::<String>("offices/a").is_err(), "{}", path.display());
            fs::set_permissions(&path, fs::Permissions::from_mode(good)).unwrap();
        }
        let entry = store.folder.join("offices/a.json");
        fs::rename(&entry, store.folder.join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("../elsewhere", &entry).unwrap();
        assert!(store.read::<String>("offices/a").is_err(), "a link is not followed");
        assert!(store.remove("offices/a").unwrap() && !store.remove("offices/a").unwrap());
    }

    #[test]
    fn nothing_is_held_that_cannot_be_written() {
        let (folder, store) = store();
        store.hold().unwrap();
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o500)).unwrap();
        let is_root = rustix::process::geteuid().is_root();
        assert!(is_root || store.hold().is_err());
        fs::set_permissions(&store.folder, fs::Permissions::from_mode(0o700)).unwrap();
        let blocked = UserStore { folder: folder.path().join("file/poste") };
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(blocked.hold().is_err());
    }
}
