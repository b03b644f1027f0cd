//! Follows a log that another engine orders: publishes there, pulls from there, folds here.
//!
//! Several processes of one machine may follow into the same files. Each folds the missing records under the write
//! lock, and skips what another process has folded since.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::TransactionBehavior;

use super::archive::{Archives, is_archive_name};
use super::clock::Clock;
use super::files::{OfficeFiles, is_large};
use super::schema::{self, FileVersion};
use super::tables::Tables;
use super::{Options, Store, WAL_BYTES_MAX, WAL_BYTES_MAX_STAYING, erase, machine};
use crate::error::Error;
use crate::fold::{self, Outcome, Refusals, Verdict, fold, fold_malformed};
use crate::limits;
use crate::log::{Arrived, Entry, Head, Intent, Position, Proof, Proposal, Record, Sealed, Sequencer, Tick, Via};
use crate::text::{Name, RecordId};
use crate::views;

/// Records folded in one transaction: enough to share a sync, few enough not to hold the lock for long.
const BATCH_MAX: usize = 256;

/// A retry without delay makes one more thing due with each tick; nothing can chain longer than this.
const TICKS_IN_A_ROW_MAX: usize = 8;

/// Pause between two pulls for a published record that has not come back.
const ANSWER_PAUSE: Duration = Duration::from_millis(5);

/// The fold's answers, by position.
type Answers = BTreeMap<Position, Outcome>;

/// A log that an engine orders for many machines, and this machine's copy of it.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) files: OfficeFiles,
    sequencer: Box<dyn Sequencer>,
}

impl Follower {
    /// Creates the files of an office that follows a log, unless they exist. Returns whether they were created.
    pub(crate) fn create(path: &Path, options: &Options) -> Result<bool, Error> {
        Store::create(path, options, |conn| {
            machine::insert(conn, &machine::fresh_name())?;
            schema::set_follows(conn)
        })
    }

    pub(crate) fn open(
        path: &Path,
        clock: Arc<dyn Clock>,
        options: Options,
        sequencer: Box<dyn Sequencer>,
    ) -> Result<Self, Error> {
        let files = OfficeFiles::open(path, clock, options)?;
        if !files.store.follows()? {
            let message = "this office orders its own log and cannot follow another".to_owned();
            return Err(Error::Config { path: path.to_owned(), message });
        }
        Ok(Self { files, sequencer })
    }

    pub(crate) fn in_memory(
        machine: &str,
        clock: Arc<dyn Clock>,
        sequencer: Box<dyn Sequencer>,
    ) -> Result<Self, Error> {
        let store = Store::in_memory_following()?;
        machine::insert(store.conn(), machine)?;
        Ok(Self { files: OfficeFiles::in_memory(store, clock), sequencer })
    }

    /// Folds all available records.
    pub(crate) fn follow(&mut self) -> Result<(), Error> {
        self.follow_within(self.files.store.options.lock_timeout)
    }

    fn follow_within(&mut self, patience: Duration) -> Result<(), Error> {
        self.check_writable()?;
        while self.fold_next(patience, &mut Answers::new())? {}
        Ok(())
    }

    /// A process that may only read the files cannot fold; it reads what others have folded.
    fn check_writable(&self) -> Result<(), Error> {
        match self.files.store.is_read_only() {
            true => Err(Error::ReadOnly(self.files.folder()?.path().to_owned())),
            false => Ok(()),
        }
    }

    /// Settles what is due, after following: proposes a tick while something is due by the engine's time.
    pub(crate) fn settle(&mut self, patience: Duration) -> Result<(), Error> {
        for _ in 0..TICKS_IN_A_ROW_MAX {
            self.follow_within(patience)?;
            let Some(tick) = self.due_tick()? else { return Ok(()) };
            let published = match self.sequencer.publish(&[tick]) {
                Ok(positions) => positions.last().copied(),
                Err(Error::Unknown { .. }) => None, // it may still come; if not, the next look tries again
                Err(error) => return Err(error),
            };
            self.follow_within(patience)?;
            if published.is_none_or(|position| self.position().is_ok_and(|head| head < position)) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// The tick that settles what is due, if anything is.
    fn due_tick(&mut self) -> Result<Option<Sealed>, Error> {
        let sent_at = self.files.clock().wall();
        let tables = self.files.store.tables()?;
        if tables.first_due(sent_at.max(tables.cursor.head.at))?.is_none() {
            return Ok(None);
        }
        // A tick ahead of the log's time would be refused and kept, so the engine is only asked if something seems due.
        let head = self.sequencer.head()?;
        let ours = tables.cursor.head.position;
        if head.position < ours {
            return Err(Error::Lost { stored: ours.0, end: head.position.0 });
        }
        let Some(first) = tables.first_due(head.now)? else { return Ok(None) };
        let proposal = Proposal {
            id: tables.tick_id(first)?,
            actor: Name::poste(),
            session: None,
            via: Via::Unknown,
            proof: Proof::None,
            sent_at,
            intent: Intent::Tick(Tick {}),
            content: None,
        };
        Ok(Some(Sealed::seal(&proposal, self.files.store.machine()?)?))
    }

    /// Publishes proposals and answers each with the fold's decision.
    ///
    /// An error means that none of them is known to be stored; [`Error::Unknown`] means that some may be.
    pub(crate) fn append(&mut self, proposals: Vec<Sealed>) -> Result<Vec<Outcome>, Error> {
        let patience = self.files.store.options.lock_timeout;
        self.settle(patience)?;
        let mut refused = Vec::with_capacity(proposals.len());
        let mut published = Vec::with_capacity(proposals.len());
        let tables = self.files.store.tables()?;
        for sealed in proposals {
            let lacking = self.files.lacks_file(&tables, &sealed, tables.cursor.head.at)?;
            published.extend(lacking.is_none().then_some(sealed));
            refused.push(lacking);
        }
        drop(tables);
        let mut answers = self.publish(published, patience)?.into_iter();
        Ok(refused.into_iter().filter_map(|refused| refused.or_else(|| answers.next())).collect())
    }

    /// After publishing, any error leaves the outcome unknown.
    fn publish(&mut self, proposals: Vec<Sealed>, patience: Duration) -> Result<Vec<Outcome>, Error> {
        let positions = match proposals.is_empty() {
            true => return Ok(Vec::new()),
            false => self.sequencer.publish(&proposals)?,
        };
        let ids: Vec<RecordId> = proposals.iter().map(|sealed| sealed.envelope.id.clone()).collect();
        self.answers_at(&positions, &proposals, patience).map_err(|error| match error {
            Error::Unknown { cause, .. } => Error::Unknown { ids, cause },
            other => Error::Unknown { ids, cause: other.to_string() },
        })
    }

    fn answers_at(
        &mut self,
        positions: &[Position],
        proposals: &[Sealed],
        patience: Duration,
    ) -> Result<Vec<Outcome>, Error> {
        let last = positions.last().copied().unwrap_or_default();
        let mut answers = Answers::new();
        let until = Instant::now() + Duration::from_millis(limits::ANSWER_PATIENCE_MS);
        while self.position()? < last {
            if self.fold_next(patience, &mut answers)? {
                continue;
            }
            if Instant::now() >= until {
                let cause = format!("it was stored as record {last}, which has not come back yet");
                return Err(Error::Unknown { ids: Vec::new(), cause });
            }
            thread::sleep(ANSWER_PAUSE);
        }
        let tables = self.files.store.tables()?;
        let answer_to = |(position, sealed): (&Position, &Sealed)| match answers.remove(position) {
            Some(answer) => Ok(answer),
            None => fold::recall_record(&tables, sealed, *position), // another process of this machine folded it
        };
        positions.iter().zip(proposals).map(answer_to).collect()
    }

    fn position(&self) -> Result<Position, Error> {
        Ok(self.files.store.tables()?.cursor.head.position)
    }

    /// One transaction: lock, checks, fold, commit, bell. Returns whether there was anything to fold.
    fn fold_next(&mut self, patience: Duration, answers: &mut Answers) -> Result<bool, Error> {
        self.files.mend()?;
        let arrived = self.sequencer.pull(self.position()?, BATCH_MAX)?;
        if arrived.is_empty() {
            return Ok(false);
        }
        let mut entries = arrived.into_iter().map(Arrived::open).collect::<Result<Vec<Entry>, Error>>()?;
        let sealed = entries.iter().filter_map(Entry::sealed);
        self.files.put_blobs(sealed.clone())?;
        let guard = self.files.acquire(patience)?;
        self.files.store.check_identity()?;
        self.files.keep_blobs(sealed)?;
        self.files.store.check_room()?;
        self.files.store.keep_wal_short(if self.files.stays() { WAL_BYTES_MAX_STAYING } else { WAL_BYTES_MAX })?;
        let ours = self.files.store.options.schema.version();
        let transaction = rusqlite::Transaction::new_unchecked(&self.files.store.conn, TransactionBehavior::Immediate)?;
        FileVersion::may_still_write(&transaction, ours)?;
        let mut tables = Tables::load(&transaction)?;
        tables.collect_changes();
        self.files.check_nothing_lost(tables.cursor.head.position)?;
        let mut answered = Answers::new();
        for entry in &mut entries {
            if entry.position() <= tables.cursor.head.position {
                continue; // another process was faster
            }
            entry.not_before(tables.cursor.head.at);
            answered.extend(self.fold_one(&mut tables, entry)?.map(|outcome| (entry.position(), outcome)));
        }
        self.drop_refused(&tables, &entries)?;
        let Head { position, at, .. } = tables.cursor.head;
        schema::name_office(&transaction, tables.chain_at(Position(1))?)?;
        tables.flush()?;
        let changes = tables.take_changes();
        drop(tables);
        if let Err(error) = transaction.commit() {
            self.files.broken = true;
            return Err(error.into());
        }
        drop(guard);
        self.files.wrote(position, at, changes);
        answers.append(&mut answered);
        Ok(true)
    }

    /// Writes the file that an archive record names, before the fold removes the messages from the tables. The proposer
    /// wrote it only on its own machine, but the rows are the same on every machine. Returns the name of the file.
    fn write_archive(&self, tables: &Tables<'_>, record: &Record) -> Result<Option<(&Archives, String)>, Error> {
        let Some(archives) = self.files.store.archives() else { return Ok(None) };
        if record.sealed.envelope.name != "conversation.archive" || tables.id(&record.sealed.envelope.id)?.is_some() {
            return Ok(None);
        }
        let Ok(Some(Intent::Archive(archive))) = record.sealed.intent() else { return Ok(None) };
        if !is_archive_name(&archive.file) || tables.has_archive_file(&archive.file)? {
            return Ok(None); // the fold refuses it
        }
        if archives.has(&archive.file)? {
            if archives.is_whole(&archive).is_ok_and(|is_whole| is_whole) {
                return Ok(None); // written here, for this very record
            }
            // Another machine used the same name first: this machine's record will be refused.
            archives.discard(&archive.file)?;
        }
        archives.write(&archive.file, &views::archive_lines(tables, &archive.conversations)?)?;
        Ok(Some((archives, archive.file)))
    }

    /// Removes the blobs of refused and repeated records. After the whole batch, because a later record of it may have
    /// the same content.
    fn drop_refused(&self, tables: &Tables<'_>, entries: &[Entry]) -> Result<(), Error> {
        for entry in entries {
            if let Some(sealed) = entry.sealed().filter(|sealed| is_large(sealed))
                && !tables.keeps_content(entry.position())?
            {
                erase::drop_content(&self.files.store, sealed)?;
            }
        }
        Ok(())
    }

    /// `None` for an entry that is not a record, because no one proposed it.
    fn fold_one(&self, tables: &mut Tables<'_>, entry: &Entry) -> Result<Option<Outcome>, Error> {
        let head = &tables.cursor.head;
        if entry.position() != head.position.next() {
            let (expected, came) = (head.position.next(), entry.position());
            return Err(Error::Damaged(format!("record {expected} is missing from the log: {came} came after it")));
        }
        let record = match entry {
            Entry::Record(record) => record,
            Entry::Malformed(malformed) => return fold_malformed(tables, malformed).map(|()| None),
        };
        let archive = self.write_archive(tables, record)?;
        let outcome = fold(tables, record, Refusals::Kept)?;
        if let (Some((archives, file)), Verdict::Rejected(_)) = (archive, &outcome.verdict) {
            archives.discard(&file)?;
        }
        if record.sealed.envelope.machine == *self.files.store.machine()? {
            tables.keep_answer(record.position, &outcome.verdict)?;
        }
        // A repeat of a redacted record brought its blobs again.
        if let (true, Some(position)) = (outcome.repeat, outcome.position)
            && tables.redaction(position)?.is_some()
        {
            erase::erase_again(&self.files.store, &record.sealed)?;
        }
        Ok(Some(outcome))
    }
}
