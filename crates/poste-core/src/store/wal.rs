//! Keeping the WAL short: it is copied into the database by the writer that finds it long, and nobody may make it grow
//! without end by reading without end.

use std::fs;
use std::time::Duration;

use super::{BUSY_TIMEOUT_MS, Store, processes};
use crate::error::Error;

/// The writer that finds more than this in the WAL checkpoints it first, so that a cold open stays cheap.
pub(crate) const WAL_BYTES_MAX: u64 = 512 * 1024;
/// As long as a process stays up, nobody opens its office cold: it may checkpoint a quarter as often.
pub(super) const WAL_BYTES_MAX_STAYING: u64 = 4 * WAL_BYTES_MAX;
/// A file that a reader made longer than this is cut once he is gone.
const WAL_FILE_BYTES_MAX: u64 = 8 * WAL_BYTES_MAX;
/// How long it may grow behind a reader, if the database is not longer.
pub(super) const WAL_BYTES_FULL_DEFAULT: u64 = 256 * 1024 * 1024;
/// A page and the header before it.
const WAL_PAGE_BYTES: u64 = 4096 + 24;
/// With a reader in the way a checkpoint stays unfinished; it is tried again after so many more pages.
const WAL_PAGES_RETRY: u64 = 32;
/// Readers an error names.
const READERS_NAMED_MAX: usize = 3;

impl Store {
    /// Copies the WAL into the database once much is in it. Called under the lock and before a write: SQLite then
    /// lets that write begin the WAL anew from its start. The file keeps its length, and syncing what is written over
    /// is half the work of syncing a file that grows.
    ///
    /// A reader in the way, or a sick disk, leaves it to the next writer: everything committed is in the WAL. Only when
    /// it has grown as long as the database behind that reader is the write refused, before the disk is full.
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

    /// How many pages are in the WAL, and how many of them are in the database too, if its file has more than so many
    /// bytes: what is in use is never longer than the file.
    fn wal_in_file_over(&self, bytes_max: u64) -> Option<(u64, u64)> {
        if self.wal_bytes() <= bytes_max {
            return None;
        }
        self.checkpoint("PRAGMA wal_checkpoint(NOOP)").ok()
    }

    /// Whether more than so many bytes of the WAL are in use.
    pub(super) fn is_wal_over(&self, bytes_max: u64) -> bool {
        self.wal_in_file_over(bytes_max).is_some_and(|(pages, _)| pages * WAL_PAGE_BYTES > bytes_max)
    }

    /// A long look takes as long as the database is large, so a large office gives its readers more room.
    fn is_full(&self, bytes: u64) -> bool {
        let database = || {
            let file = self.folder.as_ref().and_then(|folder| fs::metadata(folder.path.join("office.db")).ok());
            file.map_or(0, |meta| meta.len())
        };
        bytes > self.options.wal_bytes_full && bytes > database()
    }

    /// The length of the WAL; what is in use of it may be less.
    pub(crate) fn wal_bytes(&self) -> u64 {
        let Some(folder) = &self.folder else { return 0 };
        fs::metadata(folder.path.join("office.db-wal")).map_or(0, |meta| meta.len())
    }

    /// Empties the WAL into the database, if no reader is in the way. The caller holds the write lock.
    pub(crate) fn empty_wal(&self) {
        if sabotaged!(NoCheckpoint) {
            return;
        }
        let _ = self.conn.busy_timeout(Duration::ZERO);
        let _ = self.checkpoint("PRAGMA wal_checkpoint(TRUNCATE)");
        let _ = self.conn.busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS.into()));
    }

    /// How many pages are in the WAL, and how many of them are in the database too.
    fn checkpoint(&self, pragma: &'static str) -> rusqlite::Result<(u64, u64)> {
        self.conn.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))
    }

    /// Who has the database open, the oldest first: it is most likely the one that reads without end.
    fn readers(&self) -> String {
        let Some(folder) = &self.folder else { return "a reader".to_owned() };
        let openers = processes::who_has_open(&folder.path.join("office.db")).unwrap_or_default();
        let names: Vec<String> = openers.processes.iter().take(READERS_NAMED_MAX).map(ToString::to_string).collect();
        match names.is_empty() {
            true => "a reader".to_owned(),
            false => names.join(" or "),
        }
    }
}
