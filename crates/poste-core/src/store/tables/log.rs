//! The log's own rows: envelopes, content, ids, refusals.

use rusqlite::{Connection, Row, params};

use super::{Optional as _, Tables};
use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Position, Record, Sealed};
use crate::text::RecordId;

/// What is known of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRow {
    pub position: Position,
    pub fingerprint: [u8; 16],
    pub message: Option<MessageNo>,
}

/// A record the fold refused, on a log that keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    pub code: String,
    pub reason: String,
}

impl Tables<'_> {
    pub fn id(&self, id: &RecordId) -> Result<Option<IdRow>, Error> {
        self.conn
            .prepare_cached("SELECT position, fingerprint, message FROM ids WHERE id = ?1")?
            .query_row([id], |row| Ok(IdRow { position: row.get(0)?, fingerprint: row.get(1)?, message: row.get(2)? }))
            .optional()
    }

    /// Puts a record at the end of the log.
    pub fn insert_record(&mut self, record: &Record) -> Result<(), Error> {
        let chain = record.chain(&self.cursor.head.chain);
        self.conn
            .prepare_cached("INSERT INTO log (position, at, envelope, chain) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![record.position, record.at, record.sealed.bytes(), chain.as_bytes()])?;
        if let Some(content) = &record.sealed.content {
            let inline = (content.bytes.len() <= limits::CONTENT_INLINE_BYTES_MAX).then_some(&content.bytes);
            self.conn
                .prepare_cached("INSERT INTO content (position, subject, bytes) VALUES (?1, ?2, ?3)")?
                .execute(params![record.position, content.subject, inline])?;
        }
        self.cursor.head.position = record.position;
        self.cursor.head.at = record.at;
        self.cursor.head.chain = chain;
        Ok(())
    }

    pub fn insert_id(&mut self, record: &Record, message: Option<MessageNo>) -> Result<(), Error> {
        let insert = if sabotaged!(NoDedupe) {
            "INSERT OR REPLACE INTO ids (id, position, fingerprint, message) VALUES (?1, ?2, ?3, ?4)"
        } else {
            "INSERT INTO ids (id, position, fingerprint, message) VALUES (?1, ?2, ?3, ?4)"
        };
        self.conn.prepare_cached(insert)?.execute(params![
            record.sealed.envelope.id,
            record.position,
            record.sealed.envelope.fingerprint(),
            message
        ])?;
        Ok(())
    }

    pub fn insert_refusal(&mut self, position: Position, code: &str, reason: &str) -> Result<(), Error> {
        self.conn
            .prepare_cached("INSERT INTO outcomes (position, code, reason) VALUES (?1, ?2, ?3)")?
            .execute(params![position, code, reason])?;
        Ok(())
    }

    pub fn refusal(&self, position: Position) -> Result<Option<Refused>, Error> {
        self.conn
            .prepare_cached("SELECT code, reason FROM outcomes WHERE position = ?1")?
            .query_row([position], |row| Ok(Refused { code: row.get(0)?, reason: row.get(1)? }))
            .optional()
    }

    /// Records after a position, oldest first.
    pub fn records_after(&self, after: Position, limit: usize) -> Result<Vec<Record>, Error> {
        let mut statement = self
            .conn
            .prepare_cached("SELECT position, at, envelope FROM log WHERE position > ?1 ORDER BY position LIMIT ?2")?;
        let mut rows = statement.query(params![after, limit])?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            records.push(record_row(row)?);
        }
        Ok(records)
    }

    pub fn record(&self, position: Position) -> Result<Option<Record>, Error> {
        self.conn
            .prepare_cached("SELECT position, at, envelope FROM log WHERE position = ?1")?
            .query_row([position], |row| Ok(record_row(row)))
            .optional()?
            .transpose()
    }
}

/// Reads `position, at, envelope`.
pub fn record_row(row: &Row<'_>) -> Result<Record, Error> {
    let position = row.get(0)?;
    let sealed =
        Sealed::open(row.get(2)?).map_err(|malformed| Error::Damaged(format!("record {position}: {malformed}")))?;
    Ok(Record { position, at: row.get(1)?, sealed })
}

/// What is kept of a record's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentRow {
    pub subject: String,
    /// `None`: a blob has them.
    pub bytes: Option<Vec<u8>>,
}

pub fn content_row(conn: &Connection, position: Position) -> Result<Option<ContentRow>, Error> {
    conn.prepare_cached("SELECT subject, bytes FROM content WHERE position = ?1")?
        .query_row([position], |row| Ok(ContentRow { subject: row.get(0)?, bytes: row.get(1)? }))
        .optional()
}
