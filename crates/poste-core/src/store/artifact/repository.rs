//! The worktrees of a git repository, as git records them.
//!
//! A linked worktree has a `.git` file that names a folder in `worktrees/` of the repository, and that folder names the
//! worktree. Both must agree, so neither an unpacked archive nor a record can claim a folder.

use std::path::{Path, PathBuf};

use super::{Folder, Worktree};

const WORKTREES: &str = "worktrees";
/// Maximum size of the small files that link a worktree to its repository.
const LINK_BYTES_MAX: u64 = 8 * 1024;

#[derive(Debug)]
pub struct Repository {
    /// The folder that all its worktrees share: `.git` of the main one.
    shared: Worktree,
}

impl Repository {
    /// The repository of the worktree at `top`, if git knows it.
    pub fn of(top: &Path) -> Option<Self> {
        let tree = Worktree::open(top).ok()?;
        let own = match tree.folder.symlink_metadata(".git").ok()?.is_dir() {
            true => tree.root.join(".git"),
            false => linked_from(&tree.root)?,
        };
        // For the main worktree, or a bare repository with its worktrees around it, it is inside.
        if own.starts_with(&tree.root) {
            return Some(Self { shared: Worktree::open(&own).ok()? });
        }
        let repository = Self { shared: Worktree::open(own.ancestors().nth(2)?).ok()? };
        repository.worktree(&tree.root).is_some().then_some(repository)
    }

    /// What the `.git` file of a linked worktree or a submodule names. A `.git` may be anything, such as a pipe without
    /// a writer or a link to a device.
    pub(in crate::store) fn named_by(top: &Path) -> Option<String> {
        let bytes = Folder::open_other(top).ok()?.read(".git", LINK_BYTES_MAX + 1).ok()?;
        let text = String::from_utf8(bytes).ok().filter(|text| text.len() as u64 <= LINK_BYTES_MAX)?;
        text.strip_prefix("gitdir:").map(|named| named.trim().to_owned())
    }

    /// The folder that all its worktrees belong to: the main worktree, or for a bare repository the repository itself or
    /// the folder around it.
    pub fn home(&self) -> &Path {
        let shared = self.shared.root();
        let is_inside = shared.file_name().is_some_and(|name| name == ".git" || name == ".bare");
        shared.parent().filter(|_| is_inside).unwrap_or(shared)
    }

    /// Opens its worktree with this root, if there is one.
    pub(super) fn worktree(&self, root: &Path) -> Option<Worktree> {
        let shared = self.shared.root();
        if shared.ends_with(".git") && shared.parent() == Some(root) {
            return Worktree::open(root).ok();
        }
        let names = self.shared.folder.read_dir(WORKTREES).ok()?.flatten();
        let mut linked = names.map(|name| Path::new(WORKTREES).join(name.file_name()));
        let folder = linked.find(|folder| self.names(folder).as_deref() == Some(root))?;
        let tree = Worktree::open(root).ok()?;
        (linked_from(&tree.root)? == shared.join(folder)).then_some(tree)
    }

    /// The root of the worktree that a folder in `worktrees/` is for.
    fn names(&self, folder: &Path) -> Option<PathBuf> {
        let link = self.shared.root().join(folder).join(text(&self.shared, &folder.join("gitdir"))?.trim());
        link.parent()?.canonicalize().ok()
    }
}

/// The folder in its repository that the `.git` file of a linked worktree names.
fn linked_from(top: &Path) -> Option<PathBuf> {
    top.join(Repository::named_by(top)?).canonicalize().ok()
}

fn text(tree: &Worktree, path: &Path) -> Option<String> {
    String::from_utf8(tree.read(path, LINK_BYTES_MAX).ok()?).ok()
}
