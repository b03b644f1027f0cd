//! The private folder of a run: its input, its output, and what the run is.
//!
//! A lock on one of its files says whether the supervisor lives. It is released however the supervisor ends, while a
//! pid may be reused.

use std::ffi::OsString;
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use poste_core::Timestamp;
use poste_core::log::{MessageNo, RunOutcome, SessionProcess};
use poste_core::store::{Folder, Locked, run_folders};
use poste_core::text::{Name, Session};
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
const PROMPT: &str = "prompt.md";
const OUTPUT: &str = "output";
const ANSWER: &str = "answer";
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
    office: PathBuf,
    name: OsString,
    pub run: Session,
}

/// Held while the supervisor lives.
#[derive(Debug)]
pub struct Held {
    _lock: Locked,
}

impl RunFolder {
    pub fn of(office: &Path, run: &Session) -> Self {
        Self { office: office.to_owned(), name: run_folders::name(run).into(), run: run.clone() }
    }

    /// Creates the folder, and holds it as long as the returned value lives.
    pub fn create(office: &Path, about: &About) -> io::Result<(Self, Held)> {
        let this = Self::of(office, &about.run);
        // Create the sign first, so that a sweep finds the run if this process dies from here on.
        make(office, LIVE)?.create_over(&this.name)?;
        // An existing folder belongs to another run.
        let folder = runs(office)?.make_new(&this.name)?;
        folder.make_new(OWN)?;
        let lock = Locked::exclusive(folder.create(LOCK)?)?;
        this.write_about(about)?;
        Ok((this, Held { _lock: lock }))
    }

    /// Opened each time: the program may put anything there, and another process may remove it.
    fn open(&self) -> io::Result<Folder> {
        runs(&self.office)?.below(&self.name)
    }

    pub fn path(&self) -> PathBuf {
        self.office.join(RUNS).join(&self.name)
    }

    pub fn is_there(&self) -> bool {
        self.open().is_ok()
    }

    pub fn prompt(&self) -> PathBuf {
        self.path().join(PROMPT)
    }

    pub(crate) fn write_prompt(&self, text: &str) -> io::Result<()> {
        self.write(PROMPT, text)
    }

    /// Both streams of the program, in order.
    pub fn output(&self) -> PathBuf {
        self.path().join(OUTPUT)
    }

    pub(crate) fn open_output(&self) -> io::Result<File> {
        self.open()?.open_to_read(OUTPUT)
    }

    /// Where the program may put its answer.
    pub fn own_answer(&self) -> PathBuf {
        self.path().join(OWN).join(ANSWER)
    }

    /// What the program put there, which may be anything: its beginning or its end.
    pub(crate) fn read_own_answer(&self, bytes_max: u64, is_end: bool) -> io::Result<Vec<u8>> {
        let own = self.open()?.below(OWN)?;
        if is_end { own.read_end(ANSWER, bytes_max) } else { own.read(ANSWER, bytes_max) }
    }

    /// Keeps the answer, wherever it came from.
    pub(crate) fn write_answer(&self, text: &str) -> io::Result<()> {
        self.write(ANSWER, text)
    }

    fn write(&self, name: &str, text: &str) -> io::Result<()> {
        self.open()?.create_over(name)?.write_all(text.as_bytes())
    }

    pub fn about(&self) -> Option<About> {
        let about: About = self.read(ABOUT)?;
        // A file about a run other than the one this folder is named for is forged.
        (self.name == *run_folders::name(&about.run)).then_some(about)
    }

    pub fn ended(&self) -> Option<Ended> {
        self.read(END)
    }

    fn read<T: serde::de::DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_slice(&self.open().ok()?.read(name, OWN_BYTES_MAX).ok()?).ok()
    }

    /// When it last printed something.
    pub fn last_output(&self) -> Option<SystemTime> {
        Some(self.open().ok()?.entry(OUTPUT).ok()??.modified)
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

    pub(crate) fn remove_sign(&self) {
        let _ = runs(&self.office).and_then(|runs| runs.below(LIVE)?.remove(&self.name));
    }

    /// Replaces a file atomically, because it may be read at any time, or whatever the program put in its place.
    fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let folder = self.open()?;
        folder.replace_unsynced(name, bytes).or_else(|_| {
            folder.clear(name)?;
            folder.replace_unsynced(name, bytes)
        })
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
        Locked::exclusive(self.open()?.open_to_write(LOCK)?)
    }

    /// When its supervisor began.
    fn made(&self) -> Option<SystemTime> {
        Some(self.open().ok()?.entry(LOCK).ok()??.modified)
    }

    pub(crate) fn remove(&self) -> io::Result<()> {
        runs(&self.office)?.clear(&self.name)?;
        self.remove_sign();
        Ok(())
    }

    /// The total size of the files in the folder and its `own` folder. No deeper, because an agent may have put anything
    /// there.
    fn size(&self) -> u64 {
        let Ok(folder) = self.open() else { return 0 };
        let all = [folder.entries(), folder.entries_of(OWN)];
        all.into_iter().flatten().flatten().map(|entry| entry.bytes).sum()
    }
}

/// The folder of all runs.
fn runs(office: &Path) -> io::Result<Folder> {
    Folder::open(office)?.below(RUNS)
}

/// A private folder next to those of runs.
pub(super) fn make(office: &Path, name: &str) -> io::Result<Folder> {
    Folder::open(office)?.make(RUNS)?.make(name)
}

/// Such a folder, if it exists.
pub(super) fn existing(office: &Path, name: &str) -> io::Result<Folder> {
    runs(office)?.below(name)
}

/// Held by the supervisor of a resident, even while it waits to restart the program, so that there is only one. An
/// error of kind `WouldBlock`: there already is one.
pub(crate) fn keep(office: &Path, agent: &Name) -> io::Result<Held> {
    const TRIES: u32 = 20;
    const PAUSE: Duration = Duration::from_millis(5);
    let folder = make(office, KEPT)?;
    let lock = || Locked::exclusive(folder.open_or_create(agent.as_str())?);
    let mut held = lock();
    // `is_kept` holds the lock for a moment.
    for _ in 0..TRIES {
        match held {
            Err(busy) if busy.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(PAUSE);
                held = lock();
            }
            _ => break,
        }
    }
    Ok(Held { _lock: held? })
}

/// Whether a supervisor keeps the program of an agent running on this machine.
pub fn is_kept(office: &Path, agent: &Name) -> bool {
    let file = existing(office, KEPT).and_then(|folder| folder.open_to_write(agent.as_str()));
    // Shared, so that two checks do not mistake each other for a supervisor.
    matches!(file.map(|file| file.try_lock_shared()), Ok(Err(TryLockError::WouldBlock)))
}

/// Why the last start of an agent failed.
pub fn trouble(office: &Path, agent: &Name) -> Option<String> {
    let bytes = existing(office, TROUBLE).and_then(|folder| folder.read(agent.as_str(), OWN_BYTES_MAX)).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn note_trouble(office: &Path, agent: &Name, why: &str) {
    let note = || make(office, TROUBLE)?.create_over(agent.as_str())?.write_all(why.as_bytes());
    let _ = note();
}

pub(crate) fn forget_trouble(office: &Path, agent: &Name) {
    let _ = existing(office, TROUBLE).and_then(|folder| folder.remove(agent.as_str()));
}

fn names(folder: io::Result<Folder>) -> io::Result<Vec<OsString>> {
    match folder.and_then(|folder| folder.names()) {
        Err(none) if none.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        names => names,
    }
}

fn unnamed(office: &Path, name: OsString) -> RunFolder {
    RunFolder { office: office.to_owned(), name, run: "unfinished".parse().expect("a plain word is a session") }
}

/// Every run that has a folder here, the oldest first.
pub fn folders(office: &Path) -> io::Result<Vec<RunFolder>> {
    let mut found = Vec::new();
    for name in names(runs(office))? {
        let folder = unnamed(office, name);
        if let (Some(about), Some(made)) = (folder.about(), folder.made()) {
            found.push((made, RunFolder { run: about.run, ..folder }));
        }
    }
    found.sort_by(|(a, first), (b, second)| (a, &first.name).cmp(&(b, &second.name)));
    Ok(found.into_iter().map(|(_, folder)| folder).collect())
}

/// The folders of runs without a recorded end. Does not read the others, of which there may be many.
pub(crate) fn live(office: &Path) -> io::Result<Vec<RunFolder>> {
    let mut found = Vec::new();
    for name in names(existing(office, LIVE))? {
        let sign = existing(office, LIVE)?.entry(&name)?;
        let folder = unnamed(office, name);
        match folder.about() {
            Some(about) => found.push(RunFolder { run: about.run, ..folder }),
            // It is being created, or its creator died.
            None if sign.is_some_and(|sign| sign.age() > UNFINISHED) => folder.remove_sign(),
            None => {}
        }
    }
    Ok(found)
}

/// Whether old folders were not deleted for long.
pub(crate) fn is_overfull(office: &Path) -> bool {
    names(runs(office)).is_ok_and(|names| names.len() > 2 * KEPT_MAX)
}

/// Deletes the oldest folders of ended runs if there are too many or they are too large, and half-made folders whose
/// creator died.
pub(crate) fn prune(office: &Path) -> io::Result<usize> {
    let mut ended: Vec<RunFolder> = folders(office)?.into_iter().filter(|folder| folder.ended().is_some()).collect();
    ended.reverse();
    let (mut bytes, mut dropped) = (0, 0);
    for (index, folder) in ended.iter().enumerate() {
        bytes += folder.size();
        if (index >= KEPT_MAX || bytes > KEPT_BYTES_MAX) && folder.take_over().is_ok() {
            dropped += usize::from(folder.remove().is_ok());
        }
    }
    for entry in runs(office).and_then(|runs| runs.entries()).unwrap_or_default() {
        // Hidden folders are not runs.
        let is_old_run = !entry.name.starts_with('.') && entry.age() > UNFINISHED;
        let unfinished = unnamed(office, entry.name.into());
        if is_old_run && unfinished.about().is_none() && !unfinished.is_held() {
            dropped += usize::from(unfinished.remove().is_ok());
        }
    }
    Ok(dropped)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
