//! Which blobs the log speaks of.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::error::Error;
use crate::limits::CONTENT_INLINE_BYTES_MAX;
use crate::log::Position;
use crate::store::Store;
use crate::store::tables::record_row;

/// The digests of large content and attached copies that records after a position name. It reads all of them.
///
/// Also of content that was erased since: what is named here may be gone, what is not named here belongs to nobody.
pub fn named_blobs(
    store: &Store,
    after: Position,
    mut progress: impl FnMut(Position),
) -> Result<BTreeSet<Digest>, Error> {
    let mut named = BTreeSet::new();
    let mut statement =
        store.conn().prepare("SELECT position, at, envelope FROM log WHERE position > ?1 ORDER BY position")?;
    let mut rows = statement.query([after])?;
    while let Some(row) = rows.next()? {
        let record = record_row(row)?;
        let content = record.sealed.envelope.content;
        named.extend(
            content.filter(|content| content.length > CONTENT_INLINE_BYTES_MAX as u64).map(|content| content.digest),
        );
        named.extend(record.sealed.attached().into_iter().filter_map(|artifact| artifact.digest));
        progress(record.position);
    }
    Ok(named)
}
