//! Files that messages name: opened below a root and nowhere else, regular files only, hashed as they were.

mod files;
mod gather;
mod repository;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, MetadataExt};

use super::blobs::{Blobs, Stored};
use super::{Folder, discover, path_text};
use crate::digest::Digest;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::limits;
use crate::log::{Artifact, ArtifactState};
use crate::secrets::{Finding, find_in_file};

pub use files::Files;
pub use gather::{FileFault, FileProblem, Listed, damaged_copies};
pub use repository::Repository;

/// An open folder. Everything below it is reached through its handle, and no link leads out of it.
#[derive(Debug)]
pub struct Worktree {
    folder: Dir,
    /// Its path when it was opened.
    root: PathBuf,
    office: Option<Folder>,
}

/// What a file is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub size: u64,
    /// If requested.
    pub digest: Option<Digest>,
}

impl Worktree {
    /// For surfaces, which know where they were started. Never used for paths from a record or an input.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let root = root.canonicalize().map_err(|error| Error::io(root, error))?;
        let folder = Dir::open_ambient_dir(&root, ambient_authority()).map_err(|error| Error::io(&root, error))?;
        Ok(Self { folder, root, office: None })
    }

    /// The copies in an office.
    pub(crate) fn of_blobs(blobs: &Blobs) -> io::Result<Self> {
        let folder = blobs.folder()?;
        Ok(Self { folder: Dir::from_std_file(folder.file()?), root: folder.path().to_owned(), office: None })
    }

    /// Refuses everything in this office: closing any descriptor of its database would drop this process's locks on it,
    /// and other files hold mail and tokens.
    pub fn apart_from(self, office: &Path) -> Self {
        Self { office: Folder::open_as_is(office).ok(), ..self }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Records what the file is now: size and digest.
    pub fn present(&self, cwd: &Path, path: &Path) -> Result<Artifact, Error> {
        let relative = self.relative(cwd, path)?;
        let (mut file, before) = self.open_file(path, &relative)?;
        let stored = hash(&mut file).map_err(|error| refused(path, error.to_string()))?;
        check_unchanged(path, &file, &before, stored.size)?;
        self.artifact(&relative, ArtifactState::Present, Some(stored))
    }

    /// Copies the file into a blob, unless it belongs to git or looks like it holds a secret.
    pub fn attach(&self, cwd: &Path, path: &Path, blobs: &Blobs, allow_secrets: bool) -> Result<Artifact, Error> {
        let relative = self.relative(cwd, path)?;
        if is_of_git(&relative) {
            return Err(refused(path, OF_GIT.to_owned()));
        }
        let (mut file, before) = self.open_file(path, &relative)?;
        let mut copied = WithBeginning::new(&mut file);
        let staged = blobs.stage(&mut copied)?;
        let secrets = if allow_secrets { Vec::new() } else { copied.secrets(&relative) };
        check_unchanged(path, &file, &before, staged.stored().size)?;
        if !secrets.is_empty() {
            return Err(Error::Secrets(secrets));
        }
        let stored = staged.keep()?;
        blobs.sync()?;
        self.artifact(&relative, ArtifactState::Attached, Some(stored))
    }

    /// The file at a path from the root as it is now, empty or not. Its bytes are read only for
    /// its digest.
    pub fn look(&self, path: &Path, with_digest: bool) -> Result<Seen, Error> {
        // An error that the system did not report: the path leads out of the folder.
        if self.folder.metadata(path).is_err_and(|error| error.raw_os_error().is_none()) {
            return Err(self.outside(path));
        }
        let (mut file, before) = self.open_any(path, path)?;
        if !with_digest || before.len() == 0 {
            return Ok(Seen { size: before.len(), digest: with_digest.then(|| Digest::of(b"")) });
        }
        let stored = hash(&mut file).map_err(|error| refused(path, error.to_string()))?;
        check_unchanged(path, &file, &before, stored.size)?;
        Ok(Seen { size: stored.size, digest: Some(stored.digest) })
    }

    /// The bytes of a small file, by its path from the root.
    pub(crate) fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
        use std::io::Read;
        let relative = self.relative(&self.root, path)?;
        let (file, _) = self.open_file(path, &relative)?;
        let mut bytes = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| refused(path, error.to_string()))?;
        if bytes.len() as u64 > bytes_max {
            return Err(refused(path, format!("it is larger than {bytes_max} bytes")));
        }
        Ok(bytes)
    }

    /// Records that the file will be created later.
    pub fn later(&self, cwd: &Path, path: &Path) -> Result<Artifact, Error> {
        let relative = self.relative(cwd, path)?;
        if self.is_of_the_office(&relative) {
            return Err(refused(path, OF_OFFICE.to_owned()));
        }
        self.artifact(&relative, ArtifactState::Later, None)
    }

    fn artifact(&self, relative: &Path, state: ArtifactState, stored: Option<Stored>) -> Result<Artifact, Error> {
        Ok(Artifact {
            path: path_text(relative)?.to_owned(),
            worktree: Some(path_text(&self.root)?.to_owned()),
            state,
            size: stored.map(|stored| stored.size),
            digest: stored.map(|stored| stored.digest),
        })
    }

    /// The path below the root of the file that a path leads to, with all links resolved: `/proc/self/cwd/x` means
    /// something else to every reader. Opening the file later follows no link out of the root.
    fn relative(&self, cwd: &Path, path: &Path) -> Result<PathBuf, Error> {
        let relative = self.relative_or_root(cwd, path)?;
        match relative.as_os_str().is_empty() {
            true => Err(self.outside(path)),
            false => Ok(relative),
        }
    }

    /// Like [`Self::relative`], but empty for the root itself.
    fn relative_or_root(&self, cwd: &Path, path: &Path) -> Result<PathBuf, Error> {
        let given = cwd.join(path);
        let resolved = resolve(&given).map_err(|error| match self.leads_out(&given) {
            true => self.outside(path), // whatever is there
            false => refused(path, reason(&error)),
        })?;
        resolved.strip_prefix(&self.root).map(Path::to_owned).map_err(|_| self.outside(path))
    }

    /// Whether what exists of a path, or the link at its end, leads out of the root.
    fn leads_out(&self, path: &Path) -> bool {
        let Some(there) = path.ancestors().find(|there| there.symlink_metadata().is_ok()) else { return true };
        let real = match there.read_link() {
            Ok(target) => resolve(&there.parent().unwrap_or(there).join(target)),
            Err(_) => there.canonicalize(),
        };
        real.map_or(true, |real| !real.starts_with(&self.root))
    }

    fn outside(&self, path: &Path) -> Error {
        refused(path, format!("it is outside the worktree {}", Foreign::path(&self.root)))
    }

    fn open_file(&self, path: &Path, relative: &Path) -> Result<(File, Metadata), Error> {
        match self.open_any(path, relative)? {
            (_, meta) if meta.len() == 0 => Err(refused(path, FileFault::Empty)),
            opened => Ok(opened),
        }
    }

    /// Like [`Self::open_file`], but the file may be empty.
    fn open_any(&self, path: &Path, relative: &Path) -> Result<(File, Metadata), Error> {
        let real = self.folder.canonicalize(relative).map_err(|error| refused(path, reason(&error)))?;
        // Before opening, because after would be too late: closing a database drops the locks of its other users.
        if self.is_of_the_office(&real) {
            return Err(refused(path, OF_OFFICE.to_owned()));
        }
        let file = open_without_links(&self.folder, &real).map_err(|error| refused(path, reason(&error)))?;
        let meta = file.metadata().map_err(|error| refused(path, error.to_string()))?;
        if !meta.is_file() {
            return Err(refused(path, "it is not a regular file".to_owned()));
        }
        if meta.len() > limits::ARTIFACT_BYTES_MAX {
            return Err(refused(path, format!("it is larger than {} bytes", limits::ARTIFACT_BYTES_MAX)));
        }
        Ok((file, meta))
    }

    /// Whether a path leads into an office. Compared by identity, because links and disks that ignore case give files
    /// other names.
    fn is_of_the_office(&self, relative: &Path) -> bool {
        let look = |path: &Path| self.folder.metadata(in_root(path)).ok();
        relative.ancestors().any(|part| look(part).is_some_and(|meta| self.is_the_office(part, &meta)))
            || look(relative).is_some_and(|meta| self.is_file_of_the_office(&meta))
    }

    /// Whether a file is another name of one in the office.
    fn is_file_of_the_office(&self, meta: &Metadata) -> bool {
        let Some(office) = &self.office else { return false };
        let names = office.names().unwrap_or_default();
        names.iter().any(|name| office.identity_of(name) == Some(identity(meta)))
    }

    /// Whether a folder below the root is an office: this one, or any by its name.
    fn is_the_office(&self, folder: &Path, meta: &Metadata) -> bool {
        let is_named_so = folder.file_name().is_some_and(|name| name.eq_ignore_ascii_case(discover::FOLDER));
        let is_this = || self.office.as_ref().is_some_and(|office| office.identity().ok() == Some(identity(meta)));
        meta.is_dir() && (is_named_so || is_this())
    }
}

/// Opens a file by its real path. A link that took the place of a part of it in the meantime is not followed.
fn open_without_links(folder: &Dir, real: &Path) -> io::Result<File> {
    use rustix::fs::OFlags;
    let mut opened: Option<OwnedFd> = None;
    let mut parts = real.iter().peekable();
    while let Some(part) = parts.next() {
        // Without NONBLOCK, opening a pipe would wait for a writer.
        let last = OFlags::NONBLOCK | OFlags::NOCTTY;
        let kind = if parts.peek().is_some() { OFlags::DIRECTORY } else { last };
        let above = opened.as_ref().map_or(folder.as_fd(), AsFd::as_fd);
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | kind;
        opened = Some(rustix::fs::openat(above, part, flags, rustix::fs::Mode::empty())?);
    }
    opened.map(|fd| File::from_std(fd.into())).ok_or_else(|| io::ErrorKind::NotFound.into())
}

const OF_OFFICE: &str = "it is a file of the office itself";

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The root itself has an empty path below it.
fn in_root(relative: &Path) -> &Path {
    if relative.as_os_str().is_empty() { Path::new(".") } else { relative }
}

/// Passes on what it reads, and keeps the beginning, in which secrets are looked for: what is searched is what is copied.
struct WithBeginning<R> {
    source: R,
    beginning: Vec<u8>,
}

impl<R> WithBeginning<R> {
    fn new(source: R) -> Self {
        Self { source, beginning: Vec::new() }
    }

    fn secrets(&self, path: &Path) -> Vec<Finding> {
        find_in_file(&path.to_string_lossy(), &self.beginning)
    }
}

impl<R: io::Read> io::Read for WithBeginning<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        let room = limits::ARTIFACT_SEARCHED_BYTES_MAX - self.beginning.len();
        self.beginning.extend_from_slice(&buffer[..read.min(room)]);
        Ok(read)
    }
}

/// In any case: some file systems treat `.GIT` as the same name.
fn is_of_git(relative: &Path) -> bool {
    relative.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
}

const OF_GIT: &str = "it belongs to git and may contain credentials";

/// Where a path leads, following links. For a file that does not exist yet, where it will be.
fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut there = path;
    let mut coming = Vec::new();
    loop {
        match there.canonicalize() {
            Ok(mut resolved) => {
                resolved.extend(coming.into_iter().rev());
                return Ok(resolved);
            }
            // A dangling link may lead anywhere by the time the file is created.
            Err(error) if error.kind() != io::ErrorKind::NotFound || there.is_symlink() => return Err(error),
            Err(error) => {
                let (Some(parent), Some(name)) = (there.parent(), there.file_name()) else { return Err(error) };
                coming.push(name);
                there = parent;
            }
        }
    }
}

fn reason(error: &io::Error) -> FileFault {
    match error.kind() {
        io::ErrorKind::NotFound => FileFault::Missing,
        io::ErrorKind::PermissionDenied => "it cannot be read, or it leads out of the worktree".into(),
        _ => error.to_string().into(),
    }
}

fn refused(path: &Path, fault: impl Into<FileFault>) -> Error {
    Error::Artifact { path: path.display().to_string(), fault: fault.into() }
}

fn hash(file: &mut File) -> io::Result<Stored> {
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(file, &mut hasher)?;
    Ok(Stored { digest: Digest::from_bytes(*hasher.finalize().as_bytes()), size })
}

fn written_at(meta: &Metadata) -> (i64, i64) {
    (meta.mtime(), meta.mtime_nsec())
}

/// A file that changed while it was read is not what the sender thinks it is.
fn check_unchanged(path: &Path, file: &File, before: &Metadata, read: u64) -> Result<(), Error> {
    let now = file.metadata().map_err(|error| refused(path, error.to_string()))?;
    let is_whole = now.len() == read && (read > 0 || before.len() == 0);
    if is_whole && written_at(&now) == written_at(before) {
        return Ok(());
    }
    Err(refused(path, "it changed while it was read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_that_is_written_to_in_its_place_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a.txt"), "hello").unwrap();
        let tree = Worktree::open(folder.path()).unwrap();
        let (file, before) = tree.open_file(Path::new("a"), Path::new("a.txt")).unwrap();
        assert!(check_unchanged(Path::new("a"), &file, &before, 5).is_ok());
        assert!(check_unchanged(Path::new("a"), &file, &before, 4).is_err(), "it grew");
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(5);
        let writer = fs::File::options().write(true).open(tree.root().join("a.txt")).unwrap();
        writer.set_modified(later).unwrap();
        assert!(check_unchanged(Path::new("a"), &file, &before, 5).is_err(), "same size, other bytes");
    }
}
