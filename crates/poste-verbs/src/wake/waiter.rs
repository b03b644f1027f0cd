//! The waiter of a session: the one process that waits on its behalf. It holds a lock while it runs, which shows others
//! that it is there.
//!
//! Agent programs start a waiter at every turn, end each after a while and keep track of none. So the newest one gets
//! the place: it writes its number into the lock file, and the holder of the lock gives way.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use poste_core::store::tables::Concern;
use poste_core::store::{Folder, Locked, wake};
use poste_core::text::{Name, Session};
use rustix::fs::{FlockOperation, flock};

use crate::live;

/// Longer than a working waiter takes to give way, even if its ring was lost. A process that checks for a waiter also
/// holds the lock for a moment.
const PATIENCE: Duration = Duration::from_millis(500);
const TRIES: u32 = 16;

/// The place of the waiter. Dropping it frees the place.
#[derive(Debug)]
pub struct Place {
    _lock: Locked,
    folder: Folder,
    file: String,
    /// The number of this waiter within the session.
    pub nth: u64,
}

impl Place {
    /// Takes the place from its holder; or takes it again, for a waiter that held it under that number. `None`: a newer
    /// waiter has it, or the holder does not give way.
    pub fn take(office: &Path, agent: &Name, session: &Session, had_as: Option<u64>) -> io::Result<Option<Self>> {
        let folder = live::make_folder(office)?;
        let file = live::file(session, EXTENSION);
        let newest = newest(&folder, &file);
        let nth = had_as.unwrap_or(newest + 1);
        if newest > nth {
            return Ok(None);
        }
        announce(&folder.open_or_create(&file)?, nth)?;
        // The holder waits for mail of the agent, and checks then whether it has to give way.
        wake(office, Concern::Agent(agent.clone()));
        // A newer waiter may get the lock first and keep it.
        for _ in 0..TRIES {
            let lock = match live::locked(&folder, &file, PATIENCE) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self::newest(&folder, &file) <= nth => {
                    continue;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                lock => lock?,
            };
            let place = Self { _lock: lock, folder, file, nth };
            return Ok((!place.is_wanted()).then_some(place));
        }
        Ok(None)
    }

    /// Whether a newer waiter wants the place.
    pub fn is_wanted(&self) -> bool {
        newest(&self.folder, &self.file) > self.nth
    }
}

const EXTENSION: &str = "waiter";

fn announce(file: &File, nth: u64) -> io::Result<()> {
    file.write_all_at(format!("{nth:<20}\n").as_bytes(), 0)
}

/// The number of the newest waiter; 0: none.
fn newest(folder: &Folder, file: &str) -> u64 {
    let mut text = [0; 20];
    let read = folder.open_to_read(file).and_then(|file| file.read_exact_at(&mut text, 0));
    let text = str::from_utf8(&text).ok().filter(|_| read.is_ok());
    text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

fn open(office: &Path, session: &Session) -> io::Result<File> {
    live::folder(office)?.open_to_read(live::file(session, EXTENSION))
}

/// Whether a session has a waiter that hears the bell. Finding out takes the lock for a moment.
pub fn is_waiting(office: &Path, session: &Session) -> bool {
    let Ok(file) = open(office, session) else { return false };
    flock(&file, FlockOperation::NonBlockingLockShared).is_err_and(|error| error == rustix::io::Errno::WOULDBLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent() -> Name {
        "coder".parse().expect("a name")
    }

    #[test]
    fn a_waiter_is_found_while_it_holds_the_place() {
        let office = tempfile::tempdir().expect("a folder");
        let session: Session = "s1".parse().expect("a session");
        assert!(!is_waiting(office.path(), &session));
        let place = Place::take(office.path(), &agent(), &session, None).expect("asked").expect("the place is free");
        assert!(is_waiting(office.path(), &session));
        drop(place);
        assert!(!is_waiting(office.path(), &session), "a leftover lock file is not a waiter");
    }

    #[test]
    fn the_newest_has_the_place_and_the_one_before_gives_way() {
        let office = tempfile::tempdir().expect("a folder");
        let session: Session = "s1".parse().expect("a session");
        let take = |had_as| Place::take(office.path(), &agent(), &session, had_as).expect("asked");
        let first = take(None).expect("the place is free");
        assert!(!first.is_wanted());
        std::thread::scope(|scope| {
            let second = scope.spawn(|| take(None));
            while !first.is_wanted() {
                std::thread::yield_now();
            }
            let nth = first.nth;
            drop(first);
            let second = second.join().expect("it ends").expect("the place");
            assert_eq!(second.nth, nth + 1);
            assert!(take(Some(nth)).is_none(), "the first does not take it back");
            let nth = second.nth;
            drop(second);
            assert_eq!(take(Some(nth)).expect("the same one again").nth, nth);
        });
    }

    #[test]
    fn checking_for_a_waiter_keeps_none_from_waiting() {
        let office = tempfile::tempdir().expect("a folder");
        let session: Session = "s1".parse().expect("a session");
        drop(Place::take(office.path(), &agent(), &session, None));
        let asked = open(office.path(), &session).expect("there");
        flock(&asked, FlockOperation::LockShared).expect("asked");
        let lets_go = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(asked);
        });
        assert!(Place::take(office.path(), &agent(), &session, None).expect("asked").is_some());
        lets_go.join().expect("it ends");
    }
}
