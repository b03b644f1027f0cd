//! The bell: a file that says the newest record that was ever committed, and the witness if it is lost.
//!
//! It is rung after the commit and the lock, and so are the [`waiters`](super::waiters) that the commit concerns: a
//! woken reader always finds the news. Watching SQLite's own files does not work: with `synchronous=FULL` almost every
//! commit is seen before it is readable.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::log::Position;

/// Writes down the newest record: see [`last_rung`]. A bell that cannot be rung costs nobody a message.
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
