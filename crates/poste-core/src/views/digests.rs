//! Compares the digests of all tables: of an office with its own replayed log, or with another copy.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use crate::digest::Digest;
use crate::error::Error;
use crate::log::Position;
use crate::store::Store;
use crate::store::table_digest::{digest_by_table, refold_until};

/// The digests of one table.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct TableDigests {
    pub table: String,
    /// Null if the table does not exist.
    pub ours: Option<Digest>,
    pub theirs: Option<Digest>,
    pub equal: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DigestDiff {
    /// The position at which they were compared.
    pub position: Position,
    /// The ends of this office's log and of the other one.
    pub ours: Position,
    pub theirs: Position,
    pub equal: bool,
    pub tables: Vec<TableDigests>,
    /// The first record that differs between the logs, if one was searched for and found.
    pub parted_at: Option<Position>,
}

/// The head of one office and the digests of its tables, read at one moment.
struct Side {
    head: Position,
    digests: Vec<(String, Digest)>,
}

fn side(store: &Store) -> Result<Side, Error> {
    store.view(|tables| Ok(Side { head: tables.cursor.head.position, digests: digest_by_table(tables.conn())? }))
}

/// Compares the live tables with those of the replayed log.
pub fn diff_with_fold(store: &Store, progress: impl FnMut(Position)) -> Result<DigestDiff, Error> {
    let ours = side(store)?;
    let folded = refold_until(store, ours.head, progress)?;
    let theirs = side(&folded)?;
    Ok(diff(ours.head, &ours, &theirs, (ours.head, theirs.head)))
}

/// Compares the tables of two offices at the last common position. The one that is ahead is replayed up to there.
pub fn diff_with_other(store: &Store, other: &Store, mut progress: impl FnMut(Position)) -> Result<DigestDiff, Error> {
    let (ours, theirs) = (side(store)?, side(other)?);
    let heads = (ours.head, theirs.head);
    let common = ours.head.min(theirs.head);
    let mut at_common = |store: &Store, side: Side| match side.head == common {
        true => Ok(side),
        false => refold_until(store, common, &mut progress).and_then(|folded| self::side(&folded)),
    };
    let (ours, theirs) = (at_common(store, ours)?, at_common(other, theirs)?);
    Ok(diff(common, &ours, &theirs, heads))
}

fn diff(position: Position, ours: &Side, theirs: &Side, heads: (Position, Position)) -> DigestDiff {
    let map = |side: &Side| side.digests.iter().cloned().collect::<BTreeMap<String, Digest>>();
    let (our_tables, their_tables) = (map(ours), map(theirs));
    let names: BTreeSet<&String> = our_tables.keys().chain(their_tables.keys()).collect();
    let tables: Vec<TableDigests> = names
        .into_iter()
        .map(|table| {
            let (ours, theirs) = (our_tables.get(table).copied(), their_tables.get(table).copied());
            TableDigests { table: table.clone(), ours, theirs, equal: ours == theirs }
        })
        .collect();
    let equal = tables.iter().all(|table| table.equal);
    DigestDiff { position, ours: heads.0, theirs: heads.1, equal, tables, parted_at: None }
}

/// The first record that differs between two logs, up to the end of the shorter one.
///
/// Compares the rows and not only the chain, to find records that were changed without the chain.
pub fn first_difference(
    store: &Store,
    other: &Store,
    mut progress: impl FnMut(Position),
) -> Result<Option<Position>, Error> {
    const SQL: &str = "SELECT position, at, envelope, chain, malformed FROM log ORDER BY position";
    type Row = (Position, i64, Vec<u8>, Vec<u8>, bool);
    let read = |row: &rusqlite::Row<'_>| Row::try_from(row);
    let (mut ours, mut theirs) = (store.conn().prepare(SQL)?, other.conn().prepare(SQL)?);
    for (ours, theirs) in ours.query_map([], read)?.zip(theirs.query_map([], read)?) {
        let (ours, theirs) = (ours?, theirs?);
        if ours != theirs {
            return Ok(Some(ours.0.min(theirs.0)));
        }
        progress(ours.0);
    }
    Ok(None)
}
