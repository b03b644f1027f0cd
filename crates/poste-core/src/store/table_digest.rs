//! The digest of all state: equal digests at equal positions on all machines, and after every refold.

use rusqlite::Connection;
use rusqlite::types::ValueRef;

use super::Store;
use super::tables::{Tables, record_row};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Refusals, fold};
use crate::log::{Position, Record};

/// Tables the digest does not cover: they belong to this file or machine, or can be erased. Everything else is.
pub const NOT_COVERED: &[&str] = &["meta", "machine", "content"];

/// One digest over every column of every covered table.
pub fn digest(conn: &Connection) -> Result<Digest, Error> {
    let mut hasher = blake3::Hasher::new();
    for table in covered_tables(conn)? {
        hasher.update(table.as_bytes());
        hash_table(conn, &table, &mut hasher)?;
    }
    Ok(Digest::from_bytes(*hasher.finalize().as_bytes()))
}

/// One digest a table, to find where two states part.
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
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")?
        .query_map([], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    Ok(names.into_iter().filter(|name| !NOT_COVERED.contains(&name.as_str())).collect())
}

fn hash_table(conn: &Connection, table: &str, hasher: &mut blake3::Hasher) -> Result<(), Error> {
    // Table names come from our own schema.
    let key: Vec<String> = conn
        .prepare("SELECT name FROM pragma_table_info(?1) WHERE pk > 0 ORDER BY pk")?
        .query_map([table], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let mut statement = conn.prepare(&format!("SELECT * FROM {table} ORDER BY {}", key.join(", ")))?;
    let columns = statement.column_count();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        for column in 0..columns {
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

/// Folds a log anew, into memory, in the shape its program knows. `refusals` must be what the log itself does.
pub fn refold(source: &Store, refusals: Refusals, progress: impl FnMut(Position)) -> Result<Store, Error> {
    refold_until(source, Position(u64::MAX), refusals, progress)
}

/// As [`refold`], up to and with this record: the tables as they were then.
pub fn refold_until(
    source: &Store,
    until: Position,
    refusals: Refusals,
    mut progress: impl FnMut(Position),
) -> Result<Store, Error> {
    let fresh = Store::in_memory_of(source.options.schema)?;
    let transaction = fresh.conn().unchecked_transaction()?;
    {
        let mut tables = Tables::load(&transaction)?;
        let mut statement =
            source.conn().prepare("SELECT position, at, envelope FROM log WHERE position <= ?1 ORDER BY position")?;
        let mut rows = statement.query([until])?;
        while let Some(row) = rows.next()? {
            let record: Record = record_row(row)?;
            let expected = tables.cursor.head.position.next();
            if record.position != expected {
                return Err(Error::Damaged(format!("record {expected} is missing from the log")));
            }
            let outcome = fold(&mut tables, &record, refusals)?;
            if outcome.position.is_none() && refusals == Refusals::Dropped {
                return Err(Error::Damaged(format!(
                    "record {} is in the log but the fold refuses it: {:?}",
                    record.position, outcome.verdict
                )));
            }
            progress(record.position);
        }
        tables.flush()?;
    }
    transaction.commit()?;
    Ok(fresh)
}
