//! Folders of an office, open. Everything below `.poste` is reached by name through such a handle, so no link is
//! followed at any level and nothing outside is read, written or removed, whoever prepared the office.
//!
//! The database and its companions are only queried here, never opened: closing any descriptor of a database drops this
//! process's locks on it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::archive::UNFINISHED;
use crate::error::Error;

/// An open folder.
#[derive(Debug, Clone)]
pub struct Folder {
    handle: Arc<OwnedFd>,
    path: PathBuf,
    /// Whether it, and everything that is opened through it, belongs to this user.
    is_own: bool,
}

/// Why Poste does not use something in an office.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsafe {
    Link,
    /// It belongs to this user.
    Owner(u32),
    /// Its mode lets other users in.
    Mode(u32),
}

impl std::error::Error for Unsafe {}

impl fmt::Display for Unsafe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Link => f.write_str("it is a link, and an office must not contain one"),
            Self::Owner(owner) => write!(f, "it belongs to user {owner}, and you are user {}", me()),
            Self::Mode(mode) => write!(f, "other users can access it (mode {mode:04o})"),
        }
    }
}

impl From<Unsafe> for io::Error {
    fn from(why: Unsafe) -> Self {
        Self::other(why)
    }
}

/// No link is followed, and opening a pipe does not wait for its other end.
const CAREFULLY: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);
const AS_FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(CAREFULLY);
const PRIVATE_FILE: Mode = Mode::RUSR.union(Mode::WUSR);
const PRIVATE_FOLDER: Mode = Mode::RWXU;
/// What others can do with a private file or folder: nothing.
const ACCESS: u32 = 0o077;

impl Folder {
    /// Opens a folder that belongs to this user, and that no other user can write to.
    pub fn open(path: &Path) -> io::Result<Self> {
        const WRITE: u32 = 0o022;
        let folder = Self { is_own: true, ..Self::open_as_is(path)? };
        let stat = folder.stat()?;
        check_owner(&stat)?;
        check_mode(&stat, WRITE)?;
        Ok(folder)
    }

    /// Fails if another user can access the folder.
    pub(super) fn check_private(&self) -> io::Result<()> {
        check_mode(&self.stat()?, ACCESS)
    }

    /// Opens a folder that is not part of an office, such as a project: whoever owns it, and through links above it.
    pub fn open_other(path: &Path) -> io::Result<Self> {
        let handle = rustix::fs::open(path, AS_FOLDER.difference(OFlags::NOFOLLOW), Mode::empty())?;
        Ok(Self { handle: Arc::new(handle), path: path.to_owned(), is_own: false })
    }

    /// Opens a folder whoever owns it or can access it, to examine it.
    pub(crate) fn open_as_is(path: &Path) -> io::Result<Self> {
        // A slash at the end would follow a link.
        let path: PathBuf = path.components().collect();
        let handle = rustix::fs::open(&path, AS_FOLDER, Mode::empty());
        let handle = handle.map_err(|error| refused(CWD, path.as_os_str(), error))?;
        Ok(Self { handle: Arc::new(handle), path, is_own: false })
    }

    /// Fails unless a file is this user's alone, or missing.
    pub(super) fn check_private_file(&self, name: &str) -> io::Result<Option<Stat>> {
        let Some(stat) = self.look(name.as_ref())? else { return Ok(None) };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => Err(Unsafe::Link.into()),
            _ => check_owner(&stat).and_then(|()| check_mode(&stat, ACCESS)).map(|()| Some(stat)),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path with all links above it resolved, for SQLite, which takes no handle.
    pub(crate) fn real_path(&self) -> io::Result<PathBuf> {
        #[cfg(target_os = "linux")]
        {
            use std::os::fd::AsRawFd as _;
            let link = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
            if let Ok(path) = fs::read_link(link) {
                return Ok(path);
            }
        }
        self.path.canonicalize()
    }

    /// Device and inode.
    pub fn identity(&self) -> io::Result<(u64, u64)> {
        self.stat().map(|stat| identity(&stat))
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(rustix::fs::fstat(&*self.handle)?)
    }

    fn at(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }

    /// The folder itself, to lock it.
    pub(super) fn file(&self) -> io::Result<File> {
        self.handle.try_clone().map(File::from)
    }

    /// Opens a folder below this one, level by level.
    pub fn below(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        path.as_ref().iter().try_fold(self.clone(), |folder, name| folder.child(name))
    }

    fn child(&self, name: &OsStr) -> io::Result<Self> {
        let handle = rustix::fs::openat(self.at(), one(name)?, AS_FOLDER, Mode::empty());
        let child = Self {
            handle: Arc::new(handle.map_err(|error| refused(self.at(), name, error))?),
            path: self.path.join(name),
            is_own: self.is_own,
        };
        if self.is_own {
            check_owner(&child.stat()?)?;
        }
        Ok(child)
    }

    /// The folder of this name, created if it is missing.
    pub fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        match self.make_new(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.child(name.as_ref()),
            made => made,
        }
    }

    pub fn make_new(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        rustix::fs::mkdirat(self.at(), one(name.as_ref())?, PRIVATE_FOLDER)?;
        self.child(name.as_ref())
    }

    fn open_file(&self, name: &OsStr, access: OFlags) -> io::Result<File> {
        self.open_file_as(name, access, PRIVATE_FILE)
    }

    fn open_file_as(&self, name: &OsStr, access: OFlags, mode: Mode) -> io::Result<File> {
        let file = rustix::fs::openat(self.at(), one(name)?, access | CAREFULLY, mode);
        let file = file.map_err(|error| refused(self.at(), name, error))?;
        let stat = rustix::fs::fstat(&file)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        if self.is_own {
            check_owner(&stat)?;
        }
        Ok(file.into())
    }

    /// Opens an existing file for reading.
    pub fn open_to_read(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDONLY)
    }

    /// Opens an existing file for reading and writing.
    pub fn open_to_write(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR)
    }

    /// Opens a file for reading and writing, and creates it if it is missing.
    pub fn open_or_create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::RDWR | OFlags::CREATE)
    }

    pub fn append_to(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE)
    }

    /// Creates a file; an error if anything has this name.
    pub fn create(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.open_file(name.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    /// Creates an empty file unless the name is taken.
    pub(crate) fn create_if_missing(&self, name: &str) -> io::Result<()> {
        match self.create(name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => Ok(()),
        }
    }

    /// The first `bytes_max` bytes of a file.
    pub fn read(&self, name: impl AsRef<OsStr>, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open_to_read(name)?.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The last `bytes_max` bytes of a file.
    pub fn read_end(&self, name: impl AsRef<OsStr>, bytes_max: u64) -> io::Result<Vec<u8>> {
        let mut file = self.open_to_read(name)?;
        let from = file.metadata()?.len().saturating_sub(bytes_max);
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Creates a file in the place of anything that has this name.
    pub fn create_over(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        self.clear(&name)?;
        self.create(name)
    }

    /// Replaces a file atomically. It survives a power loss when this returns.
    pub fn replace(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        self.replace_with(name.as_ref(), |file| file.write_all(bytes).and_then(|()| file.sync_all()))?;
        self.sync()
    }

    /// As [`Folder::replace`], for what can be lost or made again.
    pub fn replace_unsynced(&self, name: impl AsRef<OsStr>, bytes: &[u8]) -> io::Result<()> {
        self.replace_with(name.as_ref(), |file| file.write_all(bytes))
    }

    /// Replaces a file that people edit, if `may_replace` still says so just before. It survives a power loss. Unless
    /// it is private, it keeps its mode.
    pub fn replace_if(
        &self,
        name: impl AsRef<OsStr>,
        bytes: &[u8],
        is_private: bool,
        may_replace: impl FnOnce() -> bool,
    ) -> io::Result<bool> {
        const SHARED_FILE: Mode = Mode::from_bits_retain(0o666);
        let name = name.as_ref();
        let before = self.look(name)?.filter(|_| !is_private);
        let unfinished = unfinished();
        // Until it has the mode of the old file, only its owner may open it.
        let mode = if is_private || before.is_some() { PRIVATE_FILE } else { SHARED_FILE };
        let mut file = self.open_file_as(unfinished.as_ref(), OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)?;
        let replace = || -> io::Result<bool> {
            if let Some(before) = before {
                rustix::fs::fchmod(&file, Mode::from_raw_mode(before.st_mode))?;
            }
            file.write_all(bytes)?;
            file.sync_all()?;
            Ok(may_replace() && self.rename(&unfinished, name).map(|()| true)?)
        };
        let replaced = replace();
        match replaced {
            Ok(true) => self.sync()?,
            _ => drop(self.remove(&unfinished)),
        }
        replaced
    }

    fn replace_with(&self, name: &OsStr, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
        let unfinished = unfinished();
        let mut file = self.create(&unfinished)?;
        let written = write(&mut file).and_then(|()| self.rename(&unfinished, name));
        if written.is_err() {
            let _ = self.remove(&unfinished);
        }
        written
    }

    pub fn rename(&self, from: impl AsRef<OsStr>, to: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::renameat(self.at(), one(from.as_ref())?, self.at(), one(to.as_ref())?)?)
    }

    /// Gives a file a second name, which must be free.
    pub(crate) fn link(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::linkat(self.at(), one(from.as_ref())?, self.at(), one(to.as_ref())?, AtFlags::empty())?)
    }

    /// Removes a file, or a link but not its target. Returns whether there was one.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<bool> {
        match rustix::fs::unlinkat(self.at(), one(name.as_ref())?, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes a folder that has nothing in it.
    pub(crate) fn remove_empty(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(self.at(), one(name.as_ref())?, AtFlags::REMOVEDIR)?)
    }

    /// Removes whatever has this name: a file, or a folder with everything in it.
    pub fn clear(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = one(name.as_ref())?;
        let is_folder = match self.look(name)? {
            None => return Ok(()),
            Some(stat) => FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        };
        if !is_folder {
            return self.remove(name).map(drop);
        }
        let folder = self.child(name)?;
        folder.names()?.iter().try_for_each(|name| folder.clear(name))?;
        Ok(rustix::fs::unlinkat(self.at(), name, AtFlags::REMOVEDIR)?)
    }

    /// Changes the mode of a file or folder, never of what a link points to.
    pub(crate) fn set_mode(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let is_plain =
            |stat: &Stat| matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory);
        if !self.look(name)?.as_ref().is_some_and(is_plain) {
            return Err(io::Error::other("it is no longer a file or folder"));
        }
        // By name, because a database must not be opened here.
        Ok(rustix::fs::chmodat(self.at(), one(name)?, Mode::from_raw_mode(mode), AtFlags::empty())?)
    }

    pub(crate) fn set_own_mode(&self, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&*self.handle, Mode::from_raw_mode(mode))?)
    }

    /// Whether this process may write to the folder, or to a file in it.
    pub(super) fn may_write(&self, name: &str) -> io::Result<bool> {
        match rustix::fs::accessat(self.at(), name, rustix::fs::Access::WRITE_OK, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes names created or removed here survive a power loss.
    pub fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&*self.handle)?)
    }

    /// What has a name, without following a link.
    fn look(&self, name: &OsStr) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(self.at(), one(name)?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Device and inode of what has a name.
    pub fn identity_of(&self, name: impl AsRef<OsStr>) -> Option<(u64, u64)> {
        self.look(name.as_ref()).ok().flatten().map(|stat| identity(&stat))
    }

    pub fn entry(&self, name: impl AsRef<OsStr>) -> io::Result<Option<Entry>> {
        let name = name.as_ref();
        Ok(self.look(name)?.map(|stat| Entry::new(self.path.join(name), &stat)))
    }

    /// How long a file is; 0 if there is none.
    pub(crate) fn bytes_of(&self, name: &str) -> u64 {
        let stat = self.look(name.as_ref()).ok().flatten();
        stat.map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// The names in it, sorted.
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&*self.handle)? {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." {
                names.push(name.to_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    /// What is in it, sorted by name.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        // A file may be deleted in the meantime, as temporary files are.
        self.names()?.iter().filter_map(|name| self.entry(name).transpose()).collect()
    }

    /// What is in a folder below it; nothing if there is no such folder.
    pub fn entries_of(&self, name: &str) -> io::Result<Vec<Entry>> {
        match self.child(name.as_ref()) {
            Ok(folder) => folder.entries(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Removes the unfinished files of dead writers. The caller keeps living ones out.
    pub(crate) fn remove_unfinished(&self) -> io::Result<()> {
        let names = self.names()?;
        let mut unfinished = names.iter().filter(|name| name.as_bytes().starts_with(UNFINISHED.as_bytes()));
        unfinished.try_for_each(|name| self.remove(name).map(drop))
    }

    /// Creates the files that every office has, where they are missing.
    pub(crate) fn make_missing(&self) -> io::Result<()> {
        self.make("blobs")?;
        self.create_if_missing("bell")?;
        // Mail does not belong in a repository.
        match self.create(GITIGNORE) {
            Ok(mut file) => file.write_all(IGNORE_ALL.as_bytes()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.at()
    }
}

pub(super) const GITIGNORE: &str = ".gitignore";
pub(super) const IGNORE_ALL: &str = "*\n";

/// A new name for a file that is being written.
pub(super) fn unfinished() -> String {
    format!("{UNFINISHED}{}", uuid::Uuid::new_v4().simple())
}

/// A name that cannot lead to another folder.
fn one(name: &OsStr) -> io::Result<&OsStr> {
    let is_one = !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/');
    if is_one { Ok(name) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a plain name")) }
}

/// Links are refused with different errors, depending on the system and on what is opened.
fn refused(at: BorrowedFd<'_>, name: &OsStr, error: Errno) -> io::Error {
    let is_link = || {
        let stat = rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    };
    match error {
        Errno::LOOP | Errno::NOTDIR | Errno::MLINK if is_link() => Unsafe::Link.into(),
        error => error.into(),
    }
}

fn check_owner(stat: &Stat) -> io::Result<()> {
    if stat.st_uid == me() { Ok(()) } else { Err(Unsafe::Owner(stat.st_uid).into()) }
}

fn check_mode(stat: &Stat, of_others: u32) -> io::Result<()> {
    let mode = permissions(stat);
    if mode & of_others == 0 { Ok(()) } else { Err(Unsafe::Mode(mode).into()) }
}

#[allow(clippy::unnecessary_cast, reason = "the types depend on the system")]
pub(super) fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

#[allow(clippy::unnecessary_cast, reason = "the type depends on the system")]
fn permissions(stat: &Stat) -> u32 {
    stat.st_mode as u32 & 0o7777
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
    Link,
    Other,
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub path: PathBuf,
    pub name: String,
    pub kind: Kind,
    pub mode: u32,
    pub owner: u32,
    pub bytes: u64,
    pub modified: SystemTime,
}

impl Entry {
    fn new(path: PathBuf, stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Directory => Kind::Folder,
            FileType::Symlink => Kind::Link,
            _ => Kind::Other,
        };
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        #[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "the types depend on the system")]
        let since_1970 = Duration::new(stat.st_mtime.max(0) as u64, (stat.st_mtime_nsec as u64 % 1_000_000_000) as u32);
        let modified = SystemTime::UNIX_EPOCH + since_1970;
        let bytes = u64::try_from(stat.st_size).unwrap_or(0);
        Self { path, name, kind, mode: permissions(stat), owner: stat.st_uid, bytes, modified }
    }

    /// Time since the last write, by the machine's clock; zero if that is in the future.
    pub fn age(&self) -> Duration {
        self.modified.elapsed().unwrap_or_default()
    }

    pub(crate) fn age_ms(&self) -> i64 {
        i64::try_from(self.age().as_millis()).unwrap_or(i64::MAX)
    }
}

/// A folder of a project. Links are followed, as people use them there, but not out of the project.
pub fn in_project(project: &Path, relative: &Path) -> io::Result<Folder> {
    let folder = Folder::open_other(project)?;
    match folder.below(relative) {
        Err(error) if is_link(&error) => folder.below(resolved(project, relative)?),
        found => found,
    }
}

/// The folder and the name of a file of a project, which may be missing.
pub fn file_in_project(project: &Path, relative: &Path) -> io::Result<(Folder, OsString)> {
    let split = |path: &Path| Some((path.parent()?.to_owned(), path.file_name()?.to_owned()));
    let (above, name) = split(relative).ok_or_else(out_of_project)?;
    let folder = in_project(project, &above)?;
    if folder.entry(&name)?.is_none_or(|entry| entry.kind != Kind::Link) {
        return Ok((folder, name));
    }
    let (above, name) = split(&resolved(project, relative)?).ok_or_else(out_of_project)?;
    Ok((in_project(project, &above)?, name))
}

fn resolved(project: &Path, relative: &Path) -> io::Result<PathBuf> {
    let target = project.join(relative).canonicalize()?;
    target.strip_prefix(project.canonicalize()?).map(Path::to_owned).map_err(|_| out_of_project())
}

fn out_of_project() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "it is a link that leads out of the project")
}

fn is_link(error: &io::Error) -> bool {
    error.get_ref().and_then(|inner| inner.downcast_ref()) == Some(&Unsafe::Link)
}

/// This process's user id.
pub(crate) fn me() -> u32 {
    static ME: OnceLock<u32> = OnceLock::new();
    *ME.get_or_init(|| rustix::process::geteuid().as_raw())
}

pub(crate) fn age_ms(meta: &Metadata) -> Option<i64> {
    let age = meta.modified().ok()?.elapsed().unwrap_or_default();
    Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// What is at a path, without following a link. `None` if there is nothing.
pub(crate) fn entry(path: &Path) -> Result<Option<Entry>, Error> {
    match rustix::fs::lstat(path) {
        Ok(stat) => Ok(Some(Entry::new(path.to_owned(), &stat))),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(Error::io(path, error.into())),
    }
}

/// What is in a folder, wherever it is, sorted by name. Empty if there is no such folder.
pub(crate) fn entries(path: &Path) -> Result<Vec<Entry>, Error> {
    let failed = |error| Error::io(path, error);
    match Folder::open_other(path) {
        Ok(folder) => folder.entries().map_err(failed),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed(error)),
    }
}

pub(crate) fn remove_folder(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(path, error)),
        _ => Ok(()),
    }
}

/// Makes names created in a folder survive a power loss, wherever it is.
pub fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|error| Error::io(path, error))
}

/// The folder that a path is in; for a plain name, the current one.
pub fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a path leads to a folder, following links.
pub(crate) fn is_folder(path: &Path) -> bool {
    path.is_dir()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn no_link_is_followed_at_any_level() {
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("file"), "precious").unwrap();
        let office = tempfile::tempdir().unwrap();
        let path = |name: &str| office.path().join(name);
        symlink(outside.path(), path("folder")).unwrap();
        symlink(outside.path().join("file"), path("file")).unwrap();
        symlink(outside.path().join("new"), path("dangling")).unwrap();
        let folder = Folder::open(office.path()).unwrap();
        let is_link = |error: io::Error| error.get_ref().is_some_and(|inner| inner.is::<Unsafe>());
        assert!(is_link(folder.below("folder").unwrap_err()));
        assert!(is_link(folder.make("folder").unwrap_err()));
        assert!(is_link(folder.open_to_read("file").unwrap_err()));
        assert!(is_link(folder.open_to_write("file").unwrap_err()));
        assert!(is_link(folder.open_or_create("dangling").unwrap_err()));
        assert!(is_link(folder.append_to("file").unwrap_err()));
        assert!(folder.create("dangling").is_err());
        assert!(folder.set_mode("file".as_ref(), 0o600).is_err());
        folder.replace("file", b"new").unwrap();
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "new", "the link itself is replaced");
        folder.clear("folder").unwrap();
        for name in ["../file", "/file", "..", ".", ""] {
            assert!(folder.create(name).is_err() && folder.open_to_read(name).is_err(), "{name}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
        assert_eq!(fs::read_to_string(outside.path().join("file")).unwrap(), "precious");

        symlink(office.path(), outside.path().join("link")).unwrap();
        for name in ["link", "link/", "link/."] {
            assert!(Folder::open(&outside.path().join(name)).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_made_is_private_and_what_others_may_open_is_refused() {
        let office = tempfile::tempdir().unwrap();
        let folder = Folder::open(office.path()).unwrap();
        let made = folder.make("made").unwrap();
        made.create("new").unwrap();
        made.replace("replaced", b"").unwrap();
        made.append_to("appended").unwrap();
        made.open_or_create("lock").unwrap();
        assert!(made.entries().unwrap().iter().all(|entry| entry.mode == 0o600));
        assert_eq!(folder.entry("made").unwrap().unwrap().mode, 0o700);
        fs::set_permissions(office.path(), fs::Permissions::from_mode(0o770)).unwrap();
        let error = Error::io(office.path(), Folder::open(office.path()).unwrap_err());
        assert!(matches!(error, Error::Unsafe { why: Unsafe::Mode(0o770), .. }), "{error}");
    }
}
