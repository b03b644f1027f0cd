//! Collects many files and whole folders: lists them first, then copies them, and reports all problems together.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

use cap_std::fs::{Dir, Metadata};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    OF_GIT, OF_OFFICE, WithBeginning, Worktree, check_unchanged, identity, in_root, is_of_git, reason, refused,
    written_at,
};
use crate::digest::Digest;
use crate::error::Error;
use crate::foreign::Foreign;
use crate::limits;
use crate::log::{Artifact, ArtifactState};
use crate::progress::Progress;
use crate::secrets::Finding;
use crate::store::blobs::{Blobs, Checked, Staged, Stored};
use crate::store::path_text;

/// What is wrong with one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileProblem {
    pub path: String,
    #[schemars(with = "String")]
    pub what: FileFault,
}

/// What is wrong with a file. Stored as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", from = "String")]
pub enum FileFault {
    Missing,
    Empty,
    Other(String),
}

impl std::fmt::Display for FileFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Missing => "there is no such file",
            Self::Empty => "it is empty",
            Self::Other(what) => what,
        })
    }
}

impl From<FileFault> for String {
    fn from(fault: FileFault) -> Self {
        fault.to_string()
    }
}

impl From<String> for FileFault {
    fn from(what: String) -> Self {
        Self::Other(what)
    }
}

impl From<&str> for FileFault {
    fn from(what: &str) -> Self {
        Self::Other(what.to_owned())
    }
}

impl std::fmt::Display for FileProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", Foreign::name(&*self.path), self.what)
    }
}

/// Files as they were when they were listed.
#[derive(Debug)]
pub struct Listed {
    /// By path below the root, so that each is listed once.
    files: BTreeMap<PathBuf, Metadata>,
    /// The named folders, and the number of files below each.
    pub folders: Vec<(String, usize)>,
    pub bytes: u64,
}

impl Listed {
    pub fn len(&self) -> usize {
        self.files.len()
    }

    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }
}

impl Worktree {
    /// Lists files, and everything below folders. Opens nothing.
    pub fn list(&self, cwd: &Path, paths: &[PathBuf], with_empty: bool) -> Result<Listed, Error> {
        let mut listing = Listing {
            tree: self,
            with_empty,
            looked_at: 0,
            listed: Listed { files: BTreeMap::new(), folders: Vec::new(), bytes: 0 },
            problems: Vec::new(),
        };
        for path in paths {
            listing.add_named(cwd, path);
            if listing.is_too_much() {
                let max = limits::HANDOFF_ARTIFACTS_MAX;
                return Err(refused(path, format!("this makes more than {max} files; hand over an archive of them")));
            }
        }
        match listing.problems.is_empty() {
            true => Ok(listing.listed),
            false => Err(Error::Artifacts(listing.problems)),
        }
    }

    /// Copies the listed files into blobs, in bounded memory. If a file has changed since it was listed, that is
    /// reported with its name, and nothing is handed over; nor is it if a file looks like it holds a secret.
    pub fn copy(
        &self,
        listed: &Listed,
        blobs: &Blobs,
        allow_secrets: bool,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Vec<Artifact>, Error> {
        let mut artifacts = Vec::with_capacity(listed.files.len());
        let mut problems = Vec::new();
        let mut secrets = Vec::new();
        // Waiting for the disk takes as long as reading, so another thread does it in parallel.
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel::<Staged<'_>>(8);
            let keeper = scope.spawn(move || receiver.into_iter().try_for_each(|staged| staged.keep().map(|_| ())));
            let mut done = 0;
            for (relative, before) in &listed.files {
                let mut moved = |bytes: u64| {
                    done += bytes;
                    progress(Progress { what: "copying files", done, of: listed.bytes });
                };
                match self.stage(relative, before, blobs, &mut moved) {
                    Ok((_, found)) if !allow_secrets && !found.is_empty() => secrets.extend(found),
                    Ok((staged, _)) => {
                        artifacts.push(attached(relative, staged.stored())?);
                        if sender.send(staged).is_err() {
                            break; // the keeper has failed and reports why
                        }
                    }
                    Err(Error::Artifact { path, fault }) => {
                        problems.push(FileProblem { path, what: fault });
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            drop(sender);
            keeper.join().unwrap_or_else(|_| Err(Error::Damaged("the thread that keeps blobs died".to_owned())))
        })?;
        blobs.sync()?;
        // Check all of them again: one may have been replaced while the others were copied.
        for (relative, before) in &listed.files {
            let path = relative.display().to_string();
            if problems.iter().any(|problem| problem.path == path) {
                continue;
            }
            if let Some(what) = changed(&self.folder, relative, before) {
                problems.push(FileProblem { path, what });
            }
        }
        match (problems.is_empty(), secrets.is_empty()) {
            (true, true) => Ok(artifacts),
            (true, false) => Err(Error::Secrets(secrets)),
            (false, _) => Err(Error::Artifacts(problems)),
        }
    }

    fn stage<'a>(
        &self,
        relative: &Path,
        listed: &Metadata,
        blobs: &'a Blobs,
        moved: &mut dyn FnMut(u64),
    ) -> Result<(Staged<'a>, Vec<Finding>), Error> {
        let (mut file, before) = self.open_any(relative, relative)?;
        if identity(&before) != identity(listed) {
            return Err(refused(relative, REPLACED));
        }
        let mut copied = WithBeginning::new(Counted { source: &mut file, moved });
        let staged = blobs.stage(&mut copied)?;
        let secrets = copied.secrets(relative);
        check_unchanged(relative, &file, listed, staged.stored().size)?;
        Ok((staged, secrets))
    }

    /// Files that are missing or have changed since.
    pub fn changes(&self, artifacts: &[Artifact]) -> Vec<FileProblem> {
        let look = |artifact: &Artifact| -> Option<FileFault> {
            let path = Path::new(&artifact.path);
            let now = self
                .open_any(path, path)
                .and_then(|(mut file, _)| super::hash(&mut file).map_err(|error| refused(path, error.to_string())));
            match now {
                Ok(now) if Some(now.digest) == artifact.digest => None,
                Ok(now) => {
                    let was = artifact.size.unwrap_or_default();
                    Some(format!("it has changed since ({was} bytes then, {} now)", now.size).into())
                }
                Err(Error::Artifact { fault, .. }) => Some(fault),
                Err(error) => Some(error.to_string().into()),
            }
        };
        let found = artifacts
            .iter()
            .filter_map(|artifact| look(artifact).map(|what| FileProblem { path: artifact.path.clone(), what }));
        found.collect()
    }
}

const REPLACED: &str = "it was replaced since it was listed";
const CHANGED: &str = "it changed while it was handed over";

/// Missing or damaged copies, each with its problem. Reads all of them.
pub fn damaged_copies(
    blobs: &Blobs,
    artifacts: &[Artifact],
    progress: &mut dyn FnMut(Progress),
) -> Result<Vec<FileProblem>, Error> {
    let of = artifacts.iter().filter_map(|artifact| artifact.size).sum();
    let mut done = 0;
    let mut known: BTreeMap<Digest, Checked> = BTreeMap::new();
    let mut problems = Vec::new();
    for artifact in artifacts {
        let Some(digest) = artifact.digest.filter(|_| artifact.state == ArtifactState::Attached) else { continue };
        let checked = match known.get(&digest) {
            Some(checked) => *checked,
            None => *known.entry(digest).or_insert(blobs.check(&digest)?),
        };
        let what = match checked {
            Checked::Sound if blobs.size(&digest)? == artifact.size => None,
            Checked::Sound => Some("its copy does not have the recorded size"),
            Checked::Missing => Some("its copy is missing"),
            Checked::Damaged => Some("its copy is damaged"),
        };
        problems.extend(what.map(|what| FileProblem { path: artifact.path.clone(), what: what.into() }));
        done += artifact.size.unwrap_or_default();
        progress(Progress { what: "checking copies", done, of });
    }
    Ok(problems)
}

fn attached(relative: &Path, stored: Stored) -> Result<Artifact, Error> {
    Ok(Artifact {
        path: path_text(relative)?.to_owned(),
        worktree: None,
        state: ArtifactState::Attached,
        size: Some(stored.size),
        digest: Some(stored.digest),
    })
}

/// Whether a path leads to another file than before.
fn changed(root: &Dir, relative: &Path, before: &Metadata) -> Option<FileFault> {
    match root.symlink_metadata(relative) {
        Err(error) => Some(reason(&error)),
        Ok(now) if identity(&now) != identity(before) => Some(REPLACED.into()),
        Ok(now) if now.len() != before.len() || written_at(&now) != written_at(before) => Some(CHANGED.into()),
        Ok(_) => None,
    }
}

/// Reports how much was read.
struct Counted<'a, R> {
    source: R,
    moved: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        (self.moved)(read as u64);
        Ok(read)
    }
}

struct Listing<'a> {
    tree: &'a Worktree,
    with_empty: bool,
    looked_at: usize,
    listed: Listed,
    problems: Vec<FileProblem>,
}

impl Listing<'_> {
    fn is_too_much(&self) -> bool {
        self.listed.files.len() > limits::HANDOFF_ARTIFACTS_MAX || self.looked_at > limits::HANDOFF_NAMES_MAX
    }

    fn add_named(&mut self, cwd: &Path, path: &Path) {
        match self.tree.relative_or_root(cwd, path) {
            Err(error) => self.problem(path, error),
            Ok(_) if path.as_os_str().is_empty() => self.problem(path, refused(path, "it has no name")),
            Ok(relative) => match self.tree.folder.metadata(in_root(&relative)) {
                Err(error) => self.problem(path, refused(path, reason(&error))),
                Ok(meta) if meta.is_dir() && is_of_git(&relative) => {
                    self.problem(path, refused(path, OF_GIT));
                }
                Ok(_) if self.tree.is_of_the_office(&relative) => {
                    self.problem(path, refused(path, OF_OFFICE));
                }
                Ok(meta) if meta.is_dir() && is_link(cwd, path) => {
                    self.problem(path, refused(path, LINKED_FOLDER));
                }
                Ok(meta) if meta.is_dir() => {
                    let before = self.listed.files.len();
                    self.add_folder(&relative);
                    self.listed.folders.push((path.display().to_string(), self.listed.files.len() - before));
                }
                Ok(meta) => self.add_file(path, relative, meta),
            },
        }
    }

    fn add_file(&mut self, shown: &Path, relative: PathBuf, meta: Metadata) {
        let what: FileFault = match () {
            () if !meta.is_file() => "it is not a regular file".into(),
            () if self.tree.is_file_of_the_office(&meta) => OF_OFFICE.into(),
            () if is_of_git(&relative) => OF_GIT.into(),
            () if meta.len() == 0 && !self.with_empty => FileFault::Empty,
            () if meta.len() > limits::ARTIFACT_BYTES_MAX => "it is too large".into(),
            () if relative.to_str().is_none() => "its name is not UTF-8".into(),
            () => {
                self.listed.bytes += meta.len();
                self.listed.files.insert(relative, meta);
                return;
            }
        };
        self.problem(shown, refused(shown, what));
    }

    /// In the order of names, so that the same folder always gives the same list. Skips git's own folder and the
    /// office.
    fn add_folder(&mut self, folder: &Path) {
        let is_office = |meta: Metadata| self.tree.is_the_office(folder, &meta);
        if self.is_too_much() || self.tree.folder.metadata(in_root(folder)).is_ok_and(is_office) {
            return;
        }
        let names = self
            .tree
            .folder
            .read_dir(in_root(folder))
            .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<BTreeSet<_>>>());
        let names = match names {
            Ok(names) => names,
            Err(error) => return self.problem(folder, refused(folder, reason(&error))),
        };
        for name in names.into_iter().filter(|name| name != ".git") {
            self.looked_at += 1;
            let path = folder.join(name);
            match self.tree.folder.symlink_metadata(&path) {
                Err(error) => self.problem(&path, refused(&path, reason(&error))),
                Ok(meta) if meta.is_dir() => self.add_folder(&path),
                Ok(meta) if meta.is_symlink() => self.add_link(&path),
                Ok(meta) => self.add_file(&path.clone(), path, meta),
            }
            if self.is_too_much() {
                return;
            }
        }
    }

    /// A link to a file of the worktree stands for that file, under the file's own name.
    fn add_link(&mut self, path: &Path) {
        match self.tree.relative(&self.tree.root, path) {
            Err(error) => self.problem(path, error),
            Ok(relative) => match self.tree.folder.metadata(&relative) {
                Err(error) => self.problem(path, refused(path, reason(&error))),
                Ok(meta) if meta.is_dir() => {
                    self.problem(path, refused(path, LINKED_FOLDER));
                }
                Ok(_) if self.tree.is_of_the_office(&relative) => {
                    self.problem(path, refused(path, OF_OFFICE));
                }
                Ok(meta) => self.add_file(path, relative, meta),
            },
        }
    }

    fn problem(&mut self, path: &Path, error: Error) {
        let what = match error {
            Error::Artifact { fault, .. } => fault,
            other => other.to_string().into(),
        };
        self.problems.push(FileProblem { path: path.display().to_string(), what });
    }
}

const LINKED_FOLDER: &str = "it is a link to a folder; name that folder instead";

/// Whether a path itself is a link, even with a slash at its end.
fn is_link(cwd: &Path, path: &Path) -> bool {
    let named: PathBuf = cwd.join(path).components().collect();
    path.file_name().is_some() && named.symlink_metadata().is_ok_and(|meta| meta.is_symlink())
}
