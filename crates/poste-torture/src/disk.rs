//! A disk as a program may assume it: synced data survives a power loss, and any part of the rest may.
//!
//! A recorded run is replayed call by call into [`Disk`]; at every step, [`Disk::image`] builds what a power loss at
//! that moment could leave. The model is as harsh as POSIX allows, harsher than ext4 is: a synced file may lack its
//! name until its folder is synced too, and writes reach the disk in any order, in sectors of 512 bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::rig::Result;

pub(crate) const SECTOR: usize = 512;

/// What a call did to the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Op {
    MakeFolder(PathBuf),
    /// A file of this name exists from now on; if it did not before, it is empty.
    Open(PathBuf),
    Write {
        path: PathBuf,
        at: usize,
        bytes: Vec<u8>,
    },
    Truncate {
        path: PathBuf,
        length: usize,
    },
    Sync(PathBuf),
    Rename(PathBuf, PathBuf),
    /// A second name for a file.
    Link(PathBuf, PathBuf),
    Unlink(PathBuf),
    /// The program answered.
    Answer,
}

#[derive(Debug, Clone)]
enum Change {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Debug, Clone, Default)]
struct Content {
    synced: Vec<u8>,
    pending: Vec<Change>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Folder,
    File(usize),
}

#[derive(Debug, Clone)]
enum NameChange {
    Add(PathBuf, Node),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
}

impl NameChange {
    /// The folder that must be synced to make it durable.
    fn folder(&self) -> &Path {
        let path = match self {
            Self::Add(path, _) | Self::Rename(_, path) | Self::Remove(path) => path,
        };
        path.parent().unwrap_or(path)
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Self::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            Self::Rename(from, to) => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            Self::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

/// How much of an unsynced write reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    All,
    Nothing,
    /// Only its first sectors.
    Head(usize),
    /// Every other sector.
    Striped,
}

/// What a power loss does to everything that is not synced.
#[derive(Debug, Clone)]
pub(crate) struct Loss {
    pub names: bool,
    /// Per pending change, oldest first. Changes that are not listed are treated as `rest`.
    pub changes: BTreeMap<usize, Kept>,
    pub rest: Kept,
    /// The shared memory of the WAL is never synced, so it may be missing or garbage.
    pub nonsense_shm: bool,
}

impl Loss {
    pub(crate) fn of(rest: Kept, names: bool) -> Self {
        Self { names, changes: BTreeMap::new(), rest, nonsense_shm: false }
    }
}

/// The files that a power loss leaves, ready to be written into a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    files: BTreeMap<PathBuf, Option<Vec<u8>>>,
}

impl Image {
    pub(crate) fn digest(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        for (path, bytes) in &self.files {
            hasher.update(path.as_os_str().as_encoded_bytes());
            hasher.update(&[0, u8::from(bytes.is_some())]);
            let bytes = bytes.as_deref().unwrap_or_default();
            hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
        }
        *hasher.finalize().as_bytes()
    }

    pub(crate) fn write(&self, folder: &Path) -> std::io::Result<()> {
        for (path, bytes) in &self.files {
            match bytes {
                None => fs::create_dir_all(folder.join(path))?,
                Some(bytes) => fs::write(folder.join(path), bytes)?,
            }
            // A power loss changes no modes.
            let mode = if bytes.is_none() { 0o700 } else { 0o600 };
            fs::set_permissions(folder.join(path), fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }
}

/// The files of one folder, by paths relative to it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Disk {
    contents: Vec<Content>,
    names: BTreeMap<PathBuf, Node>,
    pending_names: Vec<NameChange>,
}

impl Disk {
    /// Treats everything that is in a folder now as synced.
    pub(crate) fn of_folder(folder: &Path) -> Result<Self> {
        let mut disk = Self::default();
        disk.add_folder(folder, Path::new("")).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(disk)
    }

    fn add_folder(&mut self, root: &Path, relative: &Path) -> std::io::Result<()> {
        for entry in fs::read_dir(root.join(relative))? {
            let entry = entry?;
            let path = relative.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                self.names.insert(path.clone(), Node::Folder);
                self.add_folder(root, &path)?;
            } else {
                let synced = fs::read(entry.path())?;
                self.names.insert(path, Node::File(self.contents.len()));
                self.contents.push(Content { synced, pending: Vec::new() });
            }
        }
        Ok(())
    }

    fn current_names(&self) -> BTreeMap<PathBuf, Node> {
        let mut names = self.names.clone();
        for change in &self.pending_names {
            change.apply(&mut names);
        }
        names
    }

    fn content(&mut self, path: &Path) -> Result<&mut Content> {
        match self.current_names().get(path) {
            Some(Node::File(number)) => Ok(&mut self.contents[*number]),
            _ => Err(format!("the recorded run used {}, which is not a file", path.display())),
        }
    }

    pub(crate) fn apply(&mut self, op: &Op) -> Result {
        match op {
            Op::MakeFolder(path) => self.pending_names.push(NameChange::Add(path.clone(), Node::Folder)),
            Op::Open(path) => {
                if !self.current_names().contains_key(path) {
                    let node = Node::File(self.contents.len());
                    self.contents.push(Content::default());
                    self.pending_names.push(NameChange::Add(path.clone(), node));
                }
            }
            Op::Write { path, at, bytes } => {
                self.content(path)?.pending.push(Change::Write { at: *at, bytes: bytes.clone() });
            }
            Op::Truncate { path, length } => self.content(path)?.pending.push(Change::Truncate(*length)),
            Op::Sync(path) => self.sync(path),
            Op::Rename(from, to) => self.pending_names.push(NameChange::Rename(from.clone(), to.clone())),
            Op::Link(from, to) => {
                let node = self.current_names().get(from).copied();
                let node = node.ok_or_else(|| format!("{} got a second name but does not exist", from.display()))?;
                self.pending_names.push(NameChange::Add(to.clone(), node));
            }
            Op::Unlink(path) => self.pending_names.push(NameChange::Remove(path.clone())),
            Op::Answer => {}
        }
        Ok(())
    }

    fn sync(&mut self, path: &Path) {
        if let Some(Node::File(number)) = self.current_names().get(path) {
            let content = &mut self.contents[*number];
            for change in std::mem::take(&mut content.pending) {
                apply_change(&mut content.synced, &change, Kept::All);
            }
            return;
        }
        let (lasting, pending) =
            std::mem::take(&mut self.pending_names).into_iter().partition(|change| change.folder() == path);
        let lasting: Vec<NameChange> = lasting;
        self.pending_names = pending;
        for change in &lasting {
            change.apply(&mut self.names);
        }
    }

    /// The size of each pending change in sectors, in the order in which [`Loss::changes`] counts them.
    pub(crate) fn pending_sectors(&self) -> Vec<usize> {
        let changes = self.contents.iter().flat_map(|content| &content.pending);
        changes
            .map(|change| match change {
                Change::Write { bytes, .. } => bytes.len().div_ceil(SECTOR),
                Change::Truncate(_) => 0,
            })
            .collect()
    }

    /// What is there after the power returns.
    pub(crate) fn image(&self, loss: &Loss) -> Image {
        let names = if loss.names { self.current_names() } else { self.names.clone() };
        let mut bytes_of: Vec<Vec<u8>> = Vec::with_capacity(self.contents.len());
        let mut number = 0;
        for content in &self.contents {
            let mut bytes = content.synced.clone();
            for change in &content.pending {
                apply_change(&mut bytes, change, loss.changes.get(&number).copied().unwrap_or(loss.rest));
                number += 1;
            }
            bytes_of.push(bytes);
        }
        let folders: BTreeSet<&Path> =
            names.iter().filter(|(_, node)| **node == Node::Folder).map(|(path, _)| path.as_path()).collect();
        let is_reachable = |path: &Path| {
            path.ancestors()
                .skip(1)
                .filter(|parent| !parent.as_os_str().is_empty())
                .all(|parent| folders.contains(parent))
        };
        let mut files = BTreeMap::new();
        for (path, node) in names.iter().filter(|(path, _)| is_reachable(path)) {
            let is_shm = path.to_string_lossy().ends_with("-shm");
            let content = match node {
                Node::Folder => None,
                Node::File(_) if is_shm && !loss.nonsense_shm => continue,
                Node::File(_) if is_shm => Some(vec![0xa5; 32 * 1024]),
                Node::File(number) => Some(bytes_of[*number].clone()),
            };
            files.insert(path.clone(), content);
        }
        Image { files }
    }
}

fn apply_change(bytes: &mut Vec<u8>, change: &Change, kept: Kept) {
    match change {
        Change::Truncate(length) if kept != Kept::Nothing => bytes.resize(*length, 0),
        Change::Truncate(_) => {}
        Change::Write { at, bytes: written } => {
            for (number, sector) in sectors(*at, written) {
                let is_kept = match kept {
                    Kept::All => true,
                    Kept::Nothing => false,
                    Kept::Head(count) => number < count,
                    Kept::Striped => number % 2 == 0,
                };
                if is_kept {
                    let end = sector.start + sector.bytes.len();
                    if bytes.len() < end {
                        bytes.resize(end, 0);
                    }
                    bytes[sector.start..end].copy_from_slice(sector.bytes);
                }
            }
        }
    }
}

struct Sector<'a> {
    start: usize,
    bytes: &'a [u8],
}

/// A write split at the disk's sector boundaries, because a WAL frame can begin anywhere in a sector.
fn sectors(at: usize, written: &[u8]) -> impl Iterator<Item = (usize, Sector<'_>)> {
    let first = (SECTOR - at % SECTOR).min(written.len());
    let (head, tail) = written.split_at(first);
    let heads = std::iter::once(head).filter(|head| !head.is_empty());
    heads
        .chain(tail.chunks(SECTOR))
        .scan(at, |start, bytes| {
            let sector = Sector { start: *start, bytes };
            *start += bytes.len();
            Some(sector)
        })
        .enumerate()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(ops: &[Op]) -> Disk {
        let mut disk = Disk::default();
        for op in ops {
            disk.apply(op).unwrap();
        }
        disk
    }

    fn file(image: &Image, path: &str) -> Option<Vec<u8>> {
        image.files.get(Path::new(path)).cloned().flatten()
    }

    fn write(path: &str, at: usize, bytes: &[u8]) -> Op {
        Op::Write { path: path.into(), at, bytes: bytes.to_vec() }
    }

    #[test]
    fn what_is_synced_stays_and_what_is_not_may_go() {
        let disk = disk(&[
            Op::Open("a".into()),
            write("a", 0, b"one"),
            Op::Sync("a".into()),
            Op::Sync("".into()),
            write("a", 3, b"two"),
        ]);
        assert_eq!(file(&disk.image(&Loss::of(Kept::All, true)), "a").unwrap(), b"onetwo");
        assert_eq!(file(&disk.image(&Loss::of(Kept::Nothing, false)), "a").unwrap(), b"one");
    }

    #[test]
    fn a_synced_file_lacks_its_name_until_its_folder_is_synced() {
        let mut ops = vec![Op::Open("tmp".into()), write("tmp", 0, b"x"), Op::Sync("tmp".into())];
        ops.push(Op::Rename("tmp".into(), "blob".into()));
        let none = disk(&ops).image(&Loss::of(Kept::All, false));
        assert_eq!((file(&none, "tmp"), file(&none, "blob")), (None, None));
        ops.push(Op::Sync("".into()));
        assert_eq!(file(&disk(&ops).image(&Loss::of(Kept::Nothing, false)), "blob").unwrap(), b"x");
    }

    #[test]
    fn a_torn_write_keeps_whole_sectors_of_the_disk() {
        let disk = disk(&[Op::Open("a".into()), Op::Sync("".into()), write("a", 500, &[7; 600])]);
        let torn = file(&disk.image(&Loss::of(Kept::Head(1), true)), "a").unwrap();
        assert_eq!(torn.len(), 512, "the first sector ends where the disk's does");
        assert_eq!(disk.pending_sectors(), [2]);
    }

    #[test]
    fn what_is_in_a_lost_folder_is_lost() {
        let disk = disk(&[Op::MakeFolder("f".into()), Op::Open("f/a".into()), Op::Sync("f".into())]);
        assert!(disk.image(&Loss::of(Kept::All, false)).files.is_empty());
    }
}
