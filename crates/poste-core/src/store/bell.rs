//! The bell: a file that names the newest committed record, and proves its loss if the log ends before it.
//!
//! It is rung after the commit and after the lock is released, together with the [`waiters`](super::waiters) that the
//! commit concerns, so a woken reader always finds the new records. Watching SQLite's own files does not work: with
//! `synchronous=FULL`, nearly every commit can be seen before it can be read.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::Folder;
use crate::log::Position;

/// Writes the position of the newest record, for [`last_rung`]. A bell that cannot be rung loses no message.
pub(crate) fn ring(office: &Folder, position: Position) {
    if let Ok(bell) = office.open_to_write(NAME) {
        let newest = read(&bell).map_or(position, |rung| rung.max(position));
        let _ = bell.write_all_at(format!("{newest:<20}\n").as_bytes(), 0);
    }
}

/// The newest record that the bell was rung for. It was committed at that time, so a log that ends before it has lost
/// records: SQLite silently drops a damaged end of its WAL, and starts a new WAL if the old one is missing.
pub fn last_rung(office: &Folder) -> Option<Position> {
    read(&office.open_to_read(NAME).ok()?)
}

const NAME: &str = "bell";

fn read(bell: &File) -> Option<Position> {
    let mut text = [0; 20];
    bell.read_exact_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok().map(Position)
}
