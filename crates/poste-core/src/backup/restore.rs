//! Creates an office from a snapshot.

use std::path::{Path, PathBuf};

use super::manifest::{ARCHIVE, BLOBS, DATABASE, Manifest, wrong};
use crate::error::Error;
use crate::log::Position;
use crate::office::Place;
use crate::progress::Progress;
use crate::store::aside::{self, Aside};
use crate::store::folder::{self, Kind};
use crate::store::schema::get_meta;
use crate::store::{Folder, Store, file_system};
use crate::views;

/// The outcome of a restore.
#[derive(Debug)]
pub struct Restored {
    pub manifest: Manifest,
    /// Where the previous office is kept.
    pub kept: Option<PathBuf>,
    /// The newest record of the previous office, if that is a copy of the same office and readable.
    pub kept_position: Option<Position>,
    /// The snapshot has an older schema than this program, so the database was upgraded.
    pub migrated: bool,
}

/// Puts a verified copy of a snapshot at a place. Until the last step, the place is empty or has the old office intact.
///
/// With `replace`, the old office is kept beside the new one. Its write lock is held while the two are swapped, so all
/// acknowledged records are in the kept office, and a process that has it open notices before its next write.
///
/// `finished` is called with the new folder before it is put in place.
pub fn restore(
    snapshot: &Path,
    place: &Place,
    replace: bool,
    progress: &mut dyn FnMut(Progress),
    finished: &mut dyn FnMut(&Path) -> Result<(), Error>,
) -> Result<Restored, Error> {
    let manifest = Manifest::read(snapshot)?;
    let (parent, name) = parent_and_name(&place.path)?;
    if folder::entry(&place.path)?.is_some() && !replace {
        return Err(Error::Occupied(place.path.clone()));
    }
    file_system::check(parent)?;
    let aside = Aside::begin(parent, &restoring_prefix(name))?;
    copy_files(snapshot, &manifest, &aside, progress)?;
    let made = Folder::open(aside.path()).and_then(|folder| folder.make_missing());
    made.map_err(|error| Error::io(aside.path(), error))?;
    let migrated = make_office(snapshot, &manifest, &aside, place, progress)?;

    finished(aside.path())?;
    let mut restored = Restored { manifest, kept: None, kept_position: None, migrated };
    match folder::entry(&place.path)? {
        None => aside.place(&place.path)?,
        Some(_) if !replace => return Err(Error::Occupied(place.path.clone())),
        Some(old) => {
            let keep = free_name(&parent.join(format!("{}{}", kept_prefix(name), compact(place.clock.wall()))))?;
            // If it is not an office, it has no writers.
            let is_office = old.kind == Kind::Folder && folder::entry(&place.path.join(DATABASE))?.is_some();
            let _held = is_office.then(|| place.lock()).transpose()?;
            restored.kept_position = last_position(place, &restored.manifest.office);
            aside.replace(&place.path, &keep)?;
            restored.kept = Some(keep);
        }
    }
    Ok(restored)
}

/// The name of an unfinished restore begins with this.
pub(crate) fn restoring_prefix(office: &str) -> String {
    format!("{office}.restoring-")
}

/// The name of a replaced office begins with this.
pub(crate) fn kept_prefix(office: &str) -> String {
    format!("{office}.before-restore-")
}

fn parent_and_name(office: &Path) -> Result<(&Path, &str), Error> {
    let name = office.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong(office, "an office needs a name of its own, in UTF-8".to_owned()))?;
    let parent = folder::parent(office);
    match folder::is_folder(parent) {
        true => Ok((parent, name)),
        false => Err(wrong(office, format!("there is no folder {}", parent.display()))),
    }
}

fn copy_files(
    snapshot: &Path,
    manifest: &Manifest,
    aside: &Aside,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    aside.folder(BLOBS)?;
    if manifest.files.iter().any(|file| file.path.starts_with(ARCHIVE)) {
        aside.folder(ARCHIVE)?;
    }
    let of = manifest.bytes();
    let mut done = 0;
    for file in &manifest.files {
        let from = snapshot.join(&file.path);
        let moved = |bytes| {
            done += bytes;
            progress(Progress { what: "copying and checking files", done, of });
        };
        let Some(source) = aside::source(snapshot, &file.path)? else {
            return Err(wrong(&from, "the snapshot is incomplete: this file is missing".to_owned()));
        };
        let copied = aside::copy(source, &aside.path().join(&file.path), moved)?;
        if copied.digest != file.digest || copied.size != file.bytes {
            return Err(wrong(&from, "the snapshot is damaged: this file does not match its digest".to_owned()));
        }
    }
    Ok(())
}

/// Verifies the copy and makes it an office of this machine. Returns whether it had an older schema.
fn make_office(
    snapshot: &Path,
    manifest: &Manifest,
    aside: &Aside,
    place: &Place,
    progress: &mut dyn FnMut(Progress),
) -> Result<bool, Error> {
    let store = Store::open(aside.path(), place.options.clone())?;
    let migrated = store.schema_version() > manifest.schema;
    let report = views::verify(&store, |position| {
        progress(Progress { what: "verifying", done: position.0, of: manifest.position.0 });
    })?;
    let unlike = if let Some(problem) = report.problems.first() {
        Some(problem.what.as_str())
    } else if get_meta::<String>(store.conn(), "office")?.as_deref() != Some(manifest.office.as_str()) {
        Some("the database belongs to another office than the manifest names")
    } else if (report.position, report.chain) != (manifest.position, manifest.chain) {
        Some("the log does not end where the manifest says it does")
    } else if report.tables != manifest.tables && !migrated {
        Some("the tables do not match the manifest")
    } else {
        None
    };
    if let Some(why) = unlike {
        return Err(wrong(snapshot, format!("the snapshot is damaged: {why}")));
    }
    store.settle_in(place.clock.wall(), manifest)?;
    Ok(migrated)
}

/// The newest record of the office at a place, if it is a copy of this one.
fn last_position(place: &Place, office: &str) -> Option<Position> {
    let old = Store::open_as_is(&place.path, place.options.clone()).ok()?;
    let same = get_meta::<String>(old.conn(), "office").ok()?.is_some_and(|id| id == office);
    old.tables().ok().filter(|_| same).map(|tables| tables.cursor.head.position)
}

fn compact(at: crate::Timestamp) -> String {
    at.to_jiff().strftime("%Y%m%dT%H%M%SZ").to_string()
}

/// The path, with a number appended if it is taken.
fn free_name(path: &Path) -> Result<PathBuf, Error> {
    let mut name = path.to_owned();
    let mut number = 1;
    while folder::entry(&name)?.is_some() {
        number += 1;
        name = PathBuf::from(format!("{}-{number}", path.display()));
    }
    Ok(name)
}
