//! The local log: append and fold in one SQLite transaction.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::TransactionBehavior;

use super::clock::{self, Clock, Reading};
use super::files::{OfficeFiles, is_large};
use super::schema::{self, FileVersion};
use super::tables::Tables;
use super::{Options, Store, WAL_BYTES_MAX, WAL_BYTES_MAX_STAYING, erase, machine};
use crate::error::Error;
use crate::fold::{FOLD_VERSION, Outcome, Refusals, Verdict, fold};
use crate::log::{Barrier, Clock as ClockLeap, Intent, Proof, Proposal, Record, Sealed, Tick, Via};
use crate::text::{Label, Name, RecordId};
use crate::time::Timestamp;

/// Pause between two checks whether a reader has finished.
const READER_PAUSE: Duration = Duration::from_millis(25);

/// A log that this machine orders.
#[derive(Debug)]
pub(crate) struct LocalLog {
    pub(crate) files: OfficeFiles,
    /// Records that were answered but are not committed yet.
    #[cfg(feature = "sabotage")]
    late: Vec<Sealed>,
}

impl LocalLog {
    /// Creates an office unless it exists. Returns whether it was created.
    pub(crate) fn create(path: &Path, clock: &Arc<dyn Clock>, options: &Options) -> Result<bool, Error> {
        Store::create(path, options, |conn| {
            schema::set_meta(conn, schema::OFFICE, uuid::Uuid::new_v4().to_string())?;
            machine::insert(conn, &machine::fresh_name())?;
            let machine = machine::id(conn, Some(path), &options.machine_mark)?;
            let barrier =
                Intent::Barrier(Barrier { fold_version: FOLD_VERSION, reason: "the office opens".to_owned() });
            let mut tables = Tables::load(conn)?;
            let at = clock.wall();
            append_own(&mut tables, &machine, fresh_id(), at, barrier)?;
            clock::remember(conn, &clock.boot(), at)?;
            tables.flush()
        })
    }

    pub(crate) fn open(path: &Path, clock: Arc<dyn Clock>, options: Options) -> Result<Self, Error> {
        let files = OfficeFiles::open(path, clock, options)?;
        if files.store.follows()? {
            let message = "this office follows a log that another engine orders".to_owned();
            return Err(Error::Config { path: path.to_owned(), message });
        }
        Ok(Self {
            files,
            #[cfg(feature = "sabotage")]
            late: Vec::new(),
        })
    }

    /// Makes proposals durable and answers each with the fold's decision.
    ///
    /// An error means that none of them is known to be stored; [`Error::Unknown`] means that some may be.
    pub(crate) fn append(&mut self, proposals: Vec<Sealed>) -> Result<Vec<Outcome>, Error> {
        #[cfg(feature = "sabotage")]
        if sabotaged!(OkBeforeCommit) {
            self.late.extend(proposals.iter().cloned());
        }
        self.write(proposals, None, self.files.store.options.lock_timeout)
    }

    /// Settles what is due, if anything is. If nothing is, this costs one index lookup.
    ///
    /// For readers, which do not wait for the lock: its holder settles due changes anyway, and a view can mark them as
    /// unconfirmed.
    pub(crate) fn settle(&mut self) -> Result<(), Error> {
        self.settle_within(Duration::ZERO)
    }

    /// Like [`LocalLog::settle`], but waits for the lock.
    pub(crate) fn settle_patiently(&mut self) -> Result<(), Error> {
        self.settle_within(self.files.store.options.lock_timeout)
    }

    fn settle_within(&mut self, patience: Duration) -> Result<(), Error> {
        let Some(due) = self.files.store.tables()?.next_due()? else { return Ok(()) };
        if self.files.reading()?.for_views() < due {
            return Ok(());
        }
        self.write(Vec::new(), None, patience).map(|_| ())
    }

    /// Accepts a clock leap of more than a day, in the actor's name.
    pub(crate) fn accept_clock(&mut self, actor: &Name) -> Result<Option<i64>, Error> {
        match self.files.reading()? {
            Reading::TooFar { leap_ms, .. } => {
                self.write(Vec::new(), Some(actor), self.files.store.options.lock_timeout)?;
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
        if self.files.store.is_read_only() {
            return Err(Error::ReadOnly(self.files.folder()?.path().to_owned()));
        }
        let late_blobs = sabotaged!(BlobAfterRecord).then(|| proposals.clone());
        if late_blobs.is_none() {
            self.files.put_blobs(&proposals)?;
        }
        let mut waiting = Some(proposals);
        let started = Instant::now();
        loop {
            match self.write_once(&mut waiting, accepts_leap, patience) {
                Ok(None) => {}
                Ok(Some(outcomes)) => {
                    if let Some(proposals) = late_blobs {
                        self.files.put_blobs(&proposals)?;
                    }
                    return Ok(outcomes);
                }
                // Wait without the lock, so that other writers report the reader and not this process.
                Err(Error::WalFull { .. }) if started.elapsed() < patience => thread::sleep(READER_PAUSE),
                Err(error) => return Err(error),
            }
        }
    }

    /// The write path: lock, transaction, checks, time, ticks, append and fold, commit, bell.
    ///
    /// `None`: this transaction settled only a part of what is due; the proposals still wait.
    fn write_once(
        &mut self,
        waiting: &mut Option<Vec<Sealed>>,
        accepts_leap: Option<&Name>,
        patience: Duration,
    ) -> Result<Option<Vec<Outcome>>, Error> {
        self.files.mend()?;
        let guard = self.files.acquire(patience)?;
        self.files.store.check_identity()?;
        if !sabotaged!(BlobAfterRecord) {
            self.files.keep_blobs(waiting.as_deref().unwrap_or_default())?;
        }
        self.files.store.check_room()?;
        self.files.store.keep_wal_short(if self.files.stays() { WAL_BYTES_MAX_STAYING } else { WAL_BYTES_MAX })?;
        let ours = self.files.store.options.schema.version();
        let transaction = rusqlite::Transaction::new_unchecked(&self.files.store.conn, TransactionBehavior::Immediate)?;
        FileVersion::may_still_write(&transaction, ours)?;

        let machine = self.files.store.machine()?;
        let mut tables = Tables::load(&transaction)?;
        tables.collect_changes();
        self.files.check_nothing_lost(tables.cursor.head.position)?;
        let at = self.take_time(&mut tables, accepts_leap)?;
        let all_settled = settle_due(&mut tables, machine, at)?;
        let proposals = if all_settled { waiting.take() } else { None };
        let mut ids = Vec::new();
        let mut redacted = Vec::new();
        let mut refused = Vec::new();
        let outcomes = match proposals {
            None => None,
            Some(proposals) => {
                let mut outcomes = Vec::with_capacity(proposals.len());
                for sealed in proposals {
                    ids.push(sealed.envelope.id.clone());
                    let record = Record { position: tables.cursor.head.position.next(), at, sealed };
                    let outcome = match self.files.lacks_file(&tables, &record.sealed, at)? {
                        None => fold(&mut tables, &record, Refusals::Dropped)?,
                        Some(refusal) => refusal,
                    };
                    if let (true, Some(position)) = (outcome.repeat, outcome.position)
                        && tables.redaction(position)?.is_some()
                    {
                        redacted.push(record.sealed);
                    } else if matches!(outcome.verdict, Verdict::Rejected(_)) && is_large(&record.sealed) {
                        refused.push(record.sealed);
                    }
                    outcomes.push(outcome);
                }
                Some(outcomes)
            }
        };

        for sealed in &redacted {
            erase::erase_again(&self.files.store, sealed)?;
        }
        // After all of them, because an accepted one may have the same content.
        for sealed in &refused {
            erase::drop_content(&self.files.store, sealed)?;
        }
        let position = tables.cursor.head.position;
        if !tables.changed() {
            return Ok(outcomes); // nothing was written: the transaction rolls back
        }
        clock::remember(&transaction, &self.files.clock().boot(), at)?;
        let late_cursor = sabotaged!(CursorOutsideTransaction).then(|| tables.cursor.clone());
        if late_cursor.is_none() {
            tables.flush()?;
        }
        let changes = tables.take_changes();
        drop(tables);
        if sabotaged!(BellBeforeCommit) {
            self.files.ring(position, at, &changes);
        }
        #[cfg(feature = "sabotage")]
        if !self.late.is_empty() {
            return Ok(outcomes); // answered, and committed when the office is closed
        }
        if let Err(error) = transaction.commit() {
            self.files.broken = true;
            if !sabotaged!(CommitErrorIgnored) {
                return Err(commit_failed(ids, error));
            }
        }
        if let Some(cursor) = late_cursor {
            let mut tables = Tables::load(&self.files.store.conn)?;
            tables.cursor = cursor;
            tables.flush()?;
        }
        drop(guard);
        self.files.wrote(position, at, changes);
        Ok(outcomes)
    }

    fn take_time(&self, tables: &mut Tables<'_>, accepts_leap: Option<&Name>) -> Result<Timestamp, Error> {
        let remembered = clock::remembered(tables.conn())?;
        let machine = self.files.store.machine()?;
        match clock::read(self.files.clock().as_ref(), tables.cursor.head.at, remembered.as_ref()) {
            Reading::Now(_) if sabotaged!(TimeBackwards) => Ok(self.files.clock().wall()),
            Reading::Now(at) => Ok(at),
            Reading::TooFar { leap_ms, expected } if sabotaged!(LeapTaken) => Ok(expected.plus_ms(leap_ms)),
            Reading::Leap { at, leap_ms } => {
                append_own(tables, machine, fresh_id(), at, Intent::Clock(ClockLeap { leap_ms }))?;
                Ok(at)
            }
            Reading::TooFar { leap_ms, expected } => {
                let Some(actor) = accepts_leap else { return Err(Error::ClockLeap { leap_ms }) };
                let at = expected.plus_ms(leap_ms);
                append_as(tables, machine, fresh_id(), at, actor.clone(), Intent::Clock(ClockLeap { leap_ms }))?;
                Ok(at)
            }
        }
    }
}

/// Ticks in one transaction: enough for any ordinary day, few enough not to hold the lock for long.
const TICKS_MAX: usize = 8;

/// Settles what is due. Returns whether that was all. Ticks stay, even if the proposals after them are refused.
fn settle_due(tables: &mut Tables<'_>, machine: &Label, at: Timestamp) -> Result<bool, Error> {
    for _ in 0..TICKS_MAX {
        let Some(first) = tables.first_due(at)?.filter(|_| !sabotaged!(LostTick)) else { return Ok(true) };
        let id = tables.tick_id(first)?;
        append_own(tables, machine, id, at, Intent::Tick(Tick {}))?;
    }
    Ok(tables.first_due(at)?.is_none())
}

/// Appends a record that the writer itself makes.
fn append_own(
    tables: &mut Tables<'_>,
    machine: &Label,
    id: RecordId,
    at: Timestamp,
    intent: Intent,
) -> Result<(), Error> {
    append_as(tables, machine, id, at, Name::poste(), intent)
}

fn append_as(
    tables: &mut Tables<'_>,
    machine: &Label,
    id: RecordId,
    at: Timestamp,
    actor: Name,
    intent: Intent,
) -> Result<(), Error> {
    let position = tables.cursor.head.position.next();
    let proposal = Proposal {
        id,
        actor,
        session: None,
        via: Via::Unknown,
        proof: Proof::None,
        sent_at: at,
        intent,
        content: None,
    };
    let record = Record { position, at, sealed: Sealed::seal(&proposal, machine)? };
    match fold(tables, &record, Refusals::Dropped)?.verdict {
        Verdict::Accepted(_) => Ok(()),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

/// An id that cannot be taken.
pub(crate) fn fresh_id() -> RecordId {
    uuid::Uuid::now_v7().to_string().parse().expect("a UUID is an id")
}

/// COMMIT failed: whether the record exists is unknown until the next recovery.
fn commit_failed(ids: Vec<RecordId>, error: rusqlite::Error) -> Error {
    match Error::from(error) {
        Error::DiskFull { cause, .. } => Error::DiskFull { ids, cause },
        other => Error::Unknown { ids, cause: other.to_string() },
    }
}

#[cfg(feature = "sabotage")]
impl Drop for LocalLog {
    fn drop(&mut self) {
        let late = std::mem::take(&mut self.late);
        if !late.is_empty() {
            let _ = self.write(late, None, self.files.store.options.lock_timeout);
        }
    }
}
