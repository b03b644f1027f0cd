//! The rows of the log itself: envelopes, content, ids, refusals.

use rusqlite::{Connection, Row, params};
use schemars::JsonSchema;
use serde::Serialize;

use super::{Optional as _, Tables, kept};
use crate::digest::Digest;
use crate::error::Error;
use crate::fold::{Code, Verdict};
use crate::limits;
use crate::log::{Arrived, Entry, Head, MalformedRecord, MessageNo, Position, Record, Sealed};
use crate::text::RecordId;
use crate::time::Timestamp;

/// What is known about an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdRow {
    pub position: Position,
    pub fingerprint: [u8; 16],
    pub message: Option<MessageNo>,
}

stored!(IdRow in "ids": position, fingerprint, message);

/// Why a record that a log keeps changed nothing: the fold refused it, or it repeats an earlier one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Refused {
    /// The code of the refusal; `repeat` for a repeated record.
    pub code: String,
    pub reason: String,
}

/// The code of a record that repeats an earlier one.
pub const REPEAT: &str = "repeat";

stored!(Refused in "outcomes": code, reason);

/// Selects the positions of records whose content the office does not keep. Records of a kind that only a newer program
/// knows keep theirs, because the newer program folds them again.
pub const WITHOUT_CONTENT: &str = "SELECT position FROM outcomes WHERE code <> 'unknown_kind'";

impl Tables<'_> {
    pub fn id(&self, id: &RecordId) -> Result<Option<IdRow>, Error> {
        if self.is_above_all(id)? {
            return Ok(None);
        }
        kept(&mut self.kept.id.borrow_mut(), self.conn, select!(IdRow, "WHERE id = ?1"))?
            .query_row([id], |row| row.try_into())
            .optional()
    }

    /// The first unused id derived from what a record is about.
    ///
    /// A refused record keeps its id forever, and the same thing may have to be done more than once. A process that has
    /// folded such a record takes the next id.
    pub fn next_id(&self, base: &str) -> Result<RecordId, Error> {
        let mut attempt = 1_u64;
        loop {
            let id = if attempt == 1 { base.to_owned() } else { format!("{base}/{attempt}") };
            let id: RecordId = id.parse().map_err(|error| Error::Damaged(format!("{error}")))?;
            if self.id(&id)?.is_none() {
                return Ok(id);
            }
            attempt += 1;
        }
    }

    /// Ids made by this program increase with time, so most new ones are known to be new without a lookup.
    fn is_above_all(&self, id: &RecordId) -> Result<bool, Error> {
        let mut cache = self.cache.borrow_mut();
        let greatest = match &mut cache.greatest_id {
            Some(known) => known,
            unknown => unknown.insert(self.value("SELECT max(id) FROM ids", [])?),
        };
        Ok(greatest.as_ref().is_none_or(|greatest| id > greatest))
    }

    /// Appends a record to the log, without its content. `chain` is the chain including this record.
    pub fn insert_record(&mut self, record: &Record, chain: Digest) -> Result<(), Error> {
        debug_assert_eq!(chain, record.chain(&self.cursor.head.chain));
        self.insert_row(record.position, record.at, record.sealed.bytes(), chain, false)
    }

    /// Like [`insert_record`](Self::insert_record), for bytes that are not a valid record.
    pub fn insert_malformed(&mut self, record: &MalformedRecord, chain: Digest) -> Result<(), Error> {
        debug_assert_eq!(chain, record.chain(&self.cursor.head.chain));
        self.insert_row(record.position, record.at, &record.bytes, chain, true)
    }

    fn insert_row(
        &mut self,
        position: Position,
        at: Timestamp,
        bytes: &[u8],
        chain: Digest,
        is_malformed: bool,
    ) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO log (position, at, envelope, chain, malformed) VALUES (?1, ?2, ?3, ?4, ?5)";
        let row = params![position, at, bytes, chain, is_malformed];
        kept(&mut self.kept.insert_record, self.conn, SQL)?.execute(row)?;
        self.cursor.head = Head { position, at, chain };
        Ok(())
    }

    /// Stores the content of a record, if it has any.
    pub fn insert_content(&mut self, record: &Record) -> Result<(), Error> {
        const SQL: &str = "INSERT INTO content (position, subject, bytes) VALUES (?1, ?2, ?3)";
        let Some(content) = &record.sealed.content else { return Ok(()) };
        let inline = (content.bytes.len() <= limits::CONTENT_INLINE_BYTES_MAX).then_some(&content.bytes);
        let row = params![record.position, content.subject, inline];
        kept(&mut self.kept.insert_content, self.conn, SQL)?.execute(row)?;
        Ok(())
    }

    pub fn insert_id(
        &mut self,
        record: &Record,
        fingerprint: [u8; 16],
        message: Option<MessageNo>,
    ) -> Result<(), Error> {
        let sql = if sabotaged!(NoDedupe) {
            "INSERT OR REPLACE INTO ids (id, position, fingerprint, message) VALUES (?1, ?2, ?3, ?4)"
        } else {
            "INSERT INTO ids (id, position, fingerprint, message) VALUES (?1, ?2, ?3, ?4)"
        };
        kept(&mut self.kept.insert_id, self.conn, sql)?.execute(params![
            record.sealed.envelope.id,
            record.position,
            fingerprint,
            message
        ])?;
        let id = &record.sealed.envelope.id;
        match &mut self.cache.get_mut().greatest_id {
            Some(Some(greatest)) if id <= greatest => {}
            Some(greatest) => *greatest = Some(id.clone()),
            None => {}
        }
        Ok(())
    }

    pub fn insert_refusal(&mut self, position: Position, code: &str, reason: &str) -> Result<(), Error> {
        self.execute(
            "INSERT INTO outcomes (position, code, reason) VALUES (?1, ?2, ?3)",
            params![position, code, reason],
        )
    }

    pub fn refusal(&self, position: Position) -> Result<Option<Refused>, Error> {
        self.one(select!(Refused, "WHERE position = ?1"), [position])
    }

    /// Keeps an answer for another process of this machine, and deletes old ones.
    pub fn keep_answer(&mut self, position: Position, verdict: &Verdict) -> Result<(), Error> {
        let verdict = serde_json::to_string(verdict).map_err(|error| Error::Damaged(error.to_string()))?;
        self.execute("INSERT INTO answers (position, verdict) VALUES (?1, ?2)", params![position, verdict])?;
        let oldest = position.0.saturating_sub(limits::ANSWERS_KEPT_RECORDS);
        self.execute("DELETE FROM answers WHERE position <= ?1", [oldest])
    }

    /// The answer this machine got at a position, if it is still kept.
    pub fn answer(&self, position: Position) -> Result<Option<Verdict>, Error> {
        let kept: Option<String> = self.maybe("SELECT verdict FROM answers WHERE position = ?1", [position])?;
        // A newer program's answer may not parse here. The caller then answers from the tables as well as it can.
        Ok(kept.and_then(|kept| serde_json::from_str(&kept).ok()))
    }

    /// Whether the office keeps the content of a record. It does not if the record was refused or repeats another.
    pub fn keeps_content(&self, position: Position) -> Result<bool, Error> {
        let refusal = self.refusal(position)?;
        Ok(refusal.is_none_or(|refused| refused.code == Code::UnknownKind.word()))
    }

    /// Records after a position, oldest first.
    pub fn records_after(&self, after: Position, limit: usize) -> Result<Vec<Record>, Error> {
        let mut statement = self.conn.prepare_cached(
            "SELECT position, at, envelope FROM log WHERE position > ?1 AND malformed = 0 ORDER BY position LIMIT ?2",
        )?;
        let mut rows = statement.query(params![after, limit])?;
        let mut records = Vec::new();
        while let Some(row) = rows.next()? {
            records.push(record_row(row)?);
        }
        Ok(records)
    }

    /// The last record before a time, or 0. Time never decreases in a log, so a binary search finds it.
    pub fn last_before(&self, at: Timestamp) -> Result<Position, Error> {
        let (mut low, mut high) = (0, self.cursor.head.position.0);
        let mut statement = self.conn.prepare_cached("SELECT at FROM log WHERE position = ?1")?;
        while low < high {
            let middle = high - (high - low) / 2;
            let found: Timestamp = statement.query_row([Position(middle)], |row| row.get(0))?;
            if found < at { low = middle } else { high = middle - 1 }
        }
        Ok(Position(low))
    }

    /// The chain of the log at a record; `None` if there is no such record.
    pub fn chain_at(&self, position: Position) -> Result<Option<Digest>, Error> {
        self.maybe("SELECT chain FROM log WHERE position = ?1", [position])
    }

    /// The record at a position; `None` if the bytes there are not a valid record.
    pub fn record(&self, position: Position) -> Result<Option<Record>, Error> {
        let sql = "SELECT position, at, envelope FROM log WHERE position = ?1 AND malformed = 0";
        let found: Option<(Position, Timestamp, Vec<u8>)> = self.one(sql, [position])?;
        found.map(|(position, at, envelope)| open_record(position, at, envelope)).transpose()
    }
}

/// Reads a record from `position, at, envelope`.
pub fn record_row(row: &Row<'_>) -> Result<Record, Error> {
    open_record(row.get(0)?, row.get(1)?, row.get(2)?)
}

/// Reads an entry from `position, at, envelope, malformed`.
pub fn entry_row(row: &Row<'_>) -> Result<Entry, Error> {
    open_entry(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)
}

/// A record from its columns, checked and decoded.
fn open_record(position: Position, at: Timestamp, envelope: Vec<u8>) -> Result<Record, Error> {
    let sealed =
        Sealed::open(envelope).map_err(|malformed| Error::Damaged(format!("record {position}: {malformed}")))?;
    Ok(Record { position, at, sealed })
}

/// An entry from its columns. A record must still parse, and malformed bytes must still be malformed: anything else is
/// damage.
pub fn open_entry(position: Position, at: Timestamp, bytes: Vec<u8>, is_malformed: bool) -> Result<Entry, Error> {
    if !is_malformed {
        return open_record(position, at, bytes).map(Entry::Record);
    }
    match (Arrived { position, at, bytes, content: None }).open()? {
        entry @ Entry::Malformed(_) => Ok(entry),
        Entry::Record(_) => {
            Err(Error::Damaged(format!("record {position}: it is marked as malformed but can be read")))
        }
    }
}

/// What is kept of a record's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContentRow {
    pub subject: String,
    /// `None` if they are in a blob.
    pub bytes: Option<Vec<u8>>,
}

pub fn content_row(conn: &Connection, position: Position) -> Result<Option<ContentRow>, Error> {
    conn.prepare_cached("SELECT subject, bytes FROM content WHERE position = ?1")?
        .query_row([position], |row| Ok(ContentRow { subject: row.get(0)?, bytes: row.get(1)? }))
        .optional()
}
