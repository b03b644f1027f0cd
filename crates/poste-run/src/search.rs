//! Finds programs. A relative entry of the search path, which leads to another program in each folder, is never used.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The program that is meant by a name without a `/`.
pub fn find_program(name: &str) -> Option<PathBuf> {
    programs(name).next()
}

/// Like [`find_program`], for a program that Poste itself needs: none that lies in the project, where agents write.
pub fn find_outside(name: &str, project: &Path) -> Option<PathBuf> {
    let project = project.canonicalize().ok()?;
    let is_inside =
        |path: &Path| path.starts_with(&project) || path.canonicalize().is_ok_and(|real| real.starts_with(&project));
    programs(name).find(|path| !is_inside(path))
}

fn programs(name: &str) -> impl Iterator<Item = PathBuf> {
    // As the system has it where none is set.
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let folders: Vec<PathBuf> = env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
    folders.into_iter().map(move |folder| folder.join(name)).filter(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
