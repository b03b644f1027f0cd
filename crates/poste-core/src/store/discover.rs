//! Finds the office: in the folder or above it; from a linked git worktree, in the main worktree.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::artifact::Repository;
use super::state;

/// The folder name of an office.
pub const FOLDER: &str = ".poste";
/// The file next to that folder, which may be versioned.
pub const CONFIG_FILE: &str = "poste.toml";
/// This machine's own configuration, inside that folder.
pub const LOCAL_CONFIG_FILE: &str = "local.toml";

/// The office that belongs to `from`, if there is one.
///
/// The nearest `.poste` decides, whatever its state: if it is damaged or unreadable, mail must not go to another office
/// further up.
pub fn find(from: &Path) -> Option<PathBuf> {
    from.ancestors().find_map(|folder| {
        let home = main_worktree(folder).unwrap_or_else(|| folder.to_owned());
        [home.as_path(), folder]
            .into_iter()
            .map(|candidate| candidate.join(FOLDER))
            .find(|office| office.symlink_metadata().is_ok())
    })
}

/// Where a new office for `from` belongs: at the top of the repository's main worktree, or else in `from` itself.
pub fn place(from: &Path) -> PathBuf {
    let top = git_top(from).map(|top| main_worktree(&top).unwrap_or(top));
    top.unwrap_or_else(|| from.to_owned()).join(FOLDER)
}

/// The top of the git worktree that contains `from`.
pub fn git_top(from: &Path) -> Option<PathBuf> {
    from.ancestors().find(|folder| is_own_worktree(folder)).map(Path::to_owned)
}

/// Whether a folder is a worktree of this user. As git itself demands, the folder and its `.git` both have to be: anybody
/// can put a `.git` into a folder that users share.
fn is_own_worktree(folder: &Path) -> bool {
    let git = folder.join(".git");
    let is_git = fs::metadata(&git).is_ok_and(|meta| (meta.is_dir() || meta.is_file()) && is_own(&meta));
    is_git && fs::symlink_metadata(&git).is_ok_and(|meta| is_own(&meta)) && is_own_folder(folder)
}

fn is_own_folder(folder: &Path) -> bool {
    fs::metadata(folder).is_ok_and(|meta| is_own(&meta))
}

fn is_own(meta: &fs::Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

/// The folder of the repository that `folder` is a linked worktree of. Only if the repository names it in return: a
/// `.git` file can arrive with an archive and name any repository.
fn main_worktree(folder: &Path) -> Option<PathBuf> {
    if !folder.join(".git").is_file() || !is_own_worktree(folder) {
        return None;
    }
    Repository::of(folder).map(|repository| repository.home().to_owned()).filter(|home| is_own_folder(home))
}

/// Whether a folder is the root of the file system or this user's home. Such a folder is never a worktree: everything
/// of this user is below it.
pub fn is_home_or_root(folder: &Path) -> bool {
    let identity = |path: &Path| fs::metadata(path).map(|meta| (meta.dev(), meta.ino())).ok();
    let own = identity(folder);
    let is_home = |home: &dyn Fn() -> Option<PathBuf>| home().is_some_and(|home| identity(&home) == own);
    folder.parent().is_none() || own.is_none() || is_home(&std::env::home_dir) || is_home(&state::home)
}

/// The top of the worktree that contains a folder. Inside a submodule, it is that of the outer repository, whose office
/// the submodule uses.
pub fn repository_top(folder: &Path) -> Option<PathBuf> {
    let mut top = git_top(folder)?;
    while is_submodule(&top) {
        match top.parent().and_then(git_top) {
            Some(around) => top = around,
            None => break,
        }
    }
    Some(top)
}

/// The `.git` of a submodule is a file that names a folder among the modules of the outer repository.
fn is_submodule(top: &Path) -> bool {
    Repository::named_by(top).is_some_and(|named| named.contains("/modules/"))
}
