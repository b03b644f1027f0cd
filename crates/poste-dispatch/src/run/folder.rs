//! The private folder of a run: its input, its output, and what the run is.
//!
//! A lock on one of its files says whether the supervisor lives. It is released however the supervisor ends, while a
//! pid may be reused.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use poste_core::Timestamp;
use poste_core::log::{MessageNo, RunOutcome, SessionProcess};
use poste_core::store::{Locked, run_folders};
use poste_core::text::{Name, Session};
use poste_run::files;
use serde::{Deserialize, Serialize};

/// The folder of all runs, in the office.
pub const RUNS: &str = run_folders::FOLDER;
/// Maximum number of folders of ended runs …
const KEPT_MAX: usize = 200;
/// … and their maximum total size.
const KEPT_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Maximum size of the files that Poste itself writes there.
const OWN_BYTES_MAX: u64 = 64 * 1024;
/// A folder without a valid `run.json` is abandoned after this time.
const UNFINISHED: Duration = Duration::from_secs(3_600);

/// Has a file for each run that a sweep must check.
const LIVE: &str = ".live";
const TROUBLE: &str = ".trouble";
/// Has a lock file for each resident.
const KEPT: &str = ".kept";
const LOCK: &str = "lock";
const ABOUT: &str = "run.json";
const END: &str = "end.json";
/// Files of the program, apart from those that Poste relies on.
const OWN: &str = "own";

/// What is known of a run from its folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    pub run: Session,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
    pub runner: String,
    pub supervisor: SessionProcess,
    /// The program itself, once it was started.
    pub program: Option<SessionProcess>,
    pub started_at: Timestamp,
}

/// How a run ended, for people who look into the folder; the log says so, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub how: RunOutcome,
    pub code: Option<u8>,
    pub took_ms: u64,
    #[serde(default)]
    pub why: Option<String>,
}

/// The folder of one run.
#[derive(Debug, Clone)]
pub struct RunFolder {
    path: PathBuf,
    pub run: Session,
}

/// Held while the supervisor lives.
#[derive(Debug)]
pub struct Held {
    _lock: Locked,
}

impl RunFolder {
    pub fn of(office: &Path, run: &Session) -> Self {
        Self { path: office.join(RUNS).join(run_folders::name(run)), run: run.clone() }
    }

    /// Creates the folder, and holds it as long as the returned value lives.
    pub fn create(office: &Path, about: &About) -> io::Result<(Self, Held)> {
        let private = |path: &Path| DirBuilder::new().mode(0o700).create(path);
        below(office, LIVE)?;
        let folder = Self::of(office, &about.run);
        // Create the sign first, so that a sweep finds the run if this process dies from here on.
        files::create(&folder.sign())?;
        // An existing folder belongs to another run.
        private(&folder.path)?;
        private(&folder.path.join(OWN))?;
        let lock = Locked::exclusive(files::create(&folder.path.join(LOCK))?)?;
        folder.write_about(about)?;
        Ok((folder, Held { _lock: lock }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_there(&self) -> bool {
        self.path.is_dir()
    }

    pub fn prompt(&self) -> PathBuf {
        self.path.join("prompt.md")
    }

    /// Both streams of the program, in order.
    pub fn output(&self) -> PathBuf {
        self.path.join("output")
    }

    /// Where the program may put its answer.
    pub fn own_answer(&self) -> PathBuf {
        self.path.join(OWN).join("answer")
    }

    /// Where the answer is kept, wherever it came from.
    pub fn answer(&self) -> PathBuf {
        self.path.join("answer")
    }

    pub fn about(&self) -> Option<About> {
        let about: About = read(&self.path.join(ABOUT))?;
        // A file about a run other than the one this folder is named for is forged.
        (self.path.file_name() == Some(run_folders::name(&about.run).as_ref())).then_some(about)
    }

    pub fn ended(&self) -> Option<Ended> {
        read(&self.path.join(END))
    }

    /// When it last printed something.
    pub fn last_output(&self) -> Option<SystemTime> {
        fs::symlink_metadata(self.output()).ok()?.modified().ok()
    }

    pub fn write_about(&self, about: &About) -> io::Result<()> {
        self.replace(ABOUT, &serde_json::to_vec(about)?)
    }

    /// Records the end. No sweep has to check the run from here on.
    pub fn write_end(&self, ended: &Ended) -> io::Result<()> {
        self.replace(END, &serde_json::to_vec(ended)?)?;
        self.remove_sign();
        Ok(())
    }

    fn sign(&self) -> PathBuf {
        let name = self.path.file_name().unwrap_or_default();
        self.path.with_file_name(LIVE).join(name)
    }

    pub(crate) fn remove_sign(&self) {
        let _ = fs::remove_file(self.sign());
    }

    /// Replaces a file atomically, because it may be read at any time.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let fresh = self.path.join(format!("{name}.new"));
        write(&fresh, bytes)?;
        files::replace(&fresh, &self.path.join(name))
    }

    pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
        write(path, bytes)
    }

    /// Whether its supervisor lives.
    pub fn is_held(&self) -> bool {
        matches!(self.lock(), Err(failed) if failed.kind() == io::ErrorKind::WouldBlock)
    }

    /// Holds the folder of a dead supervisor. An error of kind `WouldBlock`: the supervisor lives.
    pub(crate) fn take_over(&self) -> io::Result<Held> {
        Ok(Held { _lock: self.lock()? })
    }

    fn lock(&self) -> io::Result<Locked> {
        Locked::exclusive(files::existing(&self.path.join(LOCK))?)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        fs::remove_dir_all(&self.path)?;
        self.remove_sign();
        Ok(())
    }
}

/// A private folder next to those of runs.
fn below(office: &Path, name: &str) -> io::Result<PathBuf> {
    let folder = office.join(RUNS).join(name);
    for folder in [&office.join(RUNS), &folder] {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(failed) if failed.kind() != io::ErrorKind::AlreadyExists => return Err(failed),
            _ => {}
        }
    }
    Ok(folder)
}

/// Held by the supervisor of a resident, even while it waits to restart the program, so that there is only one. An
/// error of kind `WouldBlock`: there already is one.
pub(crate) fn keep(office: &Path, agent: &Name) -> io::Result<Held> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(5);
    let path = below(office, KEPT)?.join(agent.as_str());
    let mut held = Locked::exclusive(files::lockable(&path)?);
    // `is_kept` holds the lock for a moment.
    for _ in 0..TRIES {
        match held {
            Err(busy) if busy.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(PAUSE);
                held = Locked::exclusive(files::lockable(&path)?);
            }
            _ => break,
        }
    }
    Ok(Held { _lock: held? })
}

/// Whether a supervisor keeps the program of an agent running on this machine.
pub fn is_kept(office: &Path, agent: &Name) -> bool {
    let file = files::existing(&office.join(RUNS).join(KEPT).join(agent.as_str()));
    // Shared, so that two checks do not mistake each other for a supervisor.
    matches!(file.map(|file| file.try_lock_shared()), Ok(Err(fs::TryLockError::WouldBlock)))
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    files::create(path)?.write_all(bytes)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&files::beginning(path, OWN_BYTES_MAX).ok()?).ok()
}

/// Why the last start of an agent failed.
pub fn trouble(office: &Path, agent: &Name) -> Option<String> {
    let bytes = files::beginning(&trouble_file(office, agent), OWN_BYTES_MAX).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn note_trouble(office: &Path, agent: &Name, why: &str) {
    let _ = below(office, TROUBLE);
    let _ = write(&trouble_file(office, agent), why.as_bytes());
}

pub(crate) fn forget_trouble(office: &Path, agent: &Name) {
    let _ = fs::remove_file(trouble_file(office, agent));
}

fn trouble_file(office: &Path, agent: &Name) -> PathBuf {
    office.join(RUNS).join(TROUBLE).join(agent.as_str())
}

/// Every run that has a folder here, the oldest first.
pub fn folders(office: &Path) -> io::Result<Vec<RunFolder>> {
    let entries = match fs::read_dir(office.join(RUNS)) {
        Ok(entries) => entries,
        Err(none) if none.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(failed) => return Err(failed),
    };
    let mut found = Vec::new();
    for entry in entries {
        let folder = RunFolder { path: entry?.path(), run: unnamed() };
        let made = fs::symlink_metadata(folder.path.join(LOCK)).and_then(|meta| meta.modified());
        if let (Some(about), Ok(made)) = (folder.about(), made) {
            found.push((made, RunFolder { run: about.run, ..folder }));
        }
    }
    found.sort_by(|(a, first), (b, second)| (a, &first.path).cmp(&(b, &second.path)));
    Ok(found.into_iter().map(|(_, folder)| folder).collect())
}

/// The folders of runs without a recorded end. Does not read the others, of which there may be many.
pub(crate) fn live(office: &Path) -> io::Result<Vec<RunFolder>> {
    let entries = match fs::read_dir(office.join(RUNS).join(LIVE)) {
        Ok(entries) => entries,
        Err(none) if none.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(failed) => return Err(failed),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let folder = RunFolder { path: office.join(RUNS).join(entry.file_name()), run: unnamed() };
        match folder.about() {
            Some(about) => found.push(RunFolder { run: about.run, ..folder }),
            // It is being created, or its creator died.
            None if age(&entry).is_some_and(|age| age > UNFINISHED) => folder.remove_sign(),
            None => {}
        }
    }
    Ok(found)
}

fn age(entry: &fs::DirEntry) -> Option<Duration> {
    entry.metadata().and_then(|meta| meta.modified()).ok()?.elapsed().ok()
}

/// Whether old folders were not deleted for long.
pub(crate) fn is_overfull(office: &Path) -> bool {
    fs::read_dir(office.join(RUNS)).is_ok_and(|entries| entries.count() > 2 * KEPT_MAX)
}

/// Deletes the oldest folders of ended runs if there are too many or they are too large, and half-made folders whose
/// creator died.
pub(crate) fn prune(office: &Path) -> io::Result<usize> {
    let mut ended: Vec<RunFolder> = folders(office)?.into_iter().filter(|folder| folder.ended().is_some()).collect();
    ended.reverse();
    let (mut bytes, mut dropped) = (0, 0);
    for (index, folder) in ended.iter().enumerate() {
        bytes += size(&folder.path);
        if (index >= KEPT_MAX || bytes > KEPT_BYTES_MAX) && folder.take_over().is_ok() {
            dropped += usize::from(folder.remove().is_ok());
        }
    }
    for entry in fs::read_dir(office.join(RUNS)).into_iter().flatten().flatten() {
        let unfinished = RunFolder { path: entry.path(), run: unnamed() };
        // Hidden folders are not runs.
        let is_run = !entry.file_name().to_string_lossy().starts_with('.');
        let is_old = is_run && age(&entry).is_some_and(|age| age > UNFINISHED);
        if is_old && unfinished.about().is_none() && !unfinished.is_held() {
            dropped += usize::from(unfinished.remove().is_ok());
        }
    }
    Ok(dropped)
}

fn unnamed() -> Session {
    "unfinished".parse().expect("a plain word is a session")
}

/// The total size of the files in a folder and its `own` folder. No deeper, because an agent may have put anything
/// there.
fn size(path: &Path) -> u64 {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let all = entries(path).chain(entries(&path.join(OWN)));
    all.filter_map(|entry| entry.metadata().ok()).map(|meta| meta.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(run: &str) -> About {
        About {
            run: run.parse().unwrap(),
            agent: "coder".parse().unwrap(),
            messages: Vec::new(),
            runner: "command".to_owned(),
            supervisor: poste_core::store::processes::written_down(std::process::id()),
            program: None,
            started_at: Timestamp::ZERO,
        }
    }

    #[test]
    fn a_folder_is_private_and_held_and_found_again() {
        use std::os::unix::fs::PermissionsExt;
        let office = tempfile::tempdir().unwrap();
        let (folder, held) = RunFolder::create(office.path(), &about("a/../b")).unwrap();
        assert_eq!(folder.path().parent().unwrap(), office.path().join(RUNS), "no name leads elsewhere");
        assert_eq!(fs::metadata(folder.path()).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(RunFolder::create(office.path(), &about("a/../b")).is_err(), "a folder belongs to one run");
        assert!(folder.is_held() && folder.take_over().is_err());
        let found = folders(office.path()).unwrap();
        assert!(found.len() == 1 && found[0].about().unwrap().run == folder.run);
        assert_eq!(live(office.path()).unwrap().len(), 1);
        drop(held);
        assert!(!folder.is_held());
        assert_eq!(live(office.path()).unwrap().len(), 1, "it was not swept yet");
        folder.write_end(&Ended { how: RunOutcome::Exited, code: Some(0), took_ms: 1, why: None }).unwrap();
        assert_eq!(live(office.path()).unwrap().len(), 0);
    }

    #[test]
    fn only_one_supervisor_keeps_a_program_running() {
        let office = tempfile::tempdir().unwrap();
        let agent: Name = "coder".parse().unwrap();
        assert!(!is_kept(office.path(), &agent));
        let held = keep(office.path(), &agent).unwrap();
        assert!(is_kept(office.path(), &agent));
        assert_eq!(keep(office.path(), &agent).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert!(keep(office.path(), &"other".parse().unwrap()).is_ok());
        drop(held);
        assert!(!is_kept(office.path(), &agent) && keep(office.path(), &agent).is_ok());
    }

    #[test]
    fn a_file_about_another_run_is_ignored() {
        let office = tempfile::tempdir().unwrap();
        let (folder, _held) = RunFolder::create(office.path(), &about("one")).unwrap();
        folder.write_about(&about("two")).unwrap();
        assert_eq!(folder.about(), None);
        assert_eq!(live(office.path()).unwrap().len(), 0);
    }

    #[test]
    fn only_the_oldest_ended_runs_are_deleted() {
        let office = tempfile::tempdir().unwrap();
        let ended = Ended { how: RunOutcome::Exited, code: Some(0), took_ms: 1, why: None };
        let mut held = Vec::new();
        for number in 0..KEPT_MAX + 3 {
            let (folder, lock) = RunFolder::create(office.path(), &about(&format!("run-{number:04}"))).unwrap();
            let old = SystemTime::UNIX_EPOCH + Duration::from_secs(number as u64);
            lock._lock.set_modified(old).unwrap();
            match number {
                0 => held.push(lock), // it runs
                1 => {}               // it was not swept yet
                _ => folder.write_end(&ended).unwrap(),
            }
        }
        assert_eq!(prune(office.path()).unwrap(), 1);
        let left: Vec<Session> = folders(office.path()).unwrap().into_iter().map(|folder| folder.run).collect();
        assert_eq!(left.len(), KEPT_MAX + 2);
        assert!(left.iter().all(|run| run.as_str() != "run-0002") && left[0].as_str() == "run-0000");
    }
}
