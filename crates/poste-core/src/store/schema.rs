//! The schema, step by step. A new office runs all steps; there is no second schema.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension};

use crate::digest::Digest;
use crate::error::Error;

/// "POST": distinguishes an office from any other SQLite file.
pub const APPLICATION_ID: i32 = 0x504f_5354;

/// One migration. Its version is its place in the list, starting at 1.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub sql: &'static str,
    /// The oldest schema that a program must know to write a file of this version.
    pub min_writer: u32,
    /// The oldest schema that a program must know to read it.
    pub min_reader: u32,
}

/// The steps that a program knows. A parameter rather than a constant, so that tests can run a future program.
#[derive(Debug, Clone, Copy)]
pub struct Schema {
    pub steps: &'static [Step],
}

pub const CURRENT: Schema =
    Schema { steps: &[Step { sql: include_str!("steps/0001_office.sql"), min_writer: 1, min_reader: 1 }] };

impl Schema {
    pub fn version(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// The shape of a file of this version: the result of its steps, which is the same for every such file.
    pub fn shape_of(&self, version: u32) -> Result<Shape, Error> {
        let steps = self.steps.get(..version as usize).unwrap_or(self.steps);
        let conn = Connection::open_in_memory()?;
        Schema { steps }.migrate(&conn, 0)?;
        shape(&conn)
    }

    /// Runs the steps that a file lacks. The caller holds the write lock and an open transaction.
    pub fn migrate(&self, conn: &Connection, from: u32) -> Result<(), Error> {
        for (index, step) in self.steps.iter().enumerate().skip(from as usize) {
            conn.execute_batch(step.sql)?;
            let version = u32::try_from(index + 1).unwrap_or(u32::MAX);
            conn.pragma_update(None, "user_version", version)?;
            set_meta(conn, "min_writer", step.min_writer)?;
            set_meta(conn, "min_reader", step.min_reader)?;
        }
        conn.pragma_update(None, "application_id", APPLICATION_ID)?;
        Ok(())
    }
}

/// What a file says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileVersion {
    pub application_id: i32,
    pub schema: u32,
    pub min_writer: u32,
    pub min_reader: u32,
}

impl FileVersion {
    pub fn read(conn: &Connection) -> Result<Self, Error> {
        let application_id = conn.pragma_query_value(None, "application_id", |row| row.get(0))?;
        let schema = conn.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if application_id != APPLICATION_ID || schema == 0 {
            return Ok(Self { application_id, schema, min_writer: 0, min_reader: 0 });
        }
        Ok(Self {
            application_id,
            schema,
            min_writer: get_meta(conn, "min_writer")?.unwrap_or(u32::MAX),
            min_reader: get_meta(conn, "min_reader")?.unwrap_or(u32::MAX),
        })
    }

    /// The check inside every write transaction, because a process may outlive an upgrade of its office. The two
    /// numbers that decide are rows, and reading a row is faster than a pragma.
    pub fn may_still_write(conn: &Connection, ours: u32) -> Result<(), Error> {
        Self::allow("read", get_meta(conn, "min_reader")?.unwrap_or(u32::MAX), ours)?;
        Self::allow("write", get_meta(conn, "min_writer")?.unwrap_or(u32::MAX), ours)
    }

    pub fn may_read(&self, ours: u32) -> Result<(), Error> {
        Self::allow("read", self.min_reader, ours)
    }

    pub fn may_write(&self, ours: u32) -> Result<(), Error> {
        self.may_read(ours)?;
        Self::allow("write", self.min_writer, ours)
    }

    fn allow(what: &'static str, needed: u32, ours: u32) -> Result<(), Error> {
        if needed > ours && !sabotaged!(VersionUnchecked) {
            return Err(Error::NeedsUpgrade { what, needed, ours });
        }
        Ok(())
    }
}

/// One part of a file. A file can be crafted by anyone, so its values are not trusted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    /// `table`, `index`, `view` or `trigger`.
    pub kind: String,
    pub name: String,
}

/// The table each part belongs to, and the SQL that created it.
pub type Shape = BTreeMap<Part, (String, String)>;

/// Every table, index, view and trigger of a file. The tables that `ANALYZE` writes do not count.
pub fn shape(conn: &Connection) -> Result<Shape, Error> {
    let mut statement = conn.prepare(
        "SELECT coalesce(CAST(type AS TEXT), ''), coalesce(CAST(name AS TEXT), ''), coalesce(CAST(tbl_name AS TEXT), ''),
                coalesce(CAST(sql AS TEXT), '')
         FROM sqlite_schema
         WHERE NOT (type = 'table' AND name IN ('sqlite_stat1', 'sqlite_stat2', 'sqlite_stat3', 'sqlite_stat4'))",
    )?;
    let parts = statement
        .query_map([], |row| Ok((Part { kind: row.get(0)?, name: row.get(1)? }, (row.get(2)?, row.get(3)?))))?
        .collect::<Result<_, _>>()?;
    Ok(parts)
}

/// The id of an office, which is that of its log on every machine that has a copy.
pub(crate) const OFFICE: &str = "office";

/// Set in an office that follows a log ordered by another engine.
const FOLLOWS: &str = "follows";

pub(crate) fn set_follows(conn: &Connection) -> Result<(), Error> {
    set_meta(conn, FOLLOWS, true)
}

pub(crate) fn follows(conn: &Connection) -> Result<bool, Error> {
    Ok(get_meta::<bool>(conn, FOLLOWS)?.is_some())
}

/// An office whose log is ordered elsewhere takes its id from the log, so that it is the same office on every machine.
pub(crate) fn name_office(conn: &Connection, first: Option<Digest>) -> Result<(), Error> {
    match first {
        Some(first) if get_meta::<String>(conn, OFFICE)?.is_none() => set_meta(conn, OFFICE, first.to_string()),
        _ => Ok(()),
    }
}

pub fn get_meta<T: rusqlite::types::FromSql>(conn: &Connection, key: &str) -> Result<Option<T>, Error> {
    Ok(conn.prepare_cached("SELECT value FROM meta WHERE key = ?1")?.query_row([key], |row| row.get(0)).optional()?)
}

pub fn set_meta<T: rusqlite::types::ToSql>(conn: &Connection, key: &str, value: T) -> Result<(), Error> {
    conn.prepare_cached("INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2")?
        .execute(rusqlite::params![key, value])?;
    Ok(())
}
