//! The blobs that the log names.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::error::Error;
use crate::log::Position;
use crate::store::Store;
use crate::store::tables::{WITHOUT_CONTENT, record_row};

/// The digests of large content and attached copies that records after a position name. Reads all of these records.
///
/// Excludes redacted and refused records: if their blobs reappear, no record needs them.
pub fn named_blobs(
    store: &Store,
    after: Position,
    mut progress: impl FnMut(Position),
) -> Result<BTreeSet<Digest>, Error> {
    let mut named = BTreeSet::new();
    let mut statement = store.conn().prepare(&format!(
        "SELECT position, at, envelope FROM log
             WHERE position > ?1 AND position NOT IN (SELECT position FROM redactions)
             AND position NOT IN ({WITHOUT_CONTENT}) ORDER BY position",
    ))?;
    let mut rows = statement.query([after])?;
    while let Some(row) = rows.next()? {
        let record = record_row(row)?;
        named.extend(record.sealed.blobs());
        progress(record.position);
    }
    Ok(named)
}
