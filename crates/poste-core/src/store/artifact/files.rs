//! The folders that are open to a caller.

use std::path::{Component, Path};
use std::sync::Arc;

use super::{Repository, Worktree};
use crate::error::Error;
use crate::store::discover;

/// The folders a caller may access: a capability that its surface opens. Records only name folders. Whether one of them
/// is open is decided here, from what the surface opened and what git records about it.
#[derive(Debug, Default)]
pub struct Files {
    own: Option<Arc<Worktree>>,
    repository: Option<Repository>,
}

impl Files {
    pub fn none() -> Self {
        Self::default()
    }

    /// Opens the worktree at `root` and the repository it belongs to; for a submodule, the one around it. The files of
    /// the office are excluded.
    pub fn open(root: &Path, office: &Path) -> Result<Self, Error> {
        let own = Worktree::open(root)?.apart_from(office);
        let repository = discover::repository_top(&own.root).and_then(|top| Repository::of(&top));
        Ok(Self { own: Some(Arc::new(own)), repository })
    }

    /// The worktree the caller works in. Paths in an input are relative to it, or lead into it.
    pub fn own(&self) -> Option<&Worktree> {
        self.own.as_deref()
    }

    /// The folder that a record names, if it is open here: the caller's worktree, another one of its repository, or a
    /// folder below its own.
    pub fn folder(&self, named: &Path) -> Option<Arc<Worktree>> {
        let own = self.own.as_ref()?;
        if named == own.root {
            return Some(Arc::clone(own));
        }
        let worktree = self.repository.as_ref().and_then(|repository| repository.worktree(named));
        let found = worktree.or_else(|| own.below(named))?;
        Some(Arc::new(Worktree { office: own.office.clone(), ..found }))
    }
}

impl Worktree {
    /// A folder below this one, by its own name and not through links: a submodule, a repository within another.
    fn below(&self, named: &Path) -> Option<Self> {
        let relative = named.strip_prefix(&self.root).ok()?;
        let is_plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        let is_folder = |part: &Path| self.folder.symlink_metadata(part).is_ok_and(|meta| meta.is_dir());
        let mut parts = relative.ancestors().filter(|part| !part.as_os_str().is_empty());
        if !is_plain || self.is_of_the_office(relative) || !parts.all(is_folder) {
            return None;
        }
        Some(Self { folder: self.folder.open_dir(relative).ok()?, root: named.to_owned(), office: None })
    }
}
