//! The folder where Poste keeps what belongs to a user and to no office.
//!
//! Nothing that arrives may choose it: a repository can set variables for the programs that an editor starts. So the home
//! folder is the one in the password database, and a state folder from a variable counts only if nobody else could have
//! filled it.

use std::env;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::{Uid, User};

use super::discover;

const VARIABLE: &str = "XDG_STATE_HOME";
const BELOW_HOME: &str = ".local/state";
const OWN: &str = "poste";

/// The folder `poste` in the user's state folder. It may not exist yet. `None` if this user has no home folder.
pub fn folder() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = FOLDER.get_or_init(|| {
        let named = env::var_os(VARIABLE).and_then(|path| private_folder(Path::new(&path)));
        Some(named.or_else(|| Some(home()?.join(BELOW_HOME)))?.join(OWN))
    });
    found.as_deref()
}

/// The folder that says what this user has decided as a person. No variable chooses it: an agent can set one, even where
/// it can write nothing but temporary files. Tests have no other home folder.
pub fn folder_of_person() -> Option<PathBuf> {
    match cfg!(debug_assertions) {
        true => folder().map(Path::to_owned),
        false => Some(home()?.join(BELOW_HOME).join(OWN)),
    }
}

/// The folder that the variable names, if it is this user's alone and in no worktree and no office.
fn private_folder(named: &Path) -> Option<PathBuf> {
    let path = named.is_absolute().then(|| named.canonicalize().ok()).flatten()?;
    let meta = fs::metadata(&path).ok()?;
    let is_private = meta.is_dir() && meta.uid() == Uid::effective().as_raw() && meta.mode() & 0o7777 == 0o700;
    (is_private && !is_in_project(&path)).then_some(path)
}

/// Whether a folder is in a worktree or an office, where agents write.
pub fn is_in_project(folder: &Path) -> bool {
    let is_project = |folder: &Path| {
        // Another user could make one in a shared folder above.
        let is_own = |meta: fs::Metadata| meta.uid() == Uid::effective().as_raw();
        [".git", discover::FOLDER].iter().any(|name| folder.join(name).symlink_metadata().is_ok_and(is_own))
            || folder.file_name().is_some_and(|name| name == discover::FOLDER)
    };
    folder.ancestors().any(is_project)
}

/// The home folder of this user in the password database, with its links resolved.
pub fn home() -> Option<PathBuf> {
    let home = user()?.dir;
    home.is_absolute().then(|| home.canonicalize().unwrap_or(home))
}

/// The name of this user in the password database, or else its number.
pub fn user_name() -> String {
    user().map_or_else(|| Uid::effective().to_string(), |user| user.name)
}

fn user() -> Option<User> {
    User::from_uid(Uid::effective()).ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};

    fn make(path: &Path) {
        fs::DirBuilder::new().mode(0o700).recursive(true).create(path).unwrap();
    }

    #[test]
    fn a_named_folder_counts_only_if_it_is_private_and_outside_of_projects() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let state = root.join("project/deep/state");
        make(&state);
        assert_eq!(private_folder(&state).as_deref(), Some(state.as_path()));
        assert_eq!(private_folder(Path::new("state")), None, "it is not absolute");
        assert_eq!(private_folder(&root.join("nowhere")), None);

        for mode in [0o750, 0o701, 0o777, 0o500] {
            fs::set_permissions(&state, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(private_folder(&state), None, "{mode:o}");
        }
        fs::set_permissions(&state, fs::Permissions::from_mode(0o700)).unwrap();

        let link = root.join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        assert_eq!(private_folder(&link).as_deref(), Some(state.as_path()));
        for name in [".git", ".poste"] {
            let mark = root.join("project").join(name);
            make(&mark);
            assert_eq!(private_folder(&state), None, "{name}");
            assert_eq!(private_folder(&link), None, "{name}");
            make(&mark.join("state"));
            assert_eq!(private_folder(&mark.join("state")), None, "{name}");
            fs::remove_dir_all(mark).unwrap();
        }
    }

    #[test]
    fn home_is_that_of_the_password_database() {
        let named = fs::read_to_string("/etc/passwd").unwrap_or_default();
        let own = Uid::effective().to_string();
        let line = named.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let line = line.into_iter().find(|fields| fields.get(2) == Some(&own.as_str()));
        if let (Some(fields), Some(home)) = (line, home()) {
            assert_eq!(home, Path::new(fields[5]).canonicalize().unwrap_or_else(|_| fields[5].into()));
            assert_eq!(user_name(), fields[0]);
        }
    }
}
