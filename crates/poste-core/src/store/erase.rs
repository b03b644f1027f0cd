//! Erasing: after a redaction, no file in the folder holds the content any more.
//!
//! The fold removed the content from the tables. This module removes it from everywhere else it may be: blobs,
//! archives, the search index, copies made before a migration, free pages of the database, and the WAL. Any step may be
//! interrupted: the machine row records up to which redaction all steps were completed.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};

use super::archive::UNFINISHED;
use super::files::OfficeFiles;
use super::mirror::{self, Mirror};
use super::schema::FileVersion;
use super::tables::{Tables, WITHOUT_CONTENT, record_row};
use super::{BUSY_TIMEOUT_MS, Store};
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{Intent, MessageNo, Position, Record, Sealed};
use crate::text::Session;

/// What was erased besides table rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    pub blobs: usize,
    pub archives: usize,
    /// Blobs that stay, because a record that was not redacted also names them.
    pub kept_blobs: Vec<Digest>,
    /// Archives that hold redacted content but are no longer in the office.
    pub missing_archives: Vec<String>,
    /// Edited mirrors of shared contexts. They are left alone and may hold redacted content.
    pub edited_mirrors: Vec<PathBuf>,
    /// Other files next to the mirrors, such as an editor's backup. They are left alone and may hold redacted content.
    pub strange_files: Vec<PathBuf>,
}

impl OfficeFiles {
    /// Erases redacted content from every file of the folder. Writers must wait for that; readers need not.
    pub(crate) fn erase(&mut self) -> Result<Erased, Error> {
        match self.store.unerased()? {
            Some(_) => self.erase_since(self.store.erased_to()?),
            None => Ok(Erased::default()),
        }
    }

    /// Erases everything that was ever redacted once more: an old file may have returned, from a backup or with a
    /// refused message.
    pub(crate) fn erase_all(&mut self) -> Result<Erased, Error> {
        self.erase_since(Position(0))
    }

    fn erase_since(&mut self, since: Position) -> Result<Erased, Error> {
        if self.store.is_read_only() {
            return Err(Error::ReadOnly(self.folder()?.path().to_owned()));
        }
        self.mend()?;
        let _guard = self.hold()?;
        let ours = self.store.options.schema.version();
        // Checked before anything is erased, because this program may not be allowed to erase from a newer file.
        FileVersion::may_still_write(self.store.conn(), ours)?;
        let (newest, records) = redacted_since(&self.store, since)?;
        let mut erased = Erased::default();
        if records.is_empty() {
            return Ok(erased);
        }
        erase_blobs(&self.store, &records, &mut erased)?;
        // A file that cannot be read or written must not stop the erasure everywhere else.
        let archives = erase_archives(&self.store, &records, &mut erased);
        let unnamed = erase_unnamed_archives(&self.store);
        let mirrors = erase_mirrors(&self.store, &records, &mut erased);
        let pages =
            sessions_of(&self.store, &records).and_then(|ids| super::session_pages::forget(self.folder()?, &ids));
        let runs = runs_of(&self.store, &records).and_then(|ids| super::run_folders::forget(self.folder()?, &ids));
        self.erase_caches()?;
        erase_free_pages(&self.store)?;
        archives.and(unnamed).and(mirrors).and(pages).and(runs)?;
        let transaction = rusqlite::Transaction::new_unchecked(&self.store.conn, TransactionBehavior::Immediate)?;
        FileVersion::may_still_write(&transaction, ours)?;
        transaction.execute("UPDATE machine SET erased_to = ?1 WHERE one = 1", [newest])?;
        transaction.commit()?;
        Ok(erased)
    }

    /// The search index is rebuilt when it is needed, and a copy from before a migration only serves to go back.
    fn erase_caches(&self) -> Result<(), Error> {
        let folder = self.folder()?;
        let forget = || -> io::Result<()> {
            for name in folder.names()? {
                if name.to_string_lossy().starts_with("before-schema-") {
                    folder.remove(&name)?;
                }
            }
            Ok(())
        };
        let failed = |error| Error::io(folder.path(), error);
        forget().map_err(failed)?;
        super::search::forget(folder)?;
        folder.sync().map_err(failed)
    }
}

/// The sessions whose pages may hold redacted content: the root session, and those below it, which may have been the
/// root before.
fn sessions_of(store: &Store, records: &[Record]) -> Result<Vec<Session>, Error> {
    let tables = store.tables()?;
    let mut roots = BTreeSet::new();
    for record in records {
        let id = match record.sealed.intent() {
            Ok(Some(Intent::SessionStart(start))) => start.id,
            Ok(Some(Intent::SessionNote(note))) => note.session,
            Ok(Some(Intent::SessionClose(close))) => close.session,
            _ => continue,
        };
        roots.extend(tables.session(&id)?.map(|session| session.root));
    }
    let mut sessions = Vec::new();
    for root in roots {
        sessions.extend(tables.sessions_below(&root)?.into_iter().map(|session| session.id));
    }
    Ok(sessions)
}

/// The runs whose folders may hold redacted content, as input or as output.
fn runs_of(store: &Store, records: &[Record]) -> Result<Vec<Session>, Error> {
    let tables = store.tables()?;
    let mut runs = BTreeSet::new();
    for record in records {
        if let Some(session) = record.sealed.envelope.session.clone() {
            runs.extend(tables.run(&session)?.map(|run| run.run));
        }
        let mut number = tables.first_number_after(Position(record.position.0.saturating_sub(1)))?;
        while tables.position_of(number)? == Some(record.position) {
            runs.extend(tables.runs_of_message(number)?.into_iter().map(|run| run.run));
            number = MessageNo(number.0 + 1);
        }
    }
    Ok(runs.into_iter().collect())
}

/// The records redacted after `since`, and the position of the newest redaction.
fn redacted_since(store: &Store, since: Position) -> Result<(Position, Vec<Record>), Error> {
    let conn = store.conn();
    let newest = conn.query_row("SELECT coalesce(max(redacted_by), 0) FROM redactions", [], |row| row.get(0))?;
    let positions: Vec<Position> = conn
        .prepare("SELECT position FROM redactions WHERE redacted_by > ?1 ORDER BY position")?
        .query_map([since], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let tables = store.tables()?;
    let mut records = Vec::with_capacity(positions.len());
    for position in positions {
        records.extend(tables.record(position)?);
    }
    Ok((newest, records))
}

fn erase_blobs(store: &Store, records: &[Record], erased: &mut Erased) -> Result<(), Error> {
    let Some(blobs) = store.blobs() else { return Ok(()) };
    blobs.sweep()?;
    let digests: BTreeSet<Digest> = records.iter().flat_map(|record| record.sealed.blobs()).collect();
    for digest in digests {
        if is_named_elsewhere(store.conn(), &digest)? {
            erased.kept_blobs.push(digest);
        } else if blobs.remove(&digest)? {
            erased.blobs += 1;
        }
    }
    Ok(())
}

/// Whether a record that was neither redacted nor refused names this blob. Scans every header, since redactions and
/// refusals are rare, and blobs rarer. A header that merely contains the digest is not enough: a file that was only
/// recorded has no copy here.
fn is_named_elsewhere(conn: &Connection, digest: &Digest) -> Result<bool, Error> {
    let mut statement = conn.prepare(&format!(
        "SELECT position, at, envelope FROM log WHERE instr(envelope, ?1) > 0
         AND position NOT IN (SELECT position FROM redactions) AND position NOT IN ({WITHOUT_CONTENT})",
    ))?;
    let mut rows = statement.query([digest.to_string().as_bytes()])?;
    while let Some(row) = rows.next()? {
        if record_row(row)?.sealed.blobs().contains(digest) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes the blob of a refused or repeated record, unless another record has the same content.
///
/// Copies of attached files stay, because a proposal that names them may be on its way.
pub(super) fn drop_content(store: &Store, sealed: &Sealed) -> Result<(), Error> {
    let (Some(blobs), Some(content)) = (store.blobs(), sealed.envelope.content) else { return Ok(()) };
    if blobs.has(&content.digest)? && !is_named_elsewhere(store.conn(), &content.digest)? {
        blobs.remove(&content.digest)?;
    }
    Ok(())
}

/// Removes the blobs of a redacted record again, which a repeated proposal brought back.
pub(super) fn erase_again(store: &Store, sealed: &Sealed) -> Result<(), Error> {
    let Some(blobs) = store.blobs() else { return Ok(()) };
    for digest in sealed.blobs() {
        if !is_named_elsewhere(store.conn(), &digest)? {
            blobs.remove(&digest)?;
        }
    }
    Ok(())
}

fn erase_archives(store: &Store, records: &[Record], erased: &mut Erased) -> Result<(), Error> {
    let Some(archives) = store.archives() else { return Ok(()) };
    let tables = Tables::load(store.conn())?;
    let mut by_archive: BTreeMap<Position, Vec<Position>> = BTreeMap::new();
    for record in records {
        if let Some(archive) = tables.archive_of_content(record.position)? {
            by_archive.entry(archive.position).or_default().push(record.position);
        }
    }
    let mut failed = Ok(());
    for (archive, positions) in by_archive {
        let Some(archive) = tables.archive(archive)? else { continue };
        match archives.has(&archive.file).and_then(|has| has.then(|| archives.redact(&archive, &positions)).transpose())
        {
            Ok(Some(())) => erased.archives += 1,
            Ok(None) => erased.missing_archives.push(archive.file),
            Err(error) => failed = Err(error),
        }
    }
    failed
}

/// Archives that no record names. Those with redacted content are deleted: they were written before the redaction, so
/// the fold would refuse their record. The others may be about to enter the log. Writers hold the lock, so an
/// unfinished archive belongs to a dead one.
fn erase_unnamed_archives(store: &Store) -> Result<(), Error> {
    let Some(archives) = store.archives() else { return Ok(()) };
    let tables = Tables::load(store.conn())?;
    for file in archives.files()? {
        let is_unnamed = || Ok::<_, Error>(file.ends_with(".jsonl") && !tables.has_archive_file(&file)?);
        let is_redacted = |position| Ok(tables.redaction(position)?.is_some());
        if file.starts_with(UNFINISHED) || (is_unnamed()? && archives.holds_content(&file, is_redacted)?) {
            archives.discard(&file)?;
        }
    }
    Ok(())
}

/// Regenerates the mirrors of contexts with a redacted version.
fn erase_mirrors(store: &Store, records: &[Record], erased: &mut Erased) -> Result<(), Error> {
    let mut names = BTreeSet::new();
    let tables = store.tables()?;
    for record in records {
        if let Some(version) = tables.version_at(record.position)? {
            names.extend(tables.context_by_number(version.context)?.map(|context| context.name));
        }
    }
    if !names.is_empty() {
        erased.strange_files = mirror::strangers(store)?;
    }
    let mut failed = Ok(());
    for name in names {
        match mirror::write(store, &name, false) {
            Ok(Some(Mirror::Edited(path))) => erased.edited_mirrors.push(path),
            Ok(_) => {}
            Err(error) => failed = Err(error),
        }
    }
    failed
}

/// Rewrites the whole database without free pages and old cells, and empties the WAL.
fn erase_free_pages(store: &Store) -> Result<(), Error> {
    let patience = store.options.lock_timeout;
    store.conn().execute_batch("VACUUM")?;
    if sabotaged!(WalNotErased) {
        return Ok(());
    }
    store.conn().busy_timeout(patience)?;
    let busy: bool = store.conn().query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
    store.conn().busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS.into()))?;
    if busy {
        let waited_ms = u64::try_from(patience.as_millis()).unwrap_or(u64::MAX);
        return Err(Error::Busy { holder: "a reader of the old pages".to_owned(), waited_ms });
    }
    Ok(())
}
