//! The ids of ticks. They are derived from what is due, so that many machines that see the same thing due make one
//! tick of it.

use super::tables::{DueItem, Tables};
use crate::error::Error;
use crate::log::OFFICE_IDS;
use crate::text::RecordId;

/// The id of the tick that settles this item before any other.
///
/// A tick may be refused, because a machine was ahead of the log's time, and then its id is taken for ever. So is that of
/// a tick after which the same item came due once more. Whoever has folded such a tick takes the next id.
pub(super) fn id(tables: &Tables<'_>, first: DueItem) -> Result<RecordId, Error> {
    let base = format!("{OFFICE_IDS}tick/{}/{}/{}", first.at.ms(), first.what, first.subject);
    let mut attempt = 1_u64;
    loop {
        let id = if attempt == 1 { base.clone() } else { format!("{base}/{attempt}") };
        let id: RecordId = id.parse().map_err(|error| Error::Damaged(format!("{error}")))?;
        if tables.id(&id)?.is_none() {
            return Ok(id);
        }
        attempt += 1;
    }
}
