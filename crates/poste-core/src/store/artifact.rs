//! Files that messages speak of: opened below a root and nowhere else, regular files only, hashed as they were.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt};

use super::blobs::{Blobs, Stored};
use super::path_text;
use crate::digest::Digest;
use crate::error::Error;
use crate::limits;
use crate::log::{Artifact, ArtifactState};

/// Where an agent's artifacts live: its registered worktree, or the git top level it works in.
#[derive(Debug)]
pub struct Worktree {
    root: PathBuf,
}

impl Worktree {
    pub fn new(root: &Path) -> Result<Self, Error> {
        let root = root.canonicalize().map_err(|error| Error::io(root, error))?;
        Ok(Self { root })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Records what the file is now: size and digest.
    pub fn present(&self, cwd: &Path, path: &Path) -> Result<Artifact, Error> {
        let relative = self.relative(cwd, path)?;
        let mut file = self.open(&relative)?;
        let stored = hash(&mut file).map_err(|error| refused(path, error.to_string()))?;
        check_unchanged(path, &file, stored.size)?;
        self.artifact(&relative, ArtifactState::Present, Some(stored))
    }

    /// Copies the file into a blob.
    pub fn attach(&self, cwd: &Path, path: &Path, blobs: &Blobs) -> Result<Artifact, Error> {
        let relative = self.relative(cwd, path)?;
        let mut file = self.open(&relative)?;
        let stored = blobs.put_from(&mut file)?;
        check_unchanged(path, &file, stored.size)?;
        self.artifact(&relative, ArtifactState::Attached, Some(stored))
    }

    /// The bytes of a small file, by its path from the root.
    pub(crate) fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
        use std::io::Read;
        let relative = self.relative(&self.root, path)?;
        let file = self.open(&relative)?;
        let mut bytes = Vec::new();
        file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(|error| refused(path, error.to_string()))?;
        if bytes.len() as u64 > bytes_max {
            return Err(refused(path, format!("it is larger than {bytes_max} bytes")));
        }
        Ok(bytes)
    }

    /// Says that the file will come.
    pub fn later(&self, cwd: &Path, path: &Path) -> Result<Artifact, Error> {
        let relative = self.relative(cwd, path)?;
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

    /// The path below the root, by its letters alone; whether links lead out of it is found on opening.
    fn relative(&self, cwd: &Path, path: &Path) -> Result<PathBuf, Error> {
        let cwd = cwd.canonicalize().map_err(|error| Error::io(cwd, error))?;
        let mut absolute = PathBuf::new();
        for component in cwd.join(path).components() {
            match component {
                Component::ParentDir => {
                    absolute.pop();
                }
                Component::CurDir => {}
                other => absolute.push(other),
            }
        }
        let below = absolute.strip_prefix(&self.root).map(Path::to_owned).or_else(|_| {
            // The folder may be named through a link that leads into the root.
            let parent = absolute.parent().and_then(|parent| parent.canonicalize().ok()).unwrap_or_default();
            let resolved = parent.join(absolute.file_name().unwrap_or_default());
            resolved.strip_prefix(&self.root).map(Path::to_owned)
        });
        match below {
            Ok(relative) if !relative.as_os_str().is_empty() => Ok(relative),
            _ => Err(refused(path, format!("it is outside the worktree {}", self.root.display()))),
        }
    }

    fn open(&self, relative: &Path) -> Result<File, Error> {
        let root =
            Dir::open_ambient_dir(&self.root, ambient_authority()).map_err(|error| Error::io(&self.root, error))?;
        // Without NONBLOCK, opening a pipe would wait for somebody to write into it.
        let mut options = OpenOptions::new();
        options.read(true).custom_flags((rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY).bits() as i32);
        let file = root.open_with(relative, &options).map_err(|error| {
            let why = match error.kind() {
                io::ErrorKind::NotFound => "there is no such file".to_owned(),
                io::ErrorKind::PermissionDenied => "it may not be read, or it leads out of the worktree".to_owned(),
                _ => error.to_string(),
            };
            refused(relative, why)
        })?;
        let meta = file.metadata().map_err(|error| refused(relative, error.to_string()))?;
        if !meta.is_file() {
            return Err(refused(relative, "it is not a regular file".to_owned()));
        }
        if meta.len() == 0 {
            return Err(refused(relative, "it is empty".to_owned()));
        }
        if meta.len() > limits::ARTIFACT_BYTES_MAX {
            return Err(refused(relative, format!("it is larger than {} bytes", limits::ARTIFACT_BYTES_MAX)));
        }
        Ok(file)
    }
}

fn refused(path: &Path, message: String) -> Error {
    Error::Artifact { path: path.display().to_string(), message }
}

fn hash(file: &mut File) -> io::Result<Stored> {
    let mut hasher = blake3::Hasher::new();
    let size = io::copy(file, &mut hasher)?;
    Ok(Stored { digest: Digest::from_bytes(*hasher.finalize().as_bytes()), size })
}

/// A file that grew or shrank under the reading is not what the sender thinks it is.
fn check_unchanged(path: &Path, file: &File, read: u64) -> Result<(), Error> {
    let now = file.metadata().map_err(|error| refused(path, error.to_string()))?.len();
    if now == read && read > 0 {
        return Ok(());
    }
    Err(refused(path, "it changed while it was read".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn fixture() -> (tempfile::TempDir, Worktree) {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        fs::create_dir_all(root.join("src")).unwrap();
        fs::write(root.join("src/a.txt"), "hello").unwrap();
        fs::write(root.join("empty"), "").unwrap();
        fs::write(folder.path().join("secret"), "outside").unwrap();
        let worktree = Worktree::new(&root).unwrap();
        (folder, worktree)
    }

    #[test]
    fn a_regular_file_below_the_root_is_recorded_as_it_is() {
        let (_folder, tree) = fixture();
        let artifact = tree.present(&tree.root().join("src"), Path::new("a.txt")).unwrap();
        assert_eq!(artifact.path, "src/a.txt");
        assert_eq!(artifact.size, Some(5));
        assert_eq!(artifact.digest, Some(Digest::of(b"hello")));
        let again = tree.present(tree.root(), &tree.root().join("src/a.txt")).unwrap();
        assert_eq!(again, artifact);
        symlink("a.txt", tree.root().join("src/inside")).unwrap();
        assert!(tree.present(tree.root(), Path::new("src/inside")).is_ok(), "a link that stays inside");
    }

    #[test]
    fn everything_else_is_refused_by_name() {
        let (folder, tree) = fixture();
        symlink(folder.path().join("secret"), tree.root().join("leaf")).unwrap();
        symlink(folder.path(), tree.root().join("dir")).unwrap();
        symlink("../secret", tree.root().join("relative-leaf")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            tree.root().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        for path in [
            "missing",
            "empty",
            "src",
            "leaf",
            "dir/secret",
            "relative-leaf",
            "pipe",
            "../secret",
            "/etc/passwd",
            "/dev/null",
            "/proc/self/environ",
            "src/../../secret",
            "",
        ] {
            let error = tree.present(tree.root(), Path::new(path)).expect_err(path);
            assert!(matches!(error, Error::Artifact { .. }), "{path}: {error}");
        }
    }

    #[test]
    fn what_comes_later_is_not_looked_at_but_still_stays_inside() {
        let (_folder, tree) = fixture();
        let artifact = tree.later(tree.root(), Path::new("src/not-yet.txt")).unwrap();
        assert_eq!((artifact.state, artifact.size), (ArtifactState::Later, None));
        assert!(tree.later(tree.root(), Path::new("../elsewhere")).is_err());
    }
}
