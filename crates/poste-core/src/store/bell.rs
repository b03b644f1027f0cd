//! The bell: a file touched after each commit, which wakes whoever waits.
//!
//! Watching SQLite's own files does not work: with `synchronous=FULL` almost every commit is seen before it is
//! readable. The bell is rung after the commit and the lock, so a woken reader always finds the news.
//!
//! The bell is a shortcut, not a promise: a writer may die between commit and bell, and the system has few
//! inotify instances. Every waiter therefore also looks at `data_version` now and then.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;

use crate::log::Position;

/// How often a waiter that hears the bell looks anyway.
const BACKSTOP_PERIOD: Duration = Duration::from_millis(250);
/// How often one that cannot hear it looks.
const POLL_PERIOD: Duration = Duration::from_millis(40);

/// Touches the bell. A bell that cannot be rung costs waiters a moment, never a message.
///
/// It says the newest record it was ever rung for, because it is also a witness: see [`last_rung`].
pub(crate) fn ring(folder: &Path, position: Position) {
    if let Some(bell) = open(folder, OpenOptions::new().read(true).write(true)) {
        let newest = read(&bell).map_or(position, |rung| rung.max(position));
        let _ = bell.write_all_at(format!("{newest:<20}\n").as_bytes(), 0);
    }
}

/// The newest record the bell was rung for. It was committed then, so a log that ends before it has lost records:
/// SQLite drops a damaged end of its WAL without a word, and starts a new WAL where the old one is missing.
pub fn last_rung(folder: &Path) -> Option<Position> {
    read(&open(folder, OpenOptions::new().read(true))?)
}

/// Only ever a file of the office: a link could lead to any file of this user, and a pipe would make the opener wait.
fn open(folder: &Path, options: &mut OpenOptions) -> Option<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let bell = options.custom_flags(i32::try_from(flags.bits()).ok()?).open(folder.join("bell")).ok()?;
    bell.metadata().is_ok_and(|meta| meta.is_file()).then_some(bell)
}

fn read(bell: &File) -> Option<Position> {
    let mut text = [0; 20];
    bell.read_exact_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok().map(Position)
}

/// Hears the bell, if the system lets it. Arm it before the first look, or the first news is missed.
///
/// Keep it: the kernel takes some 5 ms to close an inotify instance, longer when it is busy, and whoever closes it
/// between the bell and the answer adds that to every message.
#[derive(Debug)]
pub struct Waiter {
    #[cfg(target_os = "linux")]
    inotify: Option<std::os::fd::OwnedFd>,
    /// The bell it listens to was deleted.
    deaf: AtomicBool,
}

impl Waiter {
    #[cfg(target_os = "linux")]
    pub fn arm(folder: &Path) -> Self {
        use rustix::fs::inotify;
        let armed = || -> rustix::io::Result<std::os::fd::OwnedFd> {
            let fd = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
            inotify::add_watch(&fd, folder.join("bell"), inotify::WatchFlags::MODIFY)?;
            Ok(fd)
        };
        Self { inotify: armed().ok(), deaf: AtomicBool::new(false) }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn arm(_: &Path) -> Self {
        Self { deaf: AtomicBool::new(false) }
    }

    /// Whether there is a new bell to listen to.
    pub(crate) fn is_deaf(&self) -> bool {
        self.deaf.load(Ordering::Relaxed)
    }

    /// Returns when the bell rings, when it is time to look anyway, or after `at_most`.
    #[cfg(target_os = "linux")]
    pub fn pause(&self, at_most: Duration) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let Some(fd) = &self.inotify else {
            std::thread::sleep(at_most.min(POLL_PERIOD));
            return;
        };
        let period = at_most.min(BACKSTOP_PERIOD);
        let timeout = Timespec {
            tv_sec: i64::try_from(period.as_secs()).unwrap_or(0),
            tv_nsec: i64::from(period.subsec_nanos()),
        };
        let mut polled = [PollFd::new(fd, PollFlags::IN)];
        if poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0) {
            // Several rings are one reason to look.
            let mut rings = [0_u8; 4_096];
            while let Ok(bytes) = rustix::io::read(fd, &mut rings)
                && bytes > 0
            {
                if rings[..bytes].chunks_exact(EVENT_BYTES).any(says_deleted) {
                    self.deaf.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn pause(&self, at_most: Duration) {
        std::thread::sleep(at_most.min(POLL_PERIOD).min(BACKSTOP_PERIOD));
    }
}

/// An event of a watched file has no name, so its length is fixed: watch, mask, cookie, length of the name.
#[cfg(target_os = "linux")]
const EVENT_BYTES: usize = 16;

#[cfg(target_os = "linux")]
fn says_deleted(event: &[u8]) -> bool {
    const IN_IGNORED: u32 = 0x8000;
    let mask = event.get(4..8).and_then(|mask| mask.try_into().ok()).map_or(0, u32::from_ne_bytes);
    mask & IN_IGNORED != 0
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_whose_bell_was_deleted_knows_it() {
        let folder = tempfile::tempdir().unwrap();
        let bell = folder.path().join("bell");
        std::fs::write(&bell, "").unwrap();
        let waiter = Waiter::arm(folder.path());
        ring(folder.path(), Position(1));
        waiter.pause(Duration::from_secs(5));
        assert!(!waiter.is_deaf());
        std::fs::remove_file(&bell).unwrap();
        waiter.pause(Duration::from_secs(5));
        assert!(waiter.is_deaf());
    }
}
