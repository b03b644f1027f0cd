//! The user's state folder. It is outside every workspace, so nothing that a repository brings can write there.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use poste_core::Error;
use poste_core::store::discover;

/// `poste/` in the user's state folder. `XDG_STATE_HOME` counts only if it is an absolute path to a folder of this user,
/// private and outside every worktree and office: the settings of a repository can set variables.
pub(crate) fn state_folder() -> Result<PathBuf, Error> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|folder| is_safe(folder));
    Ok(named.map_or_else(|| home().map(|home| home.join(".local/state")), Ok)?.join("poste"))
}

fn is_safe(folder: &Path) -> bool {
    let is_private = fs::symlink_metadata(folder).is_ok_and(|meta| {
        meta.is_dir() && meta.uid() == rustix::process::geteuid().as_raw() && meta.mode() & 0o077 == 0
    });
    let is_outside = |folder: &Path| {
        folder.ancestors().all(|above| [".git", discover::FOLDER].iter().all(|name| !above.join(name).exists()))
    };
    folder.is_absolute() && is_private && folder.canonicalize().is_ok_and(|folder| is_outside(&folder))
}

/// The home folder of the password database: `$HOME` may be anything.
fn home() -> Result<PathBuf, Error> {
    let path = Path::new("/etc/passwd");
    let users = fs::read_to_string(path).map_err(|error| Error::io(path, error))?;
    let own = rustix::process::geteuid().as_raw().to_string();
    let found = users.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|line| line.get(2) == Some(&&*own));
    let home = found.and_then(|line| line.get(5).map(PathBuf::from)).filter(|home| home.is_absolute());
    let missing = || Error::Config { path: path.to_owned(), message: format!("it names no home folder of user {own}") };
    home.ok_or_else(missing)
}
