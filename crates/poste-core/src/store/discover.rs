//! Finding the office: upward from a folder; from a git worktree, in the main worktree.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder name of an office.
pub const FOLDER: &str = ".poste";
/// The file beside that folder, which may be versioned.
pub const CONFIG_FILE: &str = "poste.toml";
/// This machine's own file, inside it.
pub const LOCAL_CONFIG_FILE: &str = "local.toml";

/// The office that belongs to `from`, if there is one.
///
/// The nearest `.poste` decides, in whatever state it is: one that was damaged, or may not be looked into, must not
/// make mail go to another office further up.
pub fn find(from: &Path) -> Option<PathBuf> {
    from.ancestors().find_map(|folder| {
        let home = main_worktree(folder).unwrap_or_else(|| folder.to_owned());
        [home.as_path(), folder]
            .into_iter()
            .map(|candidate| candidate.join(FOLDER))
            .find(|office| office.symlink_metadata().is_ok())
    })
}

/// Where a new office for `from` belongs: the top of the repository's main worktree, else `from` itself.
pub fn place(from: &Path) -> PathBuf {
    let top = git_top(from).map(|top| main_worktree(&top).unwrap_or(top));
    top.unwrap_or_else(|| from.to_owned()).join(FOLDER)
}

/// The top level of the git worktree `from` is in.
pub fn git_top(from: &Path) -> Option<PathBuf> {
    from.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

/// If `folder` is the top of a linked worktree: the top of its main worktree.
///
/// A linked worktree has a `.git` file that names `<main>/.git/worktrees/<name>`, which holds a `commondir`. A
/// submodule has a `.git` file too, but no `commondir`.
fn main_worktree(folder: &Path) -> Option<PathBuf> {
    let link = folder.join(".git");
    if !link.is_file() {
        return None;
    }
    let text = fs::read_to_string(&link).ok()?;
    let git_dir = folder.join(text.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(git_dir.join("commondir")).ok()?;
    let common = git_dir.join(common.trim()).canonicalize().ok()?;
    // A bare repository has no main worktree; it is itself the one place all its worktrees share.
    if common.file_name().is_some_and(|name| name == ".git" || name == ".bare") {
        return common.parent().map(Path::to_owned);
    }
    Some(common)
}

/// The top of the worktree a folder is in; inside a submodule, that of the repository around it, whose office it uses.
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

/// A submodule's `.git` is a file that names a folder among the modules of the repository around it.
fn is_submodule(top: &Path) -> bool {
    let link = fs::read_to_string(top.join(".git")).unwrap_or_default();
    link.strip_prefix("gitdir:").is_some_and(|path| path.contains("/modules/"))
}
