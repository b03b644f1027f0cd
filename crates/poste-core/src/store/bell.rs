//! The bell: a file that names the newest committed record, and proves its loss if the log ends before it.
//!
//! It is rung after the commit and after the lock is released, together with the [`waiters`](super::waiters) that the
//! commit concerns, so a woken reader always finds the new records. Watching SQLite's own files does not work: with
//! `synchronous=FULL`, nearly every commit can be seen before it can be read.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::log::Position;

/// Writes the position of the newest record, for [`last_rung`]. A bell that cannot be rung loses no message.
pub(crate) fn ring(folder: &Path, position: Position) {
    if let Some(bell) = open(folder, OpenOptions::new().read(true).write(true)) {
        let newest = read(&bell).map_or(position, |rung| rung.max(position));
        let _ = bell.write_all_at(format!("{newest:<20}\n").as_bytes(), 0);
    }
}

/// The newest record that the bell was rung for. It was committed at that time, so a log that ends before it has lost
/// records: SQLite silently drops a damaged end of its WAL, and starts a new WAL if the old one is missing.
pub fn last_rung(folder: &Path) -> Option<Position> {
    read(&open(folder, OpenOptions::new().read(true))?)
}

/// Opens regular files only: a symlink could lead to any file of this user, and opening a pipe would block.
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
