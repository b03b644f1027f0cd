//! The files of an office on this machine (database, write lock, bell and blobs) together with the machine's clocks.
//! Every engine that orders the log writes through them.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::TransactionBehavior;

use super::archive::is_archive_name;
use super::blobs::Blobs;
use super::clock::{self, Clock, Reading};
use super::lock::{WriteGuard, WriteLock};
use super::tables::{Changes, Concerns, Tables};
use super::waiters::{self, Waiter};
use super::{Folder, Options, Store, WAL_BYTES_MAX, bell};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Code, Outcome, Rejection, Verdict};
use crate::limits;
use crate::log::{Intent, Position, Sealed};
use crate::time::Timestamp;

#[derive(Debug)]
pub(crate) struct OfficeFiles {
    pub(super) store: Store,
    /// `None` for in-memory tables, which no other process can open.
    lock: Option<WriteLock>,
    clock: Arc<dyn Clock>,
    /// Set after a failed commit. That connection is not trusted again; the next write opens a new one.
    pub(super) broken: bool,
    /// How often this process has written.
    writes: u32,
    /// Changes that were committed but not yet taken.
    changes: Changes,
    /// The waiter of the last wait, kept for the next one.
    waiter: RefCell<Option<Waiter>>,
}

impl OfficeFiles {
    pub(crate) fn open(path: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, Error> {
        let store = Store::open(path, options)?;
        let lock = store.folder().map(|folder| WriteLock::new(folder, &store.options.program));
        Ok(Self::new(store, lock, clock))
    }

    /// In-memory tables have no other writer, and so no lock.
    pub(super) fn in_memory(store: Store, clock: Arc<dyn Clock>) -> Self {
        Self::new(store, None, clock)
    }

    fn new(store: Store, lock: Option<WriteLock>, clock: Arc<dyn Clock>) -> Self {
        Self { store, lock, clock, broken: false, writes: 0, changes: Changes::default(), waiter: RefCell::default() }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The folder of the office; in-memory tables have none.
    pub(crate) fn folder(&self) -> Result<&Folder, Error> {
        self.store.folder().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))
    }

    pub(crate) fn take_waiter(&self) -> Result<Waiter, Error> {
        let kept = self.waiter.take();
        kept.map_or_else(|| Ok(Waiter::new(self.folder()?)), Ok)
    }

    pub(crate) fn keep_waiter(&self, waiter: Waiter) {
        self.waiter.replace(Some(waiter));
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The time that the next record would have.
    pub(crate) fn reading(&self) -> Result<Reading, Error> {
        let head = self.store.tables()?.cursor.head;
        let remembered = clock::remembered(self.store.conn())?;
        Ok(clock::read(self.clock.as_ref(), head.at, remembered.as_ref()))
    }

    /// Stores that this machine's `poste.toml` is based on this policy version.
    pub(crate) fn see_policy(&mut self, version: u64) -> Result<(), Error> {
        let _guard = self.hold()?;
        let transaction = rusqlite::Transaction::new_unchecked(&self.store.conn, TransactionBehavior::Immediate)?;
        self.store.version()?.may_write(self.store.options.schema.version())?;
        transaction.execute("UPDATE machine SET policy_seen = ?1 WHERE one = 1", [version])?;
        transaction.commit()?;
        Ok(())
    }

    /// The bell rings after a commit, so a log that ends before it has lost records. Further writes would reuse their
    /// positions, and the loss could no longer be detected.
    pub(super) fn check_nothing_lost(&self, end: Position) -> Result<(), Error> {
        match self.store.last_rung().filter(|rung| *rung > end) {
            Some(stored) if !sabotaged!(BellBeforeCommit) => Err(Error::Lost { stored: stored.0, end: end.0 }),
            _ => Ok(()),
        }
    }

    /// Whether this process writes repeatedly: a server, not a command.
    pub(super) fn stays(&self) -> bool {
        self.writes >= WRITES_OF_A_COMMAND_MAX
    }

    /// A process that let the WAL grow shortens it before it exits, because the next open may be a cold one.
    fn shorten_wal(&self) {
        if !self.stays() || self.broken || !self.store.is_wal_over(WAL_BYTES_MAX) {
            return;
        }
        if let Ok(_guard) = self.acquire(Duration::ZERO)
            && self.store.check_identity().is_ok()
        {
            self.store.empty_wal();
        }
    }

    /// Replaces the connection after a failed commit.
    pub(super) fn mend(&mut self) -> Result<(), Error> {
        if let Some(path) = self.store.path().filter(|_| self.broken) {
            self.store = Store::open(path, self.store.options.clone())?;
        }
        self.broken = false;
        Ok(())
    }

    /// Keeps every writer out until the guard is dropped.
    pub(crate) fn hold(&self) -> Result<Option<WriteGuard>, Error> {
        let guard = self.acquire(self.store.options.lock_timeout)?;
        self.store.check_identity()?;
        Ok(guard)
    }

    pub(super) fn acquire(&self, patience: Duration) -> Result<Option<WriteGuard>, Error> {
        self.lock.as_ref().map(|lock| lock.acquire(patience)).transpose()
    }

    /// Called after a commit, when the lock has been released.
    pub(super) fn wrote(&mut self, position: Position, at: Timestamp, changes: Changes) {
        self.writes = self.writes.saturating_add(1);
        if !sabotaged!(BellBeforeCommit) {
            self.ring(position, at, &changes);
        }
        self.changes.absorb(changes);
    }

    /// The changes committed since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Every waiter sleeps until the next due time that it knows of. So something that is due before their next regular
    /// look must wake all of them.
    pub(super) fn ring(&self, position: Position, at: Timestamp, changes: &Changes) {
        let Some(folder) = self.store.folder() else { return };
        bell::ring(folder, position);
        match changes.falls_due_before(at.plus_ms(waiters::BACKSTOP_MS)) {
            true => waiters::ring(folder, &Concerns::everything(), position.0),
            false => waiters::ring(folder, &changes.concerns, position.0),
        }
    }

    /// Large content is safely on disk before the record that names it. It is written before the lock is taken, because
    /// it takes long.
    pub(super) fn put_blobs<'a>(&self, proposals: impl IntoIterator<Item = &'a Sealed> + Clone) -> Result<(), Error> {
        self.each_large(proposals, |blobs, bytes, _| blobs.put(bytes).map(|_| ()))
    }

    /// Processes that erase, or remove blobs that no record names, hold the lock. So a blob that exists under
    /// the lock still exists when the record is committed, and content removed since it was written is written again.
    pub(super) fn keep_blobs<'a>(&self, proposals: impl IntoIterator<Item = &'a Sealed> + Clone) -> Result<(), Error> {
        self.each_large(proposals, |blobs, bytes, digest| match blobs.has(digest)? {
            true => Ok(()),
            false => blobs.put(bytes).map(|_| ()),
        })
    }

    /// A new record must not name a file that is missing from the office. This machine refuses it before the fold does:
    /// another machine may have the file, and a log that is ordered elsewhere delivers records before their files.
    pub(super) fn lacks_file(
        &self,
        tables: &Tables<'_>,
        sealed: &Sealed,
        at: Timestamp,
    ) -> Result<Option<Outcome>, Error> {
        let lacking = match self.lacks_attachment(sealed)? {
            None => self.lacks_archive(tables, sealed)?,
            lacking => lacking,
        };
        let id = &sealed.envelope.id;
        let Some(rejection) = lacking else { return Ok(None) };
        if tables.id(id)?.is_some() {
            return Ok(None); // a repeat gets the original answer
        }
        let verdict = Verdict::Rejected(rejection);
        Ok(Some(Outcome { id: id.clone(), position: None, at, repeat: false, verdict }))
    }

    fn lacks_attachment(&self, sealed: &Sealed) -> Result<Option<Rejection>, Error> {
        let Some(blobs) = self.store.blobs() else { return Ok(None) };
        for artifact in sealed.attached() {
            if artifact.digest.map_or(Ok(true), |digest| blobs.has(&digest))? {
                continue;
            }
            let reason = format!("{}: its copy is not in the office; attach it again", artifact.path);
            return Ok(Some(Rejection { code: Code::Malformed, reason }));
        }
        Ok(None)
    }

    /// This record removes the messages from the database, so the archive must be intact. Its writer has released the
    /// lock since, and `poste doctor`, which takes the lock, may have removed the file as a leftover.
    fn lacks_archive(&self, tables: &Tables<'_>, sealed: &Sealed) -> Result<Option<Rejection>, Error> {
        let Some(archives) = self.store.archives() else { return Ok(None) };
        if sealed.envelope.name != "conversation.archive" {
            return Ok(None);
        }
        let Ok(Some(Intent::Archive(archive))) = sealed.intent() else { return Ok(None) };
        if !is_archive_name(&archive.file) || tables.has_archive_file(&archive.file)? {
            return Ok(None); // the fold refuses it, and a file of such a name must not be opened
        }
        let reason = match archives.is_whole(&archive) {
            Ok(true) => return Ok(None),
            Ok(false) => format!("the archive {} is not the file that was written", archive.file),
            Err(Error::Damaged(damage)) => damage,
            Err(error) => return Err(error),
        };
        Ok(Some(Rejection { code: Code::NotFinished, reason: format!("{reason}; archive again") }))
    }

    fn each_large<'a>(
        &self,
        proposals: impl IntoIterator<Item = &'a Sealed> + Clone,
        visit: impl Fn(&Blobs, &[u8], &Digest) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let large: Vec<&Sealed> = proposals.clone().into_iter().filter(|sealed| is_large(sealed)).collect();
        if large.is_empty() {
            return Ok(());
        }
        // Content that the fold will refuse for its size, or already has, is not written at all. The limit applies to
        // messages only, since results may be larger, and a policy among the proposals may raise it.
        let tables = self.store.tables()?;
        let raises_it = proposals.into_iter().any(|sealed| matches!(sealed.intent(), Ok(Some(Intent::Policy(_)))));
        let limit = tables.policy()?.settings.content_bytes_max.filter(|_| !raises_it).unwrap_or(u64::MAX);
        for sealed in large {
            let (Some(content), Some(named), Some(blobs)) =
                (&sealed.content, &sealed.envelope.content, self.store.blobs())
            else {
                continue;
            };
            let is_message = sealed.intent().ok().flatten().is_some_and(|intent| intent.mail().is_some());
            let is_refused = is_message && content.bytes.len() as u64 > limit;
            if !is_refused && tables.id(&sealed.envelope.id)?.is_none() {
                visit(blobs, &content.bytes, &named.digest)?;
            }
        }
        Ok(())
    }
}

impl Drop for OfficeFiles {
    fn drop(&mut self) {
        self.shorten_wal();
    }
}

/// Whether the content is too large for a row of its own.
pub(super) fn is_large(sealed: &Sealed) -> bool {
    sealed.content.as_ref().is_some_and(|content| content.bytes.len() > limits::CONTENT_INLINE_BYTES_MAX)
}

/// A command writes at most a few times.
const WRITES_OF_A_COMMAND_MAX: u32 = 32;
