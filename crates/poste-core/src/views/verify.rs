//! Verifies an office: the chain, the content, and the tables against the replayed log.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::limits;
use crate::log::{Content, Entry, Head, Position, Record};
use crate::store::Store;
use crate::store::archive::NOTICE;
use crate::store::blobs::Checked;
use crate::store::schema::{Shape, shape};
use crate::store::table_digest::{digest, digest_by_table, refold};
use crate::store::tables::{ContentRow, content_row, entry_row};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VerifyReport {
    pub records: u64,
    pub position: Position,
    pub chain: Digest,
    pub tables: Digest,
    /// All problems; empty if the office is sound.
    pub problems: Vec<Problem>,
}

/// What a problem is about, which determines how to fix it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProblemKind {
    /// The database file itself is damaged.
    Database,
    /// Records are missing or were changed.
    Log,
    /// The tables do not match the log; the log is intact.
    Tables,
    /// The content of a record cannot be read.
    Content,
    /// An archive file is missing or does not match its record.
    Archive,
    /// Redacted content is still in a file.
    Unerased,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Problem {
    pub kind: ProblemKind,
    pub what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl VerifyReport {
    /// All problems in one line; empty if the office is sound.
    pub fn summary(&self) -> String {
        self.problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }

    fn add(&mut self, kind: ProblemKind, what: impl Into<String>) {
        self.problems.push(Problem { kind, what: what.into() });
    }
}

/// Reads the whole log, so the time grows with it.
pub fn verify(store: &Store, mut progress: impl FnMut(Position)) -> Result<VerifyReport, Error> {
    let (file, ours) = (store.version()?.schema, store.schema_version());
    if file > ours {
        return Err(Error::NeedsUpgrade { what: "verify", needed: file, ours });
    }
    // Read before the log: a concurrent writer only makes the log longer.
    let rung = store.last_rung();
    store.read(|conn| {
        let mut report = VerifyReport {
            records: 0,
            position: Position(0),
            chain: Head::default().chain,
            tables: Digest::from_bytes([0; 32]),
            problems: Vec::new(),
        };
        let integrity: String = conn.query_row("PRAGMA integrity_check(20)", [], |row| row.get(0))?;
        if integrity != "ok" {
            report.add(ProblemKind::Database, format!("SQLite: {integrity}"));
        }
        if !check_shape(store.schema().shape_of(file)?, shape(conn)?, &mut report) {
            return Ok(report); // foreign tables or views tell nothing about the office
        }
        report.tables = digest(conn)?;
        if !check_log(store, conn, &mut report)? {
            return Ok(report); // the end of an unreadable log is unknown
        }
        if let Some(rung) = rung.filter(|rung| *rung > report.position) {
            let end = report.position;
            report.add(ProblemKind::Log, format!("record {rung} was committed, but the log ends at {end}"));
        }
        check_archives(store, &mut report)?;
        check_erasure(store, &mut report)?;
        match refold(store, &mut progress) {
            Ok(fresh) => compare(conn, &fresh, &mut report)?,
            Err(Error::Damaged(damage) | Error::DatabaseDamaged(damage)) => report.add(ProblemKind::Log, damage),
            Err(error) => return Err(error),
        }
        Ok(report)
    })
}

/// Whether the tables, and everything that can be read as one, are those of an office. A foreign trigger or view would
/// act or answer in their place, and no digest of rows would show it.
fn check_shape(expected: Shape, mut found: Shape, report: &mut VerifyReport) -> bool {
    const NAMED_MAX: usize = 20;
    let mut wrong = Vec::new();
    for (part, made) in expected {
        match found.remove(&part) {
            Some(found) if found == made => {}
            Some(_) => wrong.push((part, "differs from that of an office")),
            None => wrong.push((part, "is missing")),
        }
    }
    wrong.extend(found.into_keys().map(|part| (part, "is not part of an office")));
    for (part, why) in wrong.iter().take(NAMED_MAX) {
        // Names may come from anyone and have any length.
        let (kind, name): (String, String) =
            (part.kind.chars().take(8).collect(), part.name.chars().take(80).collect());
        report.add(ProblemKind::Database, format!("the {} {name:?} {why}", kind.escape_debug()));
    }
    if let Some(more @ 1..) = wrong.len().checked_sub(NAMED_MAX) {
        report.add(ProblemKind::Database, format!("{more} more parts of the database differ from those of an office"));
    }
    wrong.iter().all(|(part, _)| matches!(part.kind.as_str(), "index" | "trigger"))
}

/// Whether the whole log could be read.
fn check_log(store: &Store, conn: &rusqlite::Connection, report: &mut VerifyReport) -> Result<bool, Error> {
    let mut statement = conn.prepare("SELECT position, at, envelope, malformed, chain FROM log ORDER BY position")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let entry = match entry_row(row) {
            Ok(entry) => entry,
            Err(Error::Damaged(damage) | Error::DatabaseDamaged(damage)) => {
                report.add(ProblemKind::Log, damage);
                return Ok(false); // nothing after a damaged record can be trusted or replayed
            }
            Err(error) => return Err(error),
        };
        let position = entry.position();
        if position != report.position.next() {
            report.add(ProblemKind::Log, format!("records {}..{position} are missing", report.position.next()));
        }
        let chain = entry.chain(&report.chain);
        let written = Digest::from_bytes(row.get(4)?);
        if chain != written {
            report.add(ProblemKind::Log, format!("record {position}: the chain is broken"));
        }
        report.chain = written;
        report.position = position;
        report.records += 1;
        if !store.tables()?.keeps_content(position)? {
            if content_row(conn, position)?.is_some() {
                report.add(ProblemKind::Tables, format!("record {position}: it was refused, but its content exists"));
            }
            continue;
        }
        let Entry::Record(record) = entry else { continue };
        if let Some(content) = record.sealed.envelope.content {
            check_content(store, position, &content, report)?;
        }
        check_attachments(store, &record, report)?;
    }
    Ok(true)
}

/// Checks that the attached copies of a message or a result exist and are intact.
fn check_attachments(store: &Store, record: &Record, report: &mut VerifyReport) -> Result<(), Error> {
    if store.tables()?.redaction(record.position)?.is_some() {
        return Ok(()); // the copies were erased with the content
    }
    let attached = record.sealed.attached();
    for (digest, path) in attached.iter().filter_map(|artifact| Some((artifact.digest?, &artifact.path))) {
        let Some(blobs) = store.blobs() else { return Ok(()) };
        let wrong = match blobs.check(&digest)? {
            Checked::Sound => continue,
            Checked::Missing => "is missing",
            Checked::Damaged => "is damaged",
        };
        report.add(ProblemKind::Content, format!("record {}: the attached copy of {path} {wrong}", record.position));
    }
    Ok(())
}

fn check_content(
    store: &Store,
    position: Position,
    expected: &crate::log::ContentRef,
    report: &mut VerifyReport,
) -> Result<(), Error> {
    let tables = store.tables()?;
    if tables.redaction(position)?.is_some() {
        if content_row(store.conn(), position)?.is_some() {
            report.add(ProblemKind::Tables, format!("record {position}: its content was redacted, but still exists"));
        }
        return Ok(());
    }
    if tables.archive_of_content(position)?.is_some() {
        return Ok(()); // checked with its archive
    }
    let bytes = match content_row(store.conn(), position)? {
        Some(ContentRow { bytes: Some(bytes), subject }) => {
            // Listings show a copy of the subject.
            if Content::decode(&bytes).is_ok_and(|content| content.subject != subject) {
                report.add(ProblemKind::Content, format!("record {position}: its subject was changed"));
            }
            Some(bytes)
        }
        Some(ContentRow { bytes: None, .. }) => return check_blob(store, position, expected, report),
        None => None,
    };
    match bytes {
        Some(_) if sabotaged!(ContentUnchecked) => {}
        None => report.add(ProblemKind::Content, format!("record {position}: its content is missing")),
        Some(bytes) => check_bytes(position, expected, &bytes, report),
    }
    Ok(())
}

/// Checks large content, which is in a file named by its digest.
fn check_blob(
    store: &Store,
    position: Position,
    expected: &crate::log::ContentRef,
    report: &mut VerifyReport,
) -> Result<(), Error> {
    let Some(blobs) = store.blobs() else { return Ok(()) };
    let wrong = match blobs.check(&expected.digest)? {
        Checked::Sound => return Ok(()),
        Checked::Missing => "is missing",
        Checked::Damaged => "is damaged",
    };
    report.add(ProblemKind::Content, format!("record {position}: its blob {} {wrong}", expected.digest.short()));
    Ok(())
}

fn check_bytes(position: Position, expected: &crate::log::ContentRef, bytes: &[u8], report: &mut VerifyReport) {
    let large = bytes.len() > limits::CONTENT_BYTES_MAX;
    if large || !expected.is_of(bytes) {
        report.add(ProblemKind::Content, format!("record {position}: its content does not match its digest"));
    }
}

/// Checks that every archive matches its record and contains what left the database.
fn check_archives(store: &Store, report: &mut VerifyReport) -> Result<(), Error> {
    let tables = store.tables()?;
    let Some(archives) = store.archives() else { return Ok(()) };
    for archive in tables.archives()? {
        let (mut messages, mut contents) = tables.archived_in(archive.position)?;
        let checked = archives.check(&archive.file, |line| {
            if let Some(number) = line.number {
                messages.remove(&number);
            }
            let expected = tables.record(line.position)?.and_then(|record| record.sealed.envelope.content);
            let Some(expected) = expected.filter(|_| line.kind != NOTICE) else {
                if line.content.is_some() {
                    let what = format!("the archive {} has content of record", archive.file);
                    report.add(ProblemKind::Archive, format!("{what} {}, which has none", line.position));
                }
                return Ok(());
            };
            contents.remove(&line.position);
            let is_redacted = tables.redaction(line.position)?.is_some();
            match line.content {
                Some(_) if is_redacted => report.add(
                    ProblemKind::Unerased,
                    format!("record {}: its content was redacted, but is still archived", line.position),
                ),
                Some(content) => check_bytes(line.position, &expected, content.as_bytes(), report),
                None if is_redacted => {}
                None => check_blob(store, line.position, &expected, report)?,
            }
            Ok(())
        });
        match checked {
            Ok(now) if (now.lines, now.digest) == (archive.lines, archive.digest) => {}
            Ok(_) => {
                report.add(ProblemKind::Archive, format!("the archive {} does not match its record", archive.file));
            }
            Err(Error::Damaged(damage)) => {
                report.add(ProblemKind::Archive, damage);
                continue; // in a file that could not be read to its end, missing lines tell nothing
            }
            Err(error) => return Err(error),
        }
        let lost = messages.iter().map(|number| format!("message {number}"));
        for lost in lost.chain(contents.iter().map(|position| format!("the content of record {position}"))) {
            report.add(ProblemKind::Archive, format!("{lost} was archived but is not in the archive {}", archive.file));
        }
    }
    Ok(())
}

/// Content is erased from the tables with its record, from other files only afterwards.
fn check_erasure(store: &Store, report: &mut VerifyReport) -> Result<(), Error> {
    if let Some(told) = unfinished_erasure(store)? {
        report.add(ProblemKind::Unerased, told);
    }
    Ok(())
}

pub(crate) fn unfinished_erasure(store: &Store) -> Result<Option<String>, Error> {
    let told = |position| format!("record {position}: the content it redacts is not erased from every file yet");
    Ok(store.unerased()?.map(told))
}

fn compare(conn: &rusqlite::Connection, fresh: &Store, report: &mut VerifyReport) -> Result<(), Error> {
    if digest(fresh.conn())? == report.tables || sabotaged!(TablesUnchecked) {
        return Ok(());
    }
    let ours: BTreeMap<_, _> = digest_by_table(conn)?.into_iter().collect();
    let theirs: BTreeMap<_, _> = digest_by_table(fresh.conn())?.into_iter().collect();
    for table in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        if ours.get(table) != theirs.get(table) {
            report.add(ProblemKind::Tables, format!("table {table} does not match the log"));
        }
    }
    Ok(())
}
