//! Finds the office: in the folder or above it; from a linked git worktree, in the main worktree.

use std::fs;
use std::path::{Path, PathBuf};

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
    from.ancestors().find(|folder| folder.join(".git").exists()).map(Path::to_owned)
}

/// The top of the main worktree, if `folder` is the top of a linked one.
///
/// A linked worktree has a `.git` file that names `<main>/.git/worktrees/<name>`, which contains a `commondir`. A
/// submodule also has a `.git` file, but no `commondir`.
fn main_worktree(folder: &Path) -> Option<PathBuf> {
    let link = folder.join(".git");
    if !link.is_file() {
        return None;
    }
    let text = fs::read_to_string(&link).ok()?;
    let git_dir = folder.join(text.strip_prefix("gitdir:")?.trim());
    let common = fs::read_to_string(git_dir.join("commondir")).ok()?;
    let common = git_dir.join(common.trim()).canonicalize().ok()?;
    // A bare repository has no main worktree, but all its worktrees share the repository itself.
    if common.file_name().is_some_and(|name| name == ".git" || name == ".bare") {
        return common.parent().map(Path::to_owned);
    }
    Some(common)
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
    let link = fs::read_to_string(top.join(".git")).unwrap_or_default();
    link.strip_prefix("gitdir:").is_some_and(|path| path.contains("/modules/"))
}
