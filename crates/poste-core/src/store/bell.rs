//! The bell: a file touched after each commit, which wakes whoever waits.
//!
//! Watching SQLite's own files does not work: with `synchronous=FULL` almost every commit is seen before it is
//! readable. The bell is rung after the commit and the lock, so a woken reader always finds the news.
//!
//! The bell is a shortcut, not a promise: a writer may die between commit and bell, and the system has few
//! inotify instances. Every waiter therefore also looks at `data_version` now and then.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use crate::log::Position;

/// How often a waiter that hears the bell looks anyway.
const BACKSTOP_PERIOD: Duration = Duration::from_millis(250);
/// How often one that cannot hear it looks.
const POLL_PERIOD: Duration = Duration::from_millis(40);

/// Touches the bell. A bell that cannot be rung costs waiters a moment, never a message.
///
/// It says the newest record it was ever rung for, because it is also a witness: see [`last_rung`].
pub(crate) fn ring(folder: &Path, position: Position) {
    if let Ok(bell) = OpenOptions::new().read(true).write(true).open(folder.join("bell")) {
        let newest = read(&bell).map_or(position, |rung| rung.max(position));
        let _ = bell.write_all_at(format!("{newest:<20}\n").as_bytes(), 0);
    }
}

/// The newest record the bell was rung for. It was committed then, so a log that ends before it has lost records:
/// SQLite drops a damaged end of its WAL without a word, and starts a new WAL where the old one is missing.
pub(crate) fn last_rung(folder: &Path) -> Option<Position> {
    read(&File::open(folder.join("bell")).ok()?)
}

fn read(bell: &File) -> Option<Position> {
    let mut text = [0; 20];
    bell.read_exact_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok().map(Position)
}

/// Hears the bell, if the system lets it. Arm it before the first look, or the first news is missed.
#[derive(Debug)]
pub struct Waiter {
    #[cfg(target_os = "linux")]
    inotify: Option<std::os::fd::OwnedFd>,
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
        Self { inotify: armed().ok() }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn arm(_: &Path) -> Self {
        Self {}
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
            while rustix::io::read(fd, &mut rings).is_ok_and(|bytes| bytes > 0) {}
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub fn pause(&self, at_most: Duration) {
        std::thread::sleep(at_most.min(POLL_PERIOD).min(BACKSTOP_PERIOD));
    }
}
