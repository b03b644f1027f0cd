//! Blobs and archives that no record names, and mirrors of shared contexts that differ from the log.

use std::collections::BTreeSet;

use serde_json::json;

use super::fix::Fix;
use super::folder::files;
use super::{Finding, Opened, Scene};
use crate::digest::Digest;
use crate::error::Error;
use crate::limits::HOUR_MS;
use crate::log::Position;
use crate::progress::Progress;
use crate::store::Store;
use crate::store::archive::{Line, is_archive_name};
use crate::store::folder::{Entry, Kind};
use crate::store::mirror::{self, Mirror};
use crate::text::size;
use crate::views;

/// A blob is written before its record, so a younger one may still get one.
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
        progress(Progress { what: "looking for blobs that no record names", done: position.0, of: up_to.0 });
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
            "Their messages were refused, or were never stored because a command was interrupted.",
        )
        .with_fix(Fix::Orphans(Orphans { digests, up_to })),
    );
    Ok(())
}

/// Whether the mirrors of shared contexts match the log.
pub(super) fn mirrors(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let mut behind = Vec::new();
    for context in opened.store.tables()?.contexts()? {
        let name = context.name;
        match mirror::look(&opened.store, &name)? {
            None | Some(Mirror::Current) => {}
            Some(Mirror::Behind) => behind.push(name),
            Some(Mirror::Edited(path)) if mirror::may_hold_redacted(&opened.store, &name)? => scene.add(
                Finding::warning(
                    "mirror",
                    format!("{} was edited by hand, and may contain text that was redacted since", path.display()),
                    "The context itself is unaffected. The file is kept as it is and no longer updated.",
                )
                .advice("save what you need of the edit elsewhere, without the redacted text; then drop the file")
                .verb("context mirror", json!({ "name": name, "force": true })),
            ),
            Some(Mirror::Edited(path)) => scene.add(
                Finding::warning(
                    "mirror",
                    format!("{} was edited by hand", path.display()),
                    "The context itself is unaffected. The file is kept as it is and no longer updated.",
                )
                .advice(format!("store the edit, or drop it: poste context mirror {name} --force"))
                .verb("context replace", json!({ "name": name, "file": path.display().to_string(), "merge": true })),
            ),
        }
    }
    for path in mirror::strangers(&opened.store)? {
        scene.add(
            Finding::warning(
                "mirror",
                format!("{} belongs to no context", path.display()),
                "It is not a file of the office, perhaps an editor's copy. Redacted text is not erased from it.",
            )
            .advice("check it, then move or delete it"),
        );
    }
    if !behind.is_empty() {
        scene.add(
            Finding::warning(
                "mirror",
                format!("{} in contexts/ missing or behind the log", files(behind.len(), "file")),
                "A command was interrupted, or the office was restored. The contexts themselves are intact.",
            )
            .with_fix(Fix::Mirrors(behind)),
        );
    }
    Ok(())
}

fn old_blobs(scene: &Scene<'_>) -> Result<Vec<(Digest, u64)>, Error> {
    let blobs = scene.entries_of("blobs")?;
    let old = blobs.into_iter().filter(|entry| entry.age_ms() >= ORPHAN_AGE_MS_MIN);
    Ok(old.filter_map(|entry| Some((entry.name.parse().ok()?, entry.bytes))).collect())
}

/// An archive is written before its record, and conversations leave the database only with the record. So an archive
/// without a record is not needed if the log has all of its lines.
pub(super) fn unnamed_archives(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let tables = opened.store.tables()?;
    let (mut spare, mut only_here) = (Vec::new(), Vec::new());
    for entry in scene.entries_of("archive")? {
        let is_old = entry.kind == Kind::File && entry.age_ms() >= ORPHAN_AGE_MS_MIN;
        if !is_old || !is_archive_name(&entry.name) || tables.has_archive_file(&entry.name)? {
            continue;
        }
        match is_in_log(&opened.store, &entry.name)? {
            true => spare.push(entry),
            false => only_here.push(entry),
        }
    }
    scene.findings.extend(only_here.iter().map(archive_beyond_log));
    if spare.is_empty() {
        return Ok(());
    }
    let bytes = spare.iter().map(|entry| entry.bytes).sum();
    let names = spare.into_iter().map(|entry| entry.name).collect::<Vec<_>>();
    scene.add(
        Finding::warning(
            "orphans",
            format!("{} with {} that no record names", files(names.len(), "archive"), size(bytes)),
            "Archiving was interrupted before its record. The conversations are still in the database.",
        )
        .with_fix(Fix::Archives(names)),
    );
    Ok(())
}

fn archive_beyond_log(entry: &Entry) -> Finding {
    Finding::problem(
        "orphans",
        format!("archive/{} is named by no record and contains mail that the log lacks", entry.name),
        "Its record is missing, or it belongs to another office. It may be the only copy of this mail.",
    )
    .advice("keep it; look for the database it belongs to, or a newer snapshot")
}

/// Whether the log has every line of an archive, so that the file can be removed.
pub(super) fn is_in_log(store: &Store, file: &str) -> Result<bool, Error> {
    let Some(archives) = store.archives() else { return Ok(false) };
    let tables = store.tables()?;
    archives.all_lines(file, |line: &Line| {
        let Some(record) = tables.record(line.position)?.filter(|record| record.at == line.at) else {
            return Ok(false);
        };
        let Some(content) = &line.content else { return Ok(true) };
        let is_its = record.sealed.envelope.content.is_some_and(|its| its.digest == Digest::of(content.as_bytes()));
        Ok(is_its && !matches!(views::content(store, line.position)?, views::Found::Gone))
    })
}
