//! The git guard: hooks that stop commits and pushes of paths another agent holds.

mod checkout;
mod git;
mod hooks;

use std::fs;
use std::path::{Path, PathBuf};

use poste_verbs::{Error, Kind, Result};
use schemars::JsonSchema;
use serde::Serialize;

pub use checkout::Checkout;
pub use hooks::{ALL, Hook, HookView, PRE_COMMIT, PRE_PUSH, State};

use git::Git;

/// The state of a repository's hooks.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Standing {
    /// Where git looks for hooks.
    pub folder: String,
    pub hooks: Vec<HookView>,
    /// Whether this command changed anything.
    pub changed: bool,
}

/// Where git looks for hooks.
#[derive(Debug)]
pub struct Folder {
    pub path: PathBuf,
    /// Whether it is in the worktree, so that git tracks it.
    pub is_versioned: bool,
}

impl Folder {
    /// The hooks folder for the worktree of `folder`.
    pub fn of(folder: &Path) -> Result<Self> {
        let top = Git::top(folder)?;
        let git = Git::in_folder(&top);
        let path = git.path(&["rev-parse", "--path-format=absolute", "--git-path", "hooks"])?;
        let common = git.path(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
        let (real, top, common) = (real(&path), real(&top), real(&common));
        let in_git = real.starts_with(&common);
        if !in_git && !real.starts_with(&top) {
            let message = format!("core.hooksPath is outside the repository: {}", path.display());
            return Err(Error::new(Kind::Refused, message)
                .code("hooks_elsewhere")
                .hint("other repositories may use those hooks; give this one its own: git config core.hooksPath .git/hooks")
                .hint("or call the guard from those hooks: poste guard check --hook pre-commit"));
        }
        Ok(Self { path, is_versioned: !in_git })
    }

    fn hook(&self, name: &'static str) -> Hook {
        Hook::new(&self.path, name)
    }

    /// Installs hooks; returns whether anything changed. If one cannot be installed, none is.
    pub fn install(&self, names: &[&'static str]) -> Result<bool> {
        let hooks: Vec<Hook> = names.iter().map(|name| self.hook(name)).collect();
        hooks.iter().try_for_each(Hook::check_install)?;
        let folder_made = !self.path.exists();
        if folder_made {
            fs::create_dir_all(&self.path)
                .map_err(|error| Error::refused(format!("{}: {error}", self.path.display())))?;
        }
        let mut changed = false;
        for hook in &hooks {
            changed |= hook.install(folder_made)?;
        }
        Ok(changed)
    }

    /// Removes the hooks; returns whether anything changed.
    pub fn uninstall(&self) -> Result<bool> {
        let hooks = ALL.map(|name| self.hook(name));
        let folder_made = hooks.iter().any(Hook::made_folder);
        let mut changed = false;
        for hook in &hooks {
            changed |= hook.uninstall()?;
        }
        if folder_made {
            // Only succeeds if the folder is empty.
            let _ = fs::remove_dir(&self.path);
        }
        Ok(changed)
    }

    /// Fails if a hook was not removed, and says why.
    pub fn check_uninstalled(&self) -> Result {
        ALL.iter().try_for_each(|name| self.hook(name).check_uninstalled())
    }

    pub fn standing(&self, changed: bool) -> Result<Standing> {
        let hooks = ALL.into_iter().map(|name| self.hook(name).view()).collect::<Result<_>>()?;
        Ok(Standing { folder: self.path.display().to_string(), hooks, changed })
    }
}

/// Resolves the links of a path, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path.to_owned(),
    })
}
