//! The digest of all state. It is the same at the same position on all machines, and after every refold.

use std::sync::mpsc::sync_channel;

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::Store;
use super::tables::{Tables, open_entry};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Read, Refusals, fold_malformed, fold_read};
use crate::log::{Entry, Head, MalformedRecord, Position, Record};
use crate::time::Timestamp;

/// Tables that the digest does not cover: they belong to this file or machine, can be erased, or only index what other
/// tables say. Every other table is covered.
pub const NOT_COVERED: &[&str] = &["meta", "machine", "answers", "content", "owed_rings"];

/// Columns of covered tables that the digest does not cover. The wording of a refusal may change between program
/// versions; its code may not.
const NOT_COVERED_COLUMNS: &[(&str, &str)] = &[("outcomes", "reason")];

/// One digest over every covered column of every covered table.
pub fn digest(conn: &Connection) -> Result<Digest, Error> {
    let mut hasher = blake3::Hasher::new();
    for table in covered_tables(conn)? {
        hasher.update(table.as_bytes());
        hash_table(conn, &table, &mut hasher)?;
    }
    Ok(Digest::from_bytes(*hasher.finalize().as_bytes()))
}

/// One digest per table, to find where two states differ.
pub fn digest_by_table(conn: &Connection) -> Result<Vec<(String, Digest)>, Error> {
    covered_tables(conn)?
        .into_iter()
        .map(|table| {
            let mut hasher = blake3::Hasher::new();
            hash_table(conn, &table, &mut hasher)?;
            Ok((table, Digest::from_bytes(*hasher.finalize().as_bytes())))
        })
        .collect()
}

fn covered_tables(conn: &Connection) -> Result<Vec<String>, Error> {
    let names: Vec<String> = conn
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(names.into_iter().filter(|name| !NOT_COVERED.contains(&name.as_str())).collect())
}

fn hash_table(conn: &Connection, table: &str, hasher: &mut blake3::Hasher) -> Result<(), Error> {
    // Table and column names are from our own schema, so they are safe to put into SQL.
    let names = |sql: &str| -> Result<Vec<String>, Error> {
        Ok(conn.prepare(sql)?.query_map([table], |row| row.get(0))?.collect::<Result<_, _>>()?)
    };
    let key = names("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?;
    let mut columns = names("SELECT name FROM pragma_table_info(?1) ORDER BY cid")?;
    columns.retain(|column| !NOT_COVERED_COLUMNS.contains(&(table, column.as_str())));
    let mut statement =
        conn.prepare(&format!("SELECT {} FROM {table} ORDER BY {}", columns.join(", "), key.join(", ")))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..columns.len() {
            match row.get_ref(column)? {
                ValueRef::Null => hasher.update(&[0]),
                ValueRef::Integer(number) => hasher.update(&[1]).update(&number.to_le_bytes()),
                ValueRef::Real(number) => hasher.update(&[2]).update(&number.to_bits().to_le_bytes()),
                ValueRef::Text(bytes) => hash_bytes(hasher, 3, bytes),
                ValueRef::Blob(bytes) => hash_bytes(hasher, 4, bytes),
            };
        }
    }
    Ok(())
}

fn hash_bytes<'a>(hasher: &'a mut blake3::Hasher, tag: u8, bytes: &[u8]) -> &'a mut blake3::Hasher {
    hasher.update(&[tag]).update(&(bytes.len() as u64).to_le_bytes()).update(bytes)
}

/// Folds a log again, into memory, with this program's schema. Refusals are kept if the log itself keeps them.
///
/// The result is meant for digests: indexes that neither the fold nor a digest needs are left out.
pub fn refold(source: &Store, progress: impl FnMut(Position)) -> Result<Store, Error> {
    refold_until(source, Position(u64::MAX), progress)
}

/// Like [`refold`], up to and including `until`: the tables as they were at that record.
pub fn refold_until(source: &Store, until: Position, progress: impl FnMut(Position)) -> Result<Store, Error> {
    fold_anew(source, until, progress, |_| Ok(()))
}

/// Like [`refold_until`], with the indexes that views need.
pub fn refold_for_reading(source: &Store, until: Position, progress: impl FnMut(Position)) -> Result<Store, Error> {
    fold_anew(source, until, progress, |tables| tables.needs_all())
}

fn fold_anew(
    source: &Store,
    until: Position,
    mut progress: impl FnMut(Position),
    finish: impl FnOnce(&Tables<'_>) -> Result<(), Error>,
) -> Result<Store, Error> {
    let refusals = source.refusals()?;
    let fresh = Store::in_memory_to_refold(source.options.schema, refusals)?;
    // Views of the refolded tables are from the same machine's perspective. A source that is an in-memory copy may have
    // no machine.
    if let Ok(machine) = source.machine() {
        let _ = fresh.machine.set(machine.clone());
    }
    let transaction = fresh.conn().unchecked_transaction()?;
    let mut tables = Tables::to_refold(&transaction)?;
    read_ahead(source, until, |entry| {
        let expected = tables.cursor.head.position.next();
        let position = entry.position();
        if position != expected {
            return Err(Error::Damaged(format!("record {expected} is missing from the log")));
        }
        let refused = match entry {
            ReadEntry::Record(record, read) => {
                let outcome = fold_read(&mut tables, &record, read, refusals)?;
                outcome.position.is_none().then(|| format!("{:?}", outcome.verdict))
            }
            ReadEntry::Malformed(malformed) => {
                fold_malformed(&mut tables, &malformed)?;
                Some(malformed.why.to_string())
            }
        };
        if let (Some(why), Refusals::Dropped) = (refused, refusals) {
            return Err(Error::Damaged(format!("record {position} is in the log but the fold refuses it: {why}")));
        }
        progress(position);
        Ok(())
    })?;
    finish(&tables)?;
    tables.flush()?;
    drop(tables);
    transaction.commit()?;
    Ok(fresh)
}

/// One entry of the log, already parsed by the read-ahead thread.
#[allow(clippy::large_enum_variant, reason = "nearly every entry is a record; a box would cost each an allocation")]
enum ReadEntry {
    Record(Record, Read),
    Malformed(MalformedRecord),
}

impl ReadEntry {
    fn position(&self) -> Position {
        match self {
            Self::Record(record, _) => record.position,
            Self::Malformed(malformed) => malformed.position,
        }
    }
}

/// Passes every entry up to `until` to `give`, in order. A second thread checks and parses them ahead of the fold.
fn read_ahead(
    source: &Store,
    until: Position,
    mut give: impl FnMut(ReadEntry) -> Result<(), Error>,
) -> Result<(), Error> {
    const AT_A_TIME: usize = 512;
    const AHEAD: usize = 2;
    type Row = (Position, Timestamp, Vec<u8>, bool);
    let mut statement = source
        .conn()
        .prepare("SELECT position, at, envelope, malformed FROM log WHERE position <= ?1 ORDER BY position")?;
    let mut rows = statement.query([until])?;
    let mut next_rows = || -> Result<Vec<Row>, Error> {
        let mut batch = Vec::with_capacity(AT_A_TIME);
        while batch.len() < AT_A_TIME
            && let Some(row) = rows.next()?
        {
            batch.push((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
        }
        Ok(batch)
    };
    std::thread::scope(|scope| {
        let (sealed, to_open) = sync_channel::<Vec<Row>>(AHEAD);
        let (opened, records) = sync_channel::<Result<Vec<ReadEntry>, Error>>(AHEAD);
        scope.spawn(move || {
            let mut chain = Head::default().chain;
            let mut open = |(position, at, bytes, is_malformed): Row| {
                let previous = chain;
                Ok(match open_entry(position, at, bytes, is_malformed)? {
                    Entry::Record(record) => {
                        let read = Read::of(&record, &previous);
                        chain = read.chain;
                        ReadEntry::Record(record, read)
                    }
                    Entry::Malformed(malformed) => {
                        chain = malformed.chain(&previous);
                        ReadEntry::Malformed(malformed)
                    }
                })
            };
            for batch in to_open {
                let batch = batch.into_iter().map(&mut open).collect();
                if opened.send(batch).is_err() {
                    return; // the folding side has stopped and reports why
                }
            }
        });
        let gone = || Error::Damaged("the thread that reads the log has stopped".to_owned());
        let mut under_way = 0;
        loop {
            while under_way < AHEAD {
                let batch = next_rows()?;
                if batch.is_empty() {
                    break;
                }
                sealed.send(batch).map_err(|_| gone())?;
                under_way += 1;
            }
            if under_way == 0 {
                return Ok(());
            }
            records.recv().map_err(|_| gone())??.into_iter().try_for_each(&mut give)?;
            under_way -= 1;
        }
    })
}
