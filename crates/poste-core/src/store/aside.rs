//! Folders that are built next to their place and renamed at the end, so they are either complete or absent.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};

use super::blobs::Stored;
use super::folder::{self, Kind};
use super::{Folder, Locked, sync_folder};
use crate::digest::Digest;
use crate::error::Error;

/// A folder under a temporary name until it is finished. Its builder holds a lock on it, which distinguishes a folder
/// under construction from an abandoned one.
#[derive(Debug)]
pub(crate) struct Aside {
    path: PathBuf,
    _lock: Locked,
    placed: bool,
}

impl Aside {
    /// Begins a folder, and removes those that killed processes left behind under the same prefix.
    pub(crate) fn begin(parent: &Path, prefix: &str) -> Result<Self, Error> {
        for entry in folder::entries(parent)? {
            if entry.kind == Kind::Folder && entry.name.starts_with(prefix) && is_abandoned(&entry.path) {
                folder::remove_folder(&entry.path)?;
            }
        }
        let path = parent.join(format!("{prefix}{}", uuid::Uuid::new_v4().simple()));
        new_folder(&path)?;
        let lock = Folder::open(&path).and_then(|folder| Locked::exclusive(folder.file()?));
        let lock = lock.map_err(|error| Error::io(&path, error))?;
        Ok(Self { path, _lock: lock, placed: false })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        new_folder(&path)?;
        Ok(path)
    }

    /// Makes everything in it survive a power loss. Files are synced as they are written, so only names remain.
    fn sync(&self) -> Result<(), Error> {
        for entry in folder::entries(&self.path)?.iter().filter(|entry| entry.kind == Kind::Folder) {
            sync_folder(&entry.path)?;
        }
        sync_folder(&self.path)
    }

    /// Renames it to `at`, unless something is there.
    pub(crate) fn place(mut self, at: &Path) -> Result<(), Error> {
        self.sync()?;
        match renameat_with(CWD, &self.path, CWD, at, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTEMPTY) => return Err(Error::Occupied(at.to_owned())),
            // Some file systems do not support the flag. A plain rename could at most replace an empty folder created
            // at this instant.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) if folder::entry(at)?.is_none() => {
                fs::rename(&self.path, at).map_err(|error| Error::io(at, error))?;
            }
            Err(error) => return Err(Error::io(at, error.into())),
        }
        self.placed = true;
        sync_folder(folder::parent(at))
    }

    /// Replaces what is at `at`, and keeps that at `keep`.
    ///
    /// The finished folder is first renamed to `keep`, then the two are exchanged in one step. So there is a complete
    /// office at `at` at every moment, and a complete office never has a name under which it could be removed as
    /// abandoned.
    pub(crate) fn replace(mut self, at: &Path, keep: &Path) -> Result<(), Error> {
        self.sync()?;
        fs::rename(&self.path, keep).map_err(|error| Error::io(keep, error))?;
        if let Err(error) = renameat_with(CWD, keep, CWD, at, RenameFlags::EXCHANGE) {
            let why = io::Error::from(error);
            // The new folder must not stay under the name that was meant for the old one.
            fs::rename(keep, &self.path).map_err(|error| {
                let what = format!("{error}; this is the new folder, meant for {}: {why}", at.display());
                Error::io(keep, io::Error::new(error.kind(), what))
            })?;
            match error {
                rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS => self.replace_in_steps(at, keep)?,
                _ => return Err(not_replaced(at, why)),
            }
        }
        self.placed = true;
        sync_folder(folder::parent(at))
    }

    /// For file systems that cannot exchange names. For an instant nothing is at `at`, and both folders are complete
    /// next to it.
    fn replace_in_steps(&self, at: &Path, keep: &Path) -> Result<(), Error> {
        fs::rename(at, keep).map_err(|error| not_replaced(at, error))?;
        let Err(why) = fs::rename(&self.path, at) else { return Ok(()) };
        Err(match fs::rename(keep, at) {
            Ok(()) => not_replaced(at, why),
            Err(error) => {
                let what = format!("{error}; nothing is there now, the previous folder is {}: {why}", keep.display());
                Error::io(at, io::Error::new(error.kind(), what))
            }
        })
    }
}

fn not_replaced(at: &Path, error: io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::ResourceBusy => "; a folder that something is mounted on cannot be replaced",
        _ => "",
    };
    Error::io(at, io::Error::new(error.kind(), format!("{error}{why}; nothing was changed")))
}

impl Drop for Aside {
    fn drop(&mut self) {
        if !self.placed {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Whether its builder has died.
pub(crate) fn is_abandoned(path: &Path) -> bool {
    Folder::open_as_is(path).and_then(|folder| Locked::exclusive(folder.file()?)).is_ok()
}

/// Opens a file of a folder that may be from any source; `None` if there is none.
pub(crate) fn source(folder: &Path, file: &str) -> Result<Option<File>, Error> {
    let (above, name) = file.rsplit_once('/').unwrap_or(("", file));
    match Folder::open_as_is(folder).and_then(|folder| folder.below(above)?.open_to_read(name)) {
        Ok(source) => Ok(Some(source)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(&folder.join(file), error)),
    }
}

/// Copies a file into a new private one, synced, and returns its digest and size.
pub(crate) fn copy(mut source: File, to: &Path, mut moved: impl FnMut(u64)) -> Result<Stored, Error> {
    let mut target = new_file(to)?;
    let mut hasher = blake3::Hasher::new();
    let mut size = 0;
    let mut buffer = vec![0; 256 * 1024];
    loop {
        let read = match source.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(Error::io(to, error)),
        };
        hasher.update(&buffer[..read]);
        target.write_all(&buffer[..read]).map_err(|error| Error::io(to, error))?;
        size += read as u64;
        moved(read as u64);
    }
    target.sync_all().map_err(|error| Error::io(to, error))?;
    Ok(Stored { digest: Digest::from_bytes(*hasher.finalize().as_bytes()), size })
}

pub(crate) fn write(to: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut file = new_file(to)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(|error| Error::io(to, error))
}

/// Digest and size of a finished file. Never call this on a database that is open in this process: closing the file
/// would drop its locks.
pub(crate) fn hash(path: &Path) -> Result<Stored, Error> {
    let mut hasher = blake3::Hasher::new();
    let mut file = open_regular(path).map_err(|error| Error::io(path, error))?;
    let size = io::copy(&mut file, &mut hasher).map_err(|error| Error::io(path, error))?;
    file.sync_all().map_err(|error| Error::io(path, error))?;
    Ok(Stored { digest: Digest::from_bytes(*hasher.finalize().as_bytes()), size })
}

/// A whole file, or an error if it is longer than `bytes_max`.
pub(crate) fn read_at_most(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other(format!("it has more than {bytes_max} bytes")));
    }
    Ok(bytes)
}

/// A snapshot may be from any source, so links are not followed and opening a pipe does not block.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is not a regular file")),
    }
}

pub(super) fn new_file(path: &Path) -> Result<File, Error> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    made.map_err(|error| Error::io(path, error))
}

pub(super) fn new_folder(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new().mode(0o700).create(path).map_err(|error| Error::io(path, error))
}

/// Whether `path` is `folder` or below it, after following links.
pub(crate) fn is_within(path: &Path, folder: &Path) -> Result<bool, Error> {
    let real = |path: &Path| path.canonicalize().map_err(|error| Error::io(path, error));
    let (path, folder) = (real(path)?, real(folder)?);
    let same = |a: &Path| {
        let id = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
        id(a).is_some() && id(a) == id(&folder)
    };
    Ok(path.ancestors().any(same))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_placed_goes_away_and_what_is_being_built_stays() {
        let folder = tempfile::tempdir().unwrap();
        let here = || folder::entries(folder.path()).unwrap().len();
        drop(Aside::begin(folder.path(), "new-").unwrap());
        assert_eq!(here(), 0);
        fs::create_dir(folder.path().join("new-of-a-killed-process")).unwrap();
        let first = Aside::begin(folder.path(), "new-").unwrap();
        assert_eq!(here(), 1, "the abandoned one is gone");
        let second = Aside::begin(folder.path(), "new-").unwrap();
        assert_eq!(here(), 2, "the first is still being built");
        let place = folder.path().join("place");
        first.place(&place).unwrap();
        assert!(matches!(second.place(&place), Err(Error::Occupied(_))));
        assert_eq!(here(), 1);
    }

    #[test]
    fn what_is_replaced_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let (at, keep) = (folder.path().join("at"), folder.path().join("keep"));
        fs::create_dir(&at).unwrap();
        fs::write(at.join("old"), "").unwrap();
        let aside = Aside::begin(folder.path(), "new-").unwrap();
        fs::write(aside.path().join("new"), "").unwrap();
        aside.replace(&at, &keep).unwrap();
        assert!(at.join("new").exists() && keep.join("old").exists());
        assert_eq!(folder::entries(folder.path()).unwrap().len(), 2);
    }

    #[test]
    fn what_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let names = || {
            let mut names: Vec<String> =
                folder::entries(folder.path()).unwrap().into_iter().map(|entry| entry.name).collect();
            names.sort();
            names
        };
        // With nothing to exchange with, the exchange fails as it does on a mount point, after the first rename.
        let aside = Aside::begin(folder.path(), "new-").unwrap();
        let error = aside.replace(&path("at"), &path("at.before-1")).unwrap_err().to_string();
        assert!(error.ends_with("nothing was changed"), "{error}");
        assert_eq!(names(), [""; 0]);

        let aside = Aside::begin(folder.path(), "new-").unwrap();
        assert!(aside.replace_in_steps(&path("at"), &path("at.before-1")).is_err());
        drop(aside);
        assert_eq!(names(), [""; 0]);

        fs::create_dir(path("at")).unwrap();
        fs::write(path("at").join("old"), "").unwrap();
        let aside = Aside::begin(folder.path(), "new-").unwrap();
        fs::remove_dir(aside.path()).unwrap();
        let error = aside.replace_in_steps(&path("at"), &path("at.before-1")).unwrap_err().to_string();
        assert!(error.ends_with("nothing was changed"), "{error}");
        assert_eq!(names(), ["at"]);
        assert!(path("at").join("old").exists(), "it is put back");

        let mut aside = Aside::begin(folder.path(), "new-").unwrap();
        fs::write(aside.path().join("new"), "").unwrap();
        aside.replace_in_steps(&path("at"), &path("at.before-1")).unwrap();
        aside.placed = true;
        assert_eq!(names(), ["at", "at.before-1"]);
        assert!(path("at").join("new").exists() && path("at.before-1").join("old").exists());
    }

    #[test]
    fn a_mount_point_is_named_as_the_reason() {
        let error = not_replaced(Path::new(".poste"), rustix::io::Errno::BUSY.into()).to_string();
        assert!(error.contains("mounted") && error.ends_with("nothing was changed"), "{error}");
    }

    #[test]
    fn links_and_pipes_are_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        rustix::fs::mknodat(CWD, path("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::write(path("folder").join("file"), "text").unwrap();
        std::os::unix::fs::symlink("folder", path("linked")).unwrap();
        let source = |name: &str| source(folder.path(), name);
        assert!(source("link").is_err());
        assert!(source("pipe").is_err());
        assert!(source("linked/file").is_err());
        assert!(source("missing").unwrap().is_none());
        let copied = copy(source("folder/file").unwrap().unwrap(), &path("d"), |_| {}).unwrap();
        assert_eq!(copied, Stored { digest: Digest::of(b"text"), size: 4 });
        assert_eq!(hash(&path("d")).unwrap(), copied);
    }

    #[test]
    fn a_place_within_a_folder_is_seen_through_links() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("office/blobs")).unwrap();
        std::os::unix::fs::symlink("office/blobs", folder.path().join("link")).unwrap();
        let office = folder.path().join("office");
        assert!(is_within(&folder.path().join("link"), &office).unwrap());
        assert!(is_within(&office, &office).unwrap());
        assert!(!is_within(folder.path(), &office).unwrap());
    }
}
