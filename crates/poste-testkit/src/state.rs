//! Where the programs under test keep the user's state: a folder of this test process, never the home folder of the user
//! who runs the tests.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use poste_config::trust;
use poste_core::gates::Source;
use poste_core::office::Place;
use poste_core::store::Options;
use poste_core::store::clock::{Clock as _, SystemClock};

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

/// Options whose state is that of the programs under test.
pub fn options() -> Options {
    Options { state: Some(home().join("poste")), ..Options::default() }
}

fn place(office: &Path) -> Place {
    Place { path: office.to_owned(), clock: Arc::new(SystemClock), options: options() }
}

/// Adopts an office that a test copied or made without the program, as a person would. It may be damaged.
///
/// # Panics
/// If there is none, or the state cannot be written.
pub fn adopt(office: &Path) {
    let place = place(office);
    if poste_config::adopt::check(&place).is_err() {
        let adopted = poste_config::adopt::adopt_folder(&place.options, office, None, SystemClock.wall());
        adopted.expect("the office is adopted");
    }
}

/// Like [`adopt`], in a state folder of another user, which is created.
///
/// # Panics
/// As that one.
pub fn adopt_in(state: &Path, office: &Path) {
    fs::DirBuilder::new().mode(0o700).create(state).expect("a folder for a state");
    let options = Options { state: Some(state.join("poste")), ..Options::default() };
    poste_config::adopt::adopt_folder(&options, office, None, SystemClock.wall()).expect("the office is adopted");
}

/// Trusts only this machine's own file.
///
/// # Panics
/// If it cannot be read, or the state cannot be written.
pub fn trust_own(office: &Path) {
    let opened = poste_config::look(&place(office)).expect("the office opens");
    let own = trust::candidate(&opened, Source::Machine).expect("the file can be read").expect("a file");
    trust::set_trusted(&opened, &own, "a test".to_owned()).expect("the file is trusted");
}

/// Trusts the commands in the files of an office, and its workflows, as a person would.
///
/// # Panics
/// If a file cannot be read, or the state cannot be written.
pub fn trust(office: &Path) {
    let opened = poste_config::look(&place(office)).expect("the office opens");
    let mut files = trust::candidates(&opened).expect("the files can be read");
    for folder in [office.join("workflows"), office.with_file_name("workflows")] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let file = trust::name_of(&opened, &entry.path()).expect("a name");
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            files.push(trust::Candidate { kind: trust::Kind::Workflow, file, text, commands: Vec::new() });
        }
    }
    for file in files {
        trust::set_trusted(&opened, &file, "a test".to_owned()).expect("the file is trusted");
    }
}
