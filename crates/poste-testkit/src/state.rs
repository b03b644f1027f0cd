//! Where the programs under test keep the user's state: a folder of this test process, never the home folder of the user
//! who runs the tests.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

const PREFIX: &str = "poste-test-state-";

/// For `XDG_STATE_HOME`: outside every worktree, and of mode 0700, or Poste would ignore it. The next test process
/// removes it.
///
/// # Panics
/// If it cannot be created.
pub fn home() -> &'static Path {
    static HOME: LazyLock<PathBuf> = LazyLock::new(|| {
        let all = std::env::temp_dir().canonicalize().expect("the temporary folder");
        remove_old(&all);
        let own = all.join(format!("{PREFIX}{}", std::process::id()));
        let _ = fs::remove_dir_all(&own);
        fs::DirBuilder::new().mode(0o700).create(&own).expect("a folder for the user's state");
        own
    });
    &HOME
}

/// Removes the folders of processes that have ended.
fn remove_old(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        if !Path::new("/proc").join(pid).exists() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
