//! What this machine knows of a running session and the log does not need: how it can be reached, and what it was told.
//!
//! One small file a session, in the folder `live` of the office, for its owner's eyes only: it may hold the key to the
//! session's own socket, which must never be in the log. Whoever deletes it makes a session be told some things twice; nothing
//! is lost with it.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use poste_core::log::{MessageNo, Position, SessionProcess};
use poste_core::store::Locked;
use poste_core::store::processes::Presence;
use poste_core::text::{Name, Session};
use poste_core::views::Heard;
use poste_core::{Address, Timestamp};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::program::Program;

/// The folder, in that of the office.
pub const FOLDER: &str = "live";

/// Longer than any hook holds it that is not stopped or stuck.
const PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PERIOD: Duration = Duration::from_millis(2);
/// More than any of these files ever has.
const BYTES_MAX: u64 = 1024 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    pub session: Session,
    /// Whom it was bound to, once it was.
    #[serde(default)]
    pub agent: Option<Name>,
    #[serde(default)]
    pub program: Option<Program>,
    /// The program's process, which its server of tools is below, too.
    #[serde(default)]
    pub process: Option<SessionProcess>,
    /// The program's own name is that of a run which is over: it was resumed, and goes on as this session.
    #[serde(default)]
    pub runs_as: Option<Session>,
    #[serde(default)]
    pub reach: Reach,
    #[serde(default)]
    pub told: Told,
}

/// Ways into a running session. Only what its own hooks said of it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Reach {
    /// The inbox of a Claude Code session, and the word that opens it.
    pub socket: Option<PathBuf>,
    pub socket_token: Option<String>,
    /// The pane it runs in: `TMUX` (socket, server, session) and `TMUX_PANE`.
    pub tmux: Option<String>,
    pub tmux_pane: Option<String>,
    /// The thread of a Codex session.
    pub codex_thread: Option<String>,
    /// Where an OpenCode server listens, and its name for the session.
    pub opencode_url: Option<String>,
    pub opencode_session: Option<String>,
}

/// What was put before the session since it began or was compacted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// Every record up to here was looked at, with these addresses: only later ones can bring something new.
    pub looked_until: Option<Position>,
    pub addresses: Vec<Address>,
    /// It must look again by then, whatever the bell says: a lease is half over, or something falls due.
    pub look_again_at: Option<Timestamp>,
    /// Mail that was named in a line, without its body.
    pub listed: BTreeSet<MessageNo>,
    /// Mail whose body was put before it, while the office could not be written to: it is to be marked as shown.
    pub unmarked: BTreeSet<MessageNo>,
    /// How often in a row the session was kept from stopping.
    pub holds: u32,
}

impl Told {
    /// What it was told of, whenever it was looked for.
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
            told: Told::default(),
        }
    }

    /// As it was saved last; `None`: nothing is known of this session, or the file cannot be read.
    pub fn load(office: &Path, session: &Session) -> Option<Self> {
        let found: Self = serde_json::from_slice(&read(&path(office, session)).ok()?).ok()?;
        (found.session == *session).then_some(found)
    }

    /// The session whose program is one of these processes, the nearest first.
    pub fn of_process(office: &Path, processes: &[SessionProcess]) -> Option<Self> {
        let files = fs::read_dir(office.join(FOLDER)).ok()?.flatten().map(|entry| entry.path());
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
        let all = files.filter_map(|path| serde_json::from_slice::<Self>(&read(&path).ok()?).ok());
        let near = |live: &Self| processes.iter().position(|process| live.process.as_ref() == Some(process));
        all.filter_map(|live| Some((near(&live)?, live))).min_by_key(|(near, _)| *near).map(|(_, live)| live)
    }

    /// Changes it while nobody else does: hooks of one session may run side by side.
    pub fn change<T, E: From<io::Error>>(
        office: &Path,
        session: &Session,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        Self::change_within(office, session, PATIENCE, change)
    }

    /// As [`Live::change`], for somebody who has less time. `WouldBlock`: somebody else had it for so long.
    pub fn change_within<T, E: From<io::Error>>(
        office: &Path,
        session: &Session,
        patience: Duration,
        change: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let path = path(office, session);
        make_folder(office)?;
        let _lock = locked(&path.with_extension("lock"), patience)?;
        let before = Self::load(office, session);
        let mut live = before.clone().unwrap_or_else(|| Self::new(session.clone()));
        let done = change(&mut live)?;
        if before.as_ref() != Some(&live) {
            save(&path, &live)?;
        }
        Ok(done)
    }

    /// Clears away what is left of sessions that nobody runs any more, as far as nobody else uses it at this moment.
    pub fn sweep(office: &Path, live: &[Session]) -> io::Result<()> {
        let folder = office.join(FOLDER);
        let mut stems = BTreeSet::new();
        for path in fs::read_dir(&folder)?.flatten().map(|entry| entry.path()) {
            let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
            match extension {
                "json" | "lock" | "waiter" => stems.extend(path.file_stem().map(ToOwned::to_owned)),
                _ if is_old(&path) => remove_unused(&path)?,
                _ => {}
            }
        }
        for stem in stems {
            let path = folder.join(stem).with_extension("json");
            let is_live = live.iter().any(|session| self::path(office, session) == path);
            sweep_one(&path, is_live, live)?;
        }
        Ok(())
    }

    /// Everything is forgotten of a session that is over. Its locks stay until somebody sweeps: they may be waited for.
    pub fn forget(office: &Path, session: &Session) -> io::Result<()> {
        remove(&path(office, session))
    }
}

/// Names of sessions are the programs' own, so they are no names of files.
pub fn path(office: &Path, session: &Session) -> PathBuf {
    let name = blake3::hash(session.as_str().as_bytes()).to_hex();
    office.join(FOLDER).join(&name[..32]).with_extension("json")
}

pub(crate) fn make_folder(office: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(office.join(FOLDER)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn lock_file(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)
}

/// A locked file. There is no lock with a deadline, so it is tried again and again. `WouldBlock`: another one had it for so long.
pub(crate) fn locked(path: &Path, patience: Duration) -> io::Result<Locked> {
    let deadline = Instant::now() + patience;
    loop {
        match Locked::exclusive(lock_file(path)?) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock && Instant::now() < deadline => {
                thread::sleep(LOCK_PERIOD);
            }
            Err(error) => return Err(error),
            // What was swept away between the two steps, others do not find any more.
            Ok(lock) if is_at(&lock, path) => return Ok(lock),
            Ok(_) => {}
        }
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let place = |metadata: fs::Metadata| (metadata.dev(), metadata.ino());
    let found = fs::symlink_metadata(path).map(place);
    file.metadata().map(place).is_ok_and(|own| found.is_ok_and(|found| found == own))
}

/// A session that is not live by the log may still have a program that runs: it has no name, or another took over from it.
fn sweep_one(path: &Path, is_live: bool, live: &[Session]) -> io::Result<()> {
    let Ok(_lock) = locked(&path.with_extension("lock"), Duration::ZERO) else { return Ok(()) };
    let known: Option<Live> = read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let is_needed = match known.as_ref().map(|known| (Presence::of(known.process.as_ref()), &known.runs_as)) {
        Some((Presence::Running, _)) => true,
        Some((Presence::Gone, _)) => false,
        Some((Presence::Unknown, Some(run))) => is_live || live.contains(run),
        Some((Presence::Unknown, None)) | None => is_live,
    };
    if is_needed {
        return Ok(());
    }
    let waiter = path.with_extension("waiter");
    let Ok(_waiter) = locked(&waiter, Duration::ZERO) else { return Ok(()) };
    for file in [path, &waiter, &path.with_extension("lock")] {
        remove(file)?;
    }
    Ok(())
}

/// Longer than anybody needs what is no session's: a ring that was noted, a file that was not finished.
const OLD: Duration = Duration::from_secs(60 * 60);

fn is_old(path: &Path) -> bool {
    let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
    changed.is_ok_and(|changed| changed.elapsed().is_ok_and(|age| age > OLD))
}

fn remove_unused(path: &Path) -> io::Result<()> {
    match locked(path, Duration::ZERO) {
        Ok(_lock) => remove(path),
        Err(_) => Ok(()),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// In one step, and unsynced: it is only what this boot knows.
fn save(path: &Path, live: &Live) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".unfinished-").tempfile_in(folder)?; // 0600
    file.write_all(&serde_json::to_vec(live)?)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hooks_of_one_session_change_it_one_after_the_other() {
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
        assert_eq!(Live::load(office.path(), &session), None, "a damaged file is as good as none");
        Live::forget(office.path(), &session).unwrap();
        Live::forget(office.path(), &session).unwrap();
    }

    #[test]
    fn what_nobody_runs_any_more_is_swept_and_nobody_loses_a_lock() {
        let office = tempfile::tempdir().unwrap();
        let office = office.path();
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
        let held = locked(&path(office, &name("busy")).with_extension("lock"), PATIENCE).unwrap();
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

        // Whoever waited for a lock that is swept away meanwhile does not take what others no longer find for it.
        let lock = path(office, &name("busy")).with_extension("lock");
        let held = locked(&lock, PATIENCE).unwrap();
        let waits = thread::spawn({
            let lock = lock.clone();
            move || locked(&lock, PATIENCE)
        });
        thread::sleep(Duration::from_millis(50));
        remove(&lock).unwrap();
        drop(held);
        let _theirs = waits.join().unwrap().unwrap();
        assert!(locked(&lock, Duration::ZERO).is_err());
    }
}
