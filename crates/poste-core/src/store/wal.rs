//! Keeps the WAL short. A writer that finds it long copies it into the database, and a reader that never ends cannot
//! make it grow without limit.

use std::time::Duration;

use super::{BUSY_TIMEOUT_MS, Store, processes};
use crate::error::Error;

/// A writer that finds more than this in the WAL checkpoints first, so that a cold open stays cheap.
pub(crate) const WAL_BYTES_MAX: u64 = 512 * 1024;
/// While a process stays up, it never opens its office cold, so it may checkpoint a quarter as often.
pub(super) const WAL_BYTES_MAX_STAYING: u64 = 4 * WAL_BYTES_MAX;
/// A WAL file that grew longer than this behind a reader is truncated once the reader has ended.
const WAL_FILE_BYTES_MAX: u64 = 8 * WAL_BYTES_MAX;
/// How long the WAL may grow behind a reader, unless the database is longer.
pub(super) const WAL_BYTES_FULL_DEFAULT: u64 = 256 * 1024 * 1024;
/// A page and its frame header.
const WAL_PAGE_BYTES: u64 = 4096 + 24;
/// A reader can keep a checkpoint from finishing. It is retried after this many more pages.
const WAL_PAGES_RETRY: u64 = 32;
/// How many readers an error names.
const READERS_NAMED_MAX: usize = 3;

impl Store {
    /// Copies the WAL into the database once it is long. Called under the lock and before a write, because SQLite then
    /// lets that write start again at the beginning of the WAL. The file keeps its length, and syncing overwritten
    /// pages is half the work of syncing a growing file.
    ///
    /// If a reader or a failing disk prevents that, the next writer tries again: everything committed is in the WAL.
    /// The write is refused only when the WAL behind that reader has grown as long as the database, before the disk is
    /// full.
    pub(super) fn keep_wal_short(&self, bytes_max: u64) -> Result<(), Error> {
        let Some((pages, mut done)) = self.wal_in_file_over(bytes_max).filter(|_| !sabotaged!(NoCheckpoint)) else {
            return Ok(());
        };
        let bytes = pages * WAL_PAGE_BYTES;
        let is_full = self.is_full(bytes);
        let is_worth_it = done == 0 || pages - done >= WAL_PAGES_RETRY || is_full;
        if bytes > bytes_max
            && is_worth_it
            && let Ok((_, now)) = self.checkpoint("PRAGMA wal_checkpoint(PASSIVE)")
        {
            done = now;
        }
        if done < pages && is_full {
            return Err(Error::WalFull { bytes, readers: self.readers() });
        }
        if done == pages && self.wal_bytes() > WAL_FILE_BYTES_MAX {
            self.empty_wal();
        }
        Ok(())
    }

    /// How many pages are in the WAL and how many of them are already in the database, if the file is longer than
    /// `bytes_max`. The used part is never longer than the file, so a short file needs no query.
    fn wal_in_file_over(&self, bytes_max: u64) -> Option<(u64, u64)> {
        if self.wal_bytes() <= bytes_max {
            return None;
        }
        self.checkpoint("PRAGMA wal_checkpoint(NOOP)").ok()
    }

    /// Whether more than `bytes_max` bytes of the WAL are in use.
    pub(super) fn is_wal_over(&self, bytes_max: u64) -> bool {
        self.wal_in_file_over(bytes_max).is_some_and(|(pages, _)| pages * WAL_PAGE_BYTES > bytes_max)
    }

    /// A long read takes time in proportion to the database, so a large office gives its readers more room.
    fn is_full(&self, bytes: u64) -> bool {
        let database = || self.folder().map_or(0, |folder| folder.bytes_of("office.db"));
        bytes > self.options.wal_bytes_full && bytes > database()
    }

    /// The length of the WAL file. Less of it may be in use.
    pub(crate) fn wal_bytes(&self) -> u64 {
        self.folder().map_or(0, |folder| folder.bytes_of("office.db-wal"))
    }

    /// Empties the WAL into the database unless a reader prevents it. The caller holds the write lock.
    pub(crate) fn empty_wal(&self) {
        if sabotaged!(NoCheckpoint) {
            return;
        }
        let _ = self.conn.busy_timeout(Duration::ZERO);
        let _ = self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
        let _ = self.conn.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS.into()));
    }

    /// How many pages are in the WAL, and how many of them are already in the database.
    fn checkpoint(&self, pragma: &'static str) -> rusqlite::Result<(u64, u64)> {
        self.conn.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
    }

    /// The processes that have the database open, oldest first: the oldest is most likely the one that never stops
    /// reading.
    fn readers(&self) -> String {
        let Some(office) = self.path() else { return "a reader".to_owned() };
        let openers = processes::who_has_open(&office.join("office.db")).unwrap_or_default();
        let names: Vec<String> = openers.processes.iter().take(READERS_NAMED_MAX).map(ToString::to_string).collect();
        match names.is_empty() {
            true => "a reader".to_owned(),
            false => names.join(" or "),
        }
    }
}
