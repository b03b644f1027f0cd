//! Blobs that no record names.

use std::collections::BTreeSet;

use super::fix::Mend;
use super::folder::files;
use super::{Finding, Opened, Scene};
use crate::digest::Digest;
use crate::error::Error;
use crate::limits::HOUR_MS;
use crate::log::Position;
use crate::progress::Progress;
use crate::store::folder;
use crate::text::size;
use crate::views;

/// A blob is written before its record; a younger one may still get it.
pub(super) const ORPHAN_AGE_MS_MIN: i64 = HOUR_MS;

/// Blobs that no record up to a position named, old enough not to be in flight.
#[derive(Debug, Clone)]
pub(super) struct Orphans {
    pub digests: BTreeSet<Digest>,
    pub up_to: Position,
}

pub(super) fn orphans(scene: &mut Scene<'_>, opened: &Opened, progress: &mut dyn FnMut(Progress)) -> Result<(), Error> {
    let old = old_blobs(scene)?;
    if old.is_empty() {
        return Ok(());
    }
    let up_to = opened.store.tables()?.cursor.head.position;
    let named = views::named_blobs(&opened.store, Position(0), |position| {
        progress(Progress { what: "looking for blobs nobody names", done: position.0, of: up_to.0 });
    })?;
    let orphans: Vec<_> = old.into_iter().filter(|(digest, _)| !named.contains(digest)).collect();
    if orphans.is_empty() {
        return Ok(());
    }
    let bytes = orphans.iter().map(|(_, bytes)| bytes).sum();
    let digests = orphans.iter().map(|(digest, _)| *digest).collect();
    scene.add(
        Finding::warning(
            "orphans",
            format!("{} with {} that no record names", files(orphans.len(), "blob"), size(bytes)),
            "Their messages were refused, or never stored because a command was interrupted.",
        )
        .mend(Mend::Orphans(Orphans { digests, up_to })),
    );
    Ok(())
}

fn old_blobs(scene: &Scene<'_>) -> Result<Vec<(Digest, u64)>, Error> {
    let blobs = folder::entries(&scene.place.path.join("blobs"))?;
    let old = blobs.into_iter().filter(|entry| entry.age_ms >= ORPHAN_AGE_MS_MIN);
    Ok(old.filter_map(|entry| Some((entry.name.parse().ok()?, entry.bytes))).collect())
}
