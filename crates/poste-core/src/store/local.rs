//! The local log: append and fold in one SQLite transaction.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::TransactionBehavior;

use super::archive::is_archive_name;
use super::blobs::Blobs;
use super::clock::{self, Clock, Reading};
use super::lock::{WriteGuard, WriteLock};
use super::schema::FileVersion;
use super::tables::Tables;
use super::{Options, Store, WAL_BYTES_MAX, WAL_BYTES_MAX_STAYING, Waiter, bell, erase};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Code, FOLD_VERSION, Outcome, Refusals, Rejection, Verdict, fold};
use crate::limits;
use crate::log::{Artifact, Barrier, Clock as ClockLeap, Head, Intent, Log, Position, Proposal, Record, Sealed, Tick};
use crate::text::{Name, RecordId};
use crate::time::Timestamp;

/// Between two looks whether a reader is gone at last.
const READER_PAUSE: Duration = Duration::from_millis(25);

#[derive(Debug)]
pub struct LocalLog {
    pub(super) store: Store,
    pub(super) lock: WriteLock,
    clock: Arc<dyn Clock>,
    pub(super) path: PathBuf,
    /// After a failed commit the connection is not trusted again; the next write opens a new one.
    broken: bool,
    /// How often this process wrote.
    writes: u32,
    /// What was answered and is not committed yet.
    #[cfg(feature = "sabotage")]
    late: Vec<Sealed>,
    /// Armed by the first who waits and kept.
    waiter: RefCell<Option<Arc<Waiter>>>,
}

impl LocalLog {
    /// Makes an office, or finds it there. Returns whether it was made.
    pub fn create(path: &Path, clock: &Arc<dyn Clock>, options: &Options) -> Result<bool, Error> {
        let machine = uuid::Uuid::new_v4().simple().to_string();
        Store::create(path, options, |conn| {
            super::schema::set_meta(conn, "office", uuid::Uuid::new_v4().to_string())?;
            conn.execute(
                "INSERT INTO machine (one, name, boot_id, boot_ms, at, policy_seen, erased_to)
                 VALUES (1, ?1, '', 0, 0, 0, 0)",
                [&machine],
            )?;
            let barrier =
                Intent::Barrier(Barrier { fold_version: FOLD_VERSION, reason: "the office opens".to_owned() });
            let mut tables = Tables::load(conn)?;
            let at = clock.wall();
            append_own(&mut tables, at, barrier)?;
            clock::remember(conn, &clock.boot(), at)?;
            tables.flush()
        })
    }

    pub fn open(path: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, Error> {
        let lock = WriteLock::new(path, &options.program);
        let store = Store::open(path, options)?;
        Ok(Self {
            store,
            lock,
            clock,
            path: path.to_owned(),
            broken: false,
            writes: 0,
            waiter: RefCell::default(),
            #[cfg(feature = "sabotage")]
            late: Vec::new(),
        })
    }

    /// Hears the bell of this office.
    pub(crate) fn waiter(&self) -> Arc<Waiter> {
        let mut waiter = self.waiter.borrow_mut();
        match waiter.as_ref().filter(|waiter| !waiter.is_deaf()) {
            Some(armed) => armed.clone(),
            None => waiter.insert(Arc::new(Waiter::arm(&self.path))).clone(),
        }
    }

    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// What time the next record would have.
    pub fn reading(&self) -> Result<Reading, Error> {
        let head = self.store.tables()?.cursor.head;
        let remembered = clock::remembered(self.store.conn())?;
        Ok(clock::read(self.clock.as_ref(), head.at, remembered.as_ref()))
    }

    /// Settles what is due, if anything is. One look at one index when nothing is.
    ///
    /// On behalf of a reader: whoever holds the lock settles it anyway, and a view can be told apart as unconfirmed.
    pub fn settle(&mut self) -> Result<(), Error> {
        self.settle_within(Duration::ZERO)
    }

    /// As [`LocalLog::settle`], for somebody who would rather wait.
    pub(crate) fn settle_patiently(&mut self) -> Result<(), Error> {
        self.settle_within(self.store.options.lock_timeout)
    }

    fn settle_within(&mut self, patience: Duration) -> Result<(), Error> {
        let Some(due) = self.store.tables()?.next_due()? else { return Ok(()) };
        if self.reading()?.for_views() < due {
            return Ok(());
        }
        self.write(Vec::new(), None, patience).map(|_| ())
    }

    /// Remembers that this machine's `poste.toml` stands on this policy version.
    pub fn see_policy(&mut self, version: u64) -> Result<(), Error> {
        let _guard = self.lock.acquire(self.store.options.lock_timeout)?;
        self.store.check_identity()?;
        let transaction = rusqlite::Transaction::new_unchecked(&self.store.conn, TransactionBehavior::Immediate)?;
        self.store.version()?.may_write(self.store.options.schema.version())?;
        transaction.execute("UPDATE machine SET policy_seen = ?1 WHERE one = 1", [version])?;
        transaction.commit()?;
        Ok(())
    }

    /// Takes a leap of more than a day, in the name of whoever accepts it.
    pub fn accept_clock(&mut self, actor: &Name) -> Result<Option<i64>, Error> {
        match self.reading()? {
            Reading::TooFar { leap_ms, .. } => {
                self.write(Vec::new(), Some(actor), self.store.options.lock_timeout)?;
                Ok(Some(leap_ms))
            }
            Reading::Now(_) | Reading::Leap { .. } => Ok(None),
        }
    }

    /// Writes, after settling what is due. If much is due, others get their turn in between.
    fn write(
        &mut self,
        proposals: Vec<Sealed>,
        accepts_leap: Option<&Name>,
        patience: Duration,
    ) -> Result<Vec<Outcome>, Error> {
        if self.store.is_read_only() {
            return Err(Error::ReadOnly(self.path.clone()));
        }
        let late_blobs = sabotaged!(BlobAfterRecord).then(|| proposals.clone());
        if late_blobs.is_none() {
            self.put_blobs(&proposals)?;
        }
        let mut waiting = Some(proposals);
        let started = Instant::now();
        loop {
            match self.write_once(&mut waiting, accepts_leap, patience) {
                Ok(None) => {}
                Ok(Some(outcomes)) => {
                    if let Some(proposals) = late_blobs {
                        self.put_blobs(&proposals)?;
                    }
                    return Ok(outcomes);
                }
                // Without the lock: whoever else waits for it is to hear of the reader, not of this writer.
                Err(Error::WalFull { .. }) if started.elapsed() < patience => thread::sleep(READER_PAUSE),
                Err(error) => return Err(error),
            }
        }
    }

    /// The write path: lock, transaction, checks, time, ticks, append and fold, commit, bell.
    ///
    /// `None`: so much was due that this transaction only settled a part of it; the proposals still wait.
    fn write_once(
        &mut self,
        waiting: &mut Option<Vec<Sealed>>,
        accepts_leap: Option<&Name>,
        patience: Duration,
    ) -> Result<Option<Vec<Outcome>>, Error> {
        self.mend()?;
        let guard = self.lock.acquire(patience)?;
        self.store.check_identity()?;
        if !sabotaged!(BlobAfterRecord) {
            self.keep_blobs(waiting.as_deref().unwrap_or_default())?;
        }
        self.store.check_room()?;
        self.store.keep_wal_short(if self.stays() { WAL_BYTES_MAX_STAYING } else { WAL_BYTES_MAX })?;
        let ours = self.store.options.schema.version();
        let transaction = rusqlite::Transaction::new_unchecked(&self.store.conn, TransactionBehavior::Immediate)?;
        FileVersion::may_still_write(&transaction, ours)?;

        let mut tables = Tables::load(&transaction)?;
        self.check_nothing_lost(tables.cursor.head.position)?;
        let at = self.take_time(&mut tables, accepts_leap)?;
        let all_settled = settle_due(&mut tables, at)?;
        let proposals = if all_settled { waiting.take() } else { None };
        let mut ids = Vec::new();
        let mut redacted = Vec::new();
        let outcomes = match proposals {
            None => None,
            Some(proposals) => {
                let mut outcomes = Vec::with_capacity(proposals.len());
                for sealed in proposals {
                    ids.push(sealed.envelope.id.clone());
                    let record = Record { position: tables.cursor.head.position.next(), at, sealed };
                    let outcome = match self.lacks_file(&tables, &record)? {
                        None => fold(&mut tables, &record, Refusals::Dropped)?,
                        Some(refusal) => refusal,
                    };
                    if let (true, Some(position)) = (outcome.repeat, outcome.position)
                        && tables.redaction(position)?.is_some()
                    {
                        redacted.push(record.sealed);
                    }
                    outcomes.push(outcome);
                }
                Some(outcomes)
            }
        };

        for sealed in &redacted {
            erase::erase_again(&self.store, sealed)?;
        }
        let position = tables.cursor.head.position;
        if !tables.changed() {
            return Ok(outcomes); // nothing was written: the transaction rolls back
        }
        clock::remember(&transaction, &self.clock.boot(), at)?;
        let late_cursor = sabotaged!(CursorOutsideTransaction).then(|| tables.cursor.clone());
        if late_cursor.is_none() {
            tables.flush()?;
        }
        drop(tables);
        if sabotaged!(BellBeforeCommit) {
            bell::ring(&self.path, position);
        }
        #[cfg(feature = "sabotage")]
        if !self.late.is_empty() {
            return Ok(outcomes); // answered, and committed when the office is closed
        }
        if let Err(error) = transaction.commit() {
            self.broken = true;
            if !sabotaged!(CommitErrorIgnored) {
                return Err(commit_failed(ids, error));
            }
        }
        if let Some(cursor) = late_cursor {
            let mut tables = Tables::load(&self.store.conn)?;
            tables.cursor = cursor;
            tables.flush()?;
        }
        drop(guard);
        self.writes = self.writes.saturating_add(1);
        if !sabotaged!(BellBeforeCommit) {
            bell::ring(&self.path, position);
        }
        Ok(outcomes)
    }

    /// The bell rings after a commit, so a log that ends before it has lost records. Writing on would give their numbers
    /// to others, and nobody could tell any more.
    fn check_nothing_lost(&self, end: Position) -> Result<(), Error> {
        match bell::last_rung(&self.path).filter(|rung| *rung > end) {
            Some(stored) if !sabotaged!(BellBeforeCommit) => Err(Error::Lost { stored: stored.0, end: end.0 }),
            _ => Ok(()),
        }
    }

    /// Whether this process writes again and again: a server, not a command.
    fn stays(&self) -> bool {
        self.writes >= WRITES_OF_A_COMMAND_MAX
    }

    /// Whoever let the WAL grow makes it short again before it goes, since the next open may be a cold one.
    fn shorten_wal(&self) {
        if !self.stays() || self.broken || !self.store.is_wal_over(WAL_BYTES_MAX) {
            return;
        }
        if let Ok(_guard) = self.lock.acquire(Duration::ZERO)
            && self.store.check_identity().is_ok()
        {
            self.store.empty_wal();
        }
    }

    /// After a failed commit the connection is not trusted again.
    pub(super) fn mend(&mut self) -> Result<(), Error> {
        if self.broken {
            self.store = Store::open(&self.path, self.store.options.clone())?;
            self.broken = false;
        }
        Ok(())
    }

    /// Keeps every writer out until the guard is dropped.
    pub(crate) fn hold(&self) -> Result<WriteGuard, Error> {
        let guard = self.lock.acquire(self.store.options.lock_timeout)?;
        self.store.check_identity()?;
        Ok(guard)
    }

    /// Large content is safe on disk before the record that names it. It is written before the lock is taken, since
    /// that takes long.
    fn put_blobs(&self, proposals: &[Sealed]) -> Result<(), Error> {
        self.each_large(proposals, |blobs, bytes, _| blobs.put(bytes).map(|_| ()))
    }

    /// Whoever erases, or clears away blobs that no record names, holds the lock while doing so. What is here under the
    /// lock is therefore here when the record is, and content that went since it was written is written again.
    fn keep_blobs(&self, proposals: &[Sealed]) -> Result<(), Error> {
        self.each_large(proposals, |blobs, bytes, digest| match blobs.has(digest) {
            true => Ok(()),
            false => blobs.put(bytes).map(|_| ()),
        })
    }

    /// A new record may not name a file that is not in the office. This machine's own refusal, before the fold: another
    /// one may have the file, and a log that is ordered elsewhere brings records before their files.
    fn lacks_file(&self, tables: &Tables<'_>, record: &Record) -> Result<Option<Outcome>, Error> {
        let lacking = match self.lacks_attachment(record) {
            None => self.lacks_archive(tables, record)?,
            lacking => lacking,
        };
        let id = &record.sealed.envelope.id;
        let Some(rejection) = lacking else { return Ok(None) };
        if tables.id(id)?.is_some() {
            return Ok(None); // a repeat is answered as what it was
        }
        let verdict = Verdict::Rejected(rejection);
        Ok(Some(Outcome { id: id.clone(), position: None, at: record.at, repeat: false, verdict }))
    }

    fn lacks_attachment(&self, record: &Record) -> Option<Rejection> {
        let blobs = self.store.blobs()?;
        let gone = |artifact: &Artifact| artifact.digest.is_some_and(|digest| !blobs.has(&digest));
        let gone = record.sealed.attached().into_iter().find(gone)?;
        let reason = format!("{}: its copy is not in the office; attach it again", gone.path);
        Some(Rejection { code: Code::Malformed, reason })
    }

    /// With the record the messages leave the database. Whoever wrote the file has let go of the lock since then, and
    /// the doctor, who holds it, may have cleared it away as a leftover.
    fn lacks_archive(&self, tables: &Tables<'_>, record: &Record) -> Result<Option<Rejection>, Error> {
        let Some(archives) = self.store.archives() else { return Ok(None) };
        if record.sealed.envelope.name != "conversation.archive" {
            return Ok(None);
        }
        let Ok(Some(Intent::Archive(archive))) = record.sealed.intent() else { return Ok(None) };
        if !is_archive_name(&archive.file) || tables.has_archive_file(&archive.file)? {
            return Ok(None); // the fold refuses it, and such a name is not opened
        }
        let reason = match archives.is_whole(&archive) {
            Ok(true) => return Ok(None),
            Ok(false) => format!("the archive {} is not the file that was written", archive.file),
            Err(Error::Damaged(damage)) => damage,
            Err(error) => return Err(error),
        };
        Ok(Some(Rejection { code: Code::NotFinished, reason: format!("{reason}; archive again") }))
    }

    fn each_large(
        &self,
        proposals: &[Sealed],
        visit: impl Fn(&Blobs, &[u8], &Digest) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if !proposals.iter().any(is_large) {
            return Ok(());
        }
        // What the fold will refuse for its size, or knows already, is not written at all. Its limit is one of
        // messages, results may be larger; and a policy among the proposals may raise it.
        let tables = self.store.tables()?;
        let raises_it = proposals.iter().any(|sealed| matches!(sealed.intent(), Ok(Some(Intent::Policy(_)))));
        let limit = tables.policy()?.settings.content_bytes_max.filter(|_| !raises_it).unwrap_or(u64::MAX);
        for sealed in proposals.iter().filter(|sealed| is_large(sealed)) {
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

    fn take_time(&self, tables: &mut Tables<'_>, accepts_leap: Option<&Name>) -> Result<Timestamp, Error> {
        let remembered = clock::remembered(tables.conn())?;
        match clock::read(self.clock.as_ref(), tables.cursor.head.at, remembered.as_ref()) {
            Reading::Now(_) if sabotaged!(TimeBackwards) => Ok(self.clock.wall()),
            Reading::Now(at) => Ok(at),
            Reading::TooFar { leap_ms, expected } if sabotaged!(LeapTaken) => Ok(expected.plus_ms(leap_ms)),
            Reading::Leap { at, leap_ms } => {
                append_own(tables, at, Intent::Clock(ClockLeap { leap_ms }))?;
                Ok(at)
            }
            Reading::TooFar { leap_ms, expected } => {
                let Some(actor) = accepts_leap else { return Err(Error::ClockLeap { leap_ms }) };
                let at = expected.plus_ms(leap_ms);
                append_as(tables, at, actor.clone(), Intent::Clock(ClockLeap { leap_ms }))?;
                Ok(at)
            }
        }
    }
}

/// Too large for a row of its own.
fn is_large(sealed: &Sealed) -> bool {
    sealed.content.as_ref().is_some_and(|content| content.bytes.len() > limits::CONTENT_INLINE_BYTES_MAX)
}

/// A command writes a few times at most.
const WRITES_OF_A_COMMAND_MAX: u32 = 32;

/// Ticks in one transaction: enough for any ordinary day, few enough that nobody waits long for the lock.
const TICKS_MAX: usize = 8;

/// Settles what is due; says whether that was all. Ticks stay, whatever becomes of the proposals after them.
fn settle_due(tables: &mut Tables<'_>, at: Timestamp) -> Result<bool, Error> {
    for _ in 0..TICKS_MAX {
        if tables.next_due()?.is_none_or(|due| due > at) || sabotaged!(LostTick) {
            return Ok(true);
        }
        append_own(tables, at, Intent::Tick(Tick {}))?;
    }
    Ok(tables.next_due()?.is_none_or(|due| due > at))
}

/// A record the writer itself makes.
fn append_own(tables: &mut Tables<'_>, at: Timestamp, intent: Intent) -> Result<(), Error> {
    append_as(tables, at, Name::poste(), intent)
}

fn append_as(tables: &mut Tables<'_>, at: Timestamp, actor: Name, intent: Intent) -> Result<(), Error> {
    let position = tables.cursor.head.position.next();
    let proposal = Proposal { id: fresh_id()?, actor, session: None, sent_at: at, intent, content: None };
    let record = Record { position, at, sealed: Sealed::seal(&proposal)? };
    match fold(tables, &record, Refusals::Dropped)?.verdict {
        Verdict::Accepted(_) => Ok(()),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

/// An id nobody can have taken: a name one could guess would let a caller stand in the way of a tick.
pub(crate) fn fresh_id() -> Result<RecordId, Error> {
    let id = uuid::Uuid::now_v7().to_string();
    id.parse().map_err(|error| Error::Damaged(format!("{error}")))
}

/// COMMIT failed: the record may or may not be there after the next recovery, and nobody can tell yet.
fn commit_failed(ids: Vec<RecordId>, error: rusqlite::Error) -> Error {
    match Error::from(error) {
        Error::DiskFull { cause, .. } => Error::DiskFull { ids, cause },
        other => Error::Unknown { ids, cause: other.to_string() },
    }
}

impl Drop for LocalLog {
    fn drop(&mut self) {
        #[cfg(feature = "sabotage")]
        {
            let late = std::mem::take(&mut self.late);
            if !late.is_empty() {
                let _ = self.write(late, None, self.store.options.lock_timeout);
            }
        }
        self.shorten_wal();
    }
}

impl Log for LocalLog {
    fn append(&mut self, proposals: Vec<Sealed>) -> Result<Vec<Outcome>, Error> {
        #[cfg(feature = "sabotage")]
        if sabotaged!(OkBeforeCommit) {
            self.late.extend(proposals.iter().cloned());
        }
        self.write(proposals, None, self.store.options.lock_timeout)
    }

    fn read_from(&self, after: Position, limit: usize) -> Result<Vec<Record>, Error> {
        self.store.tables()?.records_after(after, limit)
    }

    fn tail(&self, after: Position, patience: Duration) -> Result<Position, Error> {
        let waiter = self.waiter();
        let deadline = Instant::now() + patience;
        loop {
            let last = self.last()?.position;
            let left = deadline.saturating_duration_since(Instant::now());
            if last > after || left.is_zero() {
                return Ok(last);
            }
            waiter.pause(left);
        }
    }

    fn last(&self) -> Result<Head, Error> {
        Ok(self.store.tables()?.cursor.head)
    }

    fn snapshot(&self, into: &Path) -> Result<Head, Error> {
        self.store.copy_into(into)?;
        let copy = Store::open_copy(into)?;
        Ok(copy.tables()?.cursor.head)
    }

    fn store(&self) -> &Store {
        &self.store
    }
}
