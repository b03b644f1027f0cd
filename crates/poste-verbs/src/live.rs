//! Local state of running sessions that the log does not need: how to reach a session, and what it was told.
//!
//! Each session has one small file in the office's folder `live`, readable only by its owner: it may hold the token of
//! the session's socket, which must never be in the log. If the file is deleted, the session is told some things twice,
//! and nothing is lost.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use poste_core::log::{MessageNo, Position, SessionProcess};
use poste_core::store::processes::Presence;
use poste_core::store::{Folder, Locked};
use poste_core::text::{Name, Session};
use poste_core::views::Heard;
use poste_core::{Address, Timestamp};
use serde::{Deserialize, Serialize};

use crate::program::Program;

/// The folder, inside the office's folder.
pub const FOLDER: &str = "live";

/// Longer than a hook holds the lock, unless it is stopped or stuck.
const PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PERIOD: Duration = Duration::from_millis(2);
/// More than any of these files ever holds.
const BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    pub session: Session,
    /// The agent it is bound to, once it is.
    #[serde(default)]
    pub agent: Option<Name>,
    #[serde(default)]
    pub program: Option<Program>,
    /// The program's process. Its MCP server is a child of it, too.
    #[serde(default)]
    pub process: Option<SessionProcess>,
    /// Set after a resume: the program keeps its own id, whose session has ended, and continues as this session.
    #[serde(default)]
    pub runs_as: Option<Session>,
    #[serde(default)]
    pub reach: Reach,
    #[serde(default)]
    pub told: Announced,
}

/// Ways to reach a running session, as reported by its own hooks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reach {
    /// The inbox socket of a Claude Code session, and its token.
    pub socket: Option<PathBuf>,
    pub socket_token: Option<String>,
    /// The tmux pane it runs in: `TMUX` (socket, server, session) and `TMUX_PANE`.
    pub tmux: Option<String>,
    pub tmux_pane: Option<String>,
    /// The thread of a Codex session.
    pub codex_thread: Option<String>,
    /// The URL of an OpenCode server, and its id for the session.
    pub opencode_url: Option<String>,
    pub opencode_session: Option<String>,
}

/// What the session was shown since it began or was compacted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Announced {
    /// Records up to here were checked for these addresses: only later ones can be news.
    pub looked_until: Option<Position>,
    pub addresses: Vec<Address>,
    /// When to check again, whatever the bell says: a lease is half over, or something is due.
    pub look_again_at: Option<Timestamp>,
    /// Mail that was listed in a line, without its body.
    pub listed: BTreeSet<MessageNo>,
    /// Mail whose body was shown while the office was not writable. It still has to be marked as shown.
    pub unmarked: BTreeSet<MessageNo>,
    /// How often in a row the session was kept from stopping.
    pub holds: u32,
}

impl Announced {
    /// The mail it was notified of, at any position.
    pub fn heard(&self) -> Heard {
        Heard { looked_until: None, numbers: &self.listed | &self.unmarked }
    }
}

impl Live {
    pub fn new(session: Session) -> Self {
        Self {
            session,
            agent: None,
            program: None,
            process: None,
            runs_as: None,
            reach: Reach::default(),
            told: Announced::default(),
        }
    }

    /// The last saved state. `None`: there is none, or the file cannot be read.
    pub fn load(office: &Path, session: &Session) -> Option<Self> {
        Self::load_from(&folder(office).ok()?, session)
    }

    fn load_from(folder: &Folder, session: &Session) -> Option<Self> {
        let found = read(folder, &file(session, "json"))?;
        (found.session == *session).then_some(found)
    }

    /// The session whose program is the first of these processes that has one.
    pub fn of_process(office: &Path, processes: &[SessionProcess]) -> Option<Self> {
        let folder = folder(office).ok()?;
        let names = folder.names().ok()?.into_iter().filter_map(|name| name.into_string().ok());
        let files = names.filter(|name| name.ends_with(".json"));
        let all = files.filter_map(|name| read(&folder, &name));
        let near = |live: &Self| processes.iter().position(|process| live.process.as_ref() == Some(process));
        all.filter_map(|live| Some((near(&live)?, live))).min_by_key(|(near, _)| *near).map(|(_, live)| live)
    }

    /// Changes the state under a lock: hooks of one session may run at the same time.
    pub fn change<T, E: From<io::Error>>(
        office: &Path,
        session: &Session,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        Self::change_within(office, session, PATIENCE, change)
    }

    /// As [`Live::change`], with a shorter timeout. `WouldBlock`: the lock was held for all of it.
    pub fn change_within<T, E: From<io::Error>>(
        office: &Path,
        session: &Session,
        patience: Duration,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let folder = make_folder(office)?;
        let _lock = locked(&folder, &file(session, "lock"), patience)?;
        let before = Self::load_from(&folder, session);
        let mut live = before.clone().unwrap_or_else(|| Self::new(session.clone()));
        let done = change(&mut live)?;
        if before.as_ref() != Some(&live) {
            // It is not synced: the state is worthless after a reboot.
            let text = serde_json::to_vec(&live).map_err(io::Error::from)?;
            folder.replace_unsynced(file(session, "json"), &text)?;
        }
        Ok(done)
    }

    /// Deletes the files of sessions that have ended, unless they are in use at this moment.
    pub fn sweep(office: &Path, live: &[Session]) -> io::Result<()> {
        let folder = folder(office)?;
        let mut stems = BTreeSet::new();
        for entry in folder.entries()? {
            match entry.name.rsplit_once('.') {
                Some((stem, "json" | "lock" | "waiter")) => drop(stems.insert(stem.to_owned())),
                _ if entry.age() > OLD => remove_unused(&folder, &entry.name)?,
                _ => {}
            }
        }
        let live_stems: BTreeSet<String> = live.iter().map(stem).collect();
        for stem in stems {
            sweep_one(&folder, &stem, live_stems.contains(&stem), live)?;
        }
        Ok(())
    }

    /// Deletes the state of a session that has ended. Its locks stay until a sweep: a process may be waiting for one.
    pub fn forget(office: &Path, session: &Session) -> io::Result<()> {
        match folder(office).and_then(|folder| folder.remove(file(session, "json"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The file of a session, for people.
pub fn path(office: &Path, session: &Session) -> PathBuf {
    office.join(FOLDER).join(file(session, "json"))
}

/// Session ids come from the programs and may not be valid file names, so files are named by their hash.
pub(crate) fn file(session: &Session, extension: &str) -> String {
    format!("{}.{extension}", stem(session))
}

fn stem(session: &Session) -> String {
    stem_of(session.as_str())
}

pub(crate) fn stem_of(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..32].to_owned()
}

/// What is in it counts only because nobody else may write there: opening checks the office and each file.
pub(crate) fn folder(office: &Path) -> io::Result<Folder> {
    Folder::open(office)?.below(FOLDER)
}

pub(crate) fn make_folder(office: &Path) -> io::Result<Folder> {
    Folder::open(office)?.make(FOLDER)
}

/// Locks a file. Locks have no timeout, so this polls. `WouldBlock`: the lock was held for all of `patience`.
pub(crate) fn locked(folder: &Folder, name: &str, patience: Duration) -> io::Result<Locked> {
    let deadline = Instant::now() + patience;
    loop {
        match Locked::exclusive(folder.open_or_create(name)?) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                thread::sleep(LOCK_PERIOD);
            }
            Err(error) => return Err(error),
            // If the file was swept between the two steps, other processes lock another file.
            Ok(lock) if is_at(&lock, folder, name) => return Ok(lock),
            Ok(_) => {}
        }
    }
}

fn is_at(file: &File, folder: &Folder, name: &str) -> bool {
    file.metadata().is_ok_and(|own| folder.identity_of(name) == Some((own.dev(), own.ino())))
}

/// A session that the log does not list as live may still run: it has no agent yet, or another session took over.
fn sweep_one(folder: &Folder, stem: &str, is_live: bool, live: &[Session]) -> io::Result<()> {
    let [json, lock, waiter] = ["json", "lock", "waiter"].map(|extension| format!("{stem}.{extension}"));
    let Ok(_lock) = locked(folder, &lock, Duration::ZERO) else { return Ok(()) };
    let known = read(folder, &json);
    let is_needed = match known.as_ref().map(|known| (Presence::of(known.process.as_ref()), &known.runs_as)) {
        Some((Presence::Running, _)) => true,
        Some((Presence::Gone, _)) => false,
        Some((Presence::Unknown, Some(run))) => is_live || live.contains(run),
        Some((Presence::Unknown, None)) | None => is_live,
    };
    if is_needed {
        return Ok(());
    }
    let Ok(_waiter) = locked(folder, &waiter, Duration::ZERO) else { return Ok(()) };
    [json, waiter, lock].iter().try_for_each(|name| folder.remove(name).map(drop))
}

/// Age at which files that belong to no session are deleted: notes of rings, unfinished files.
const OLD: Duration = Duration::from_secs(60 * 60);

fn remove_unused(folder: &Folder, name: &str) -> io::Result<()> {
    match locked(folder, name, Duration::ZERO) {
        Ok(_lock) => folder.remove(name).map(drop),
        Err(_) => Ok(()),
    }
}

fn read(folder: &Folder, name: &str) -> Option<Live> {
    serde_json::from_slice(&folder.read(name, BYTES_MAX).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn changes_of_one_session_are_serialized() {
        let office = tempfile::tempdir().unwrap();
        let session: Session = "../../etc/passwd".parse().unwrap();
        assert_eq!(Live::load(office.path(), &session), None);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let counted = Live::change(office.path(), &session, |live| {
                            live.told.holds += 1;
                            Ok::<_, io::Error>(())
                        });
                        counted.unwrap();
                    }
                });
            }
        });
        assert_eq!(Live::load(office.path(), &session).unwrap().told.holds, 200);
        let path = path(office.path(), &session);
        assert_eq!(path.parent().unwrap(), office.path().join(FOLDER));
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        fs::write(&path, "no JSON").unwrap();
        assert_eq!(Live::load(office.path(), &session), None, "a damaged file counts as missing");
        Live::forget(office.path(), &session).unwrap();
        Live::forget(office.path(), &session).unwrap();
    }

    #[test]
    fn ended_sessions_are_swept_without_losing_locks() {
        let office = tempfile::tempdir().unwrap();
        let office = office.path();
        let live = || make_folder(office).unwrap();
        let own = poste_core::store::processes::written_down(std::process::id());
        let gone = SessionProcess { started_ms: own.started_ms.map(|ms| ms - 10), ..own.clone() };
        let name = |name: &str| -> Session { name.parse().unwrap() };
        let made = |session: &str, process: Option<&SessionProcess>, runs_as: Option<&str>| {
            let changed = Live::change(office, &name(session), |live| {
                live.process = process.cloned();
                live.runs_as = runs_as.map(name);
                Ok::<_, io::Error>(())
            });
            changed.unwrap();
        };
        made("live", None, None);
        made("points", None, Some("live"));
        made("unnamed", Some(&own), None);
        for left in ["crashed", "busy"] {
            made(left, Some(&gone), None);
        }
        made("over", None, None);
        Live::forget(office, &name("over")).unwrap(); // its lock stays
        made("live-and-crashed", Some(&gone), None);
        let held = locked(&live(), &file(&name("busy"), "lock"), PATIENCE).unwrap();
        let [old, new] = ["old", "new"].map(|name| office.join(FOLDER).join(name).with_extension("rung"));
        for file in [&old, &new] {
            fs::write(file, "").unwrap();
        }
        let hours_ago = std::time::SystemTime::now() - 2 * OLD;
        File::options().write(true).open(&old).unwrap().set_modified(hours_ago).unwrap();

        Live::sweep(office, &[name("live"), name("live-and-crashed")]).unwrap();
        let kept = |session: &str| path(office, &name(session)).with_extension("lock").exists();
        assert!(["live", "points", "unnamed", "busy"].into_iter().all(kept));
        assert!(!["crashed", "over", "live-and-crashed"].into_iter().any(kept));
        assert_eq!(Live::load(office, &name("crashed")), None);
        assert_eq!((old.exists(), new.exists()), (false, true));
        drop(held);

        // A waiter does not get a lock whose file was deleted while it waited.
        let lock = file(&name("busy"), "lock");
        let held = locked(&live(), &lock, PATIENCE).unwrap();
        let waits = thread::spawn({
            let (folder, lock) = (live(), lock.clone());
            move || locked(&folder, &lock, PATIENCE)
        });
        thread::sleep(Duration::from_millis(50));
        live().remove(&lock).unwrap();
        drop(held);
        let _theirs = waits.join().unwrap().unwrap();
        assert!(locked(&live(), &lock, Duration::ZERO).is_err());
    }
}
