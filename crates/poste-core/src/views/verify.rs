//! Checking an office against itself: the chain, the content, and the tables against the refolded log.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::fold::Refusals;
use crate::limits;
use crate::log::{Head, Position, Record};
use crate::store::Store;
use crate::store::blobs::Checked;
use crate::store::table_digest::{digest, digest_by_table, refold};
use crate::store::tables::{ContentRow, content_row, record_row};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VerifyReport {
    pub records: u64,
    pub position: Position,
    pub chain: Digest,
    pub tables: Digest,
    /// Everything that is wrong; empty when the office is sound.
    pub problems: Vec<String>,
}

/// Reads the whole log: time and answer grow with it.
pub fn verify(store: &Store, refusals: Refusals, mut progress: impl FnMut(Position)) -> Result<VerifyReport, Error> {
    let (file, ours) = (store.version()?.schema, store.schema_version());
    if file > ours {
        return Err(Error::NeedsUpgrade { what: "verify", needed: file, ours });
    }
    store.read(|conn| {
        let mut problems = Vec::new();
        let integrity: String = conn.query_row("PRAGMA integrity_check(20)", [], |row| row.get(0))?;
        if integrity != "ok" {
            problems.push(format!("SQLite: {integrity}"));
        }
        let mut report = VerifyReport {
            records: 0,
            position: Position(0),
            chain: Head::default().chain,
            tables: digest(conn)?,
            problems,
        };
        if !check_log(store, conn, &mut report)? {
            return Ok(report);
        }
        match refold(store, refusals, &mut progress) {
            Ok(fresh) => compare(conn, &fresh, &mut report)?,
            Err(Error::Damaged(damage)) => report.problems.push(damage),
            Err(error) => return Err(error),
        }
        Ok(report)
    })
}

/// Whether the whole log could be read.
fn check_log(store: &Store, conn: &rusqlite::Connection, report: &mut VerifyReport) -> Result<bool, Error> {
    let mut statement = conn.prepare("SELECT position, at, envelope, chain FROM log ORDER BY position")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let record = match record_row(row) {
            Ok(record) => record,
            Err(Error::Damaged(damage)) => {
                report.problems.push(damage);
                return Ok(false); // nothing after a damaged record can be trusted, nor folded
            }
            Err(error) => return Err(error),
        };
        if record.position != report.position.next() {
            report.problems.push(format!("records {}..{} are missing", report.position.next(), record.position));
        }
        let chain = record.chain(&report.chain);
        let written = Digest::from_bytes(row.get(3)?);
        if chain != written {
            report.problems.push(format!("record {}: the chain is broken", record.position));
        }
        report.chain = written;
        report.position = record.position;
        report.records += 1;
        if let Some(content) = record.sealed.envelope.content {
            check_content(store, record.position, &content, report)?;
        }
        check_attachments(store, &record, report)?;
    }
    Ok(true)
}

/// Copies that were made with a message or a result are still there, whole.
fn check_attachments(store: &Store, record: &Record, report: &mut VerifyReport) -> Result<(), Error> {
    let attached = record.sealed.attached();
    for (digest, path) in attached.iter().filter_map(|artifact| Some((artifact.digest?, &artifact.path))) {
        let Some(blobs) = store.blobs() else { return Ok(()) };
        let wrong = match blobs.check(&digest)? {
            Checked::Sound => continue,
            Checked::Missing => "is missing",
            Checked::Damaged => "is damaged",
        };
        report.problems.push(format!("record {}: the attached copy of {path} {wrong}", record.position));
    }
    Ok(())
}

fn check_content(
    store: &Store,
    position: Position,
    expected: &crate::log::ContentRef,
    report: &mut VerifyReport,
) -> Result<(), Error> {
    let bytes = match content_row(store.conn(), position)? {
        Some(ContentRow { bytes: Some(bytes), .. }) => Some(bytes),
        Some(ContentRow { bytes: None, .. }) => match store.blobs().map(|blobs| blobs.get(&expected.digest)) {
            Some(Ok(Some(bytes))) => Some(bytes),
            Some(Ok(None)) => {
                report.problems.push(format!("record {position}: its blob {} is missing", expected.digest.short()));
                return Ok(());
            }
            Some(Err(Error::Damaged(damage))) => {
                report.problems.push(format!("record {position}: {damage}"));
                return Ok(());
            }
            Some(Err(error)) => return Err(error),
            None => None,
        },
        None => None,
    };
    match bytes {
        None => report.problems.push(format!("record {position}: its content is missing")),
        Some(bytes) => {
            let large = bytes.len() > limits::CONTENT_BYTES_MAX;
            if large || bytes.len() as u64 != expected.length || Digest::of(&bytes) != expected.digest {
                report.problems.push(format!("record {position}: its content does not match its digest"));
            }
        }
    }
    Ok(())
}

fn compare(conn: &rusqlite::Connection, fresh: &Store, report: &mut VerifyReport) -> Result<(), Error> {
    if digest(fresh.conn())? == report.tables {
        return Ok(());
    }
    let ours: BTreeMap<_, _> = digest_by_table(conn)?.into_iter().collect();
    let theirs: BTreeMap<_, _> = digest_by_table(fresh.conn())?.into_iter().collect();
    for table in ours.keys().chain(theirs.keys()).collect::<BTreeSet<_>>() {
        if ours.get(table) != theirs.get(table) {
            report.problems.push(format!("table {table} is not what the log folds to"));
        }
    }
    Ok(())
}
