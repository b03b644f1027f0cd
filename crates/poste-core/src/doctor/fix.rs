//! What can be mended without asking: nothing here can lose a message or an answer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{ORPHAN_AGE_MS_MIN, Orphans, is_in_log};
use super::folder::{LEFTOVER_AGE_MS_MIN, files};
use super::{Report, quoted};
use crate::error::Error;
use crate::office::{Office, Place};
use crate::store::{Store, WriteLock, aside, folder, mirror};
use crate::text::ContextName;
use crate::views;

/// A way to mend a finding.
#[derive(Debug, Clone)]
pub(super) enum Mend {
    Mode(PathBuf, u32),
    Modes(Vec<(PathBuf, u32)>),
    MakeMissing,
    /// Whoever writes such a file holds the write lock.
    RemoveUnderLock(PathBuf),
    /// Files in a folder of the office that nobody has written to for long.
    RemoveOld(&'static str, Vec<PathBuf>),
    RemoveAbandoned(PathBuf),
    Orphans(Orphans),
    /// Archives that no record names, by their names.
    Archives(Vec<String>),
    Erase,
    Checkpoint,
    Settle,
    /// Shared contexts whose files are behind the log.
    Mirrors(Vec<ContextName>),
}

/// One thing that was tried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mended {
    pub what: String,
    /// Why it could not be done; null when it was.
    pub failed: Option<String>,
}

/// Does what the findings of a report allow. What could not be done is told, and the rest is done all the same. An office that
/// committed something on the way is handed to `carry_out`.
pub fn mend(place: &Place, report: &Report, carry_out: &mut dyn FnMut(&mut Office)) -> Vec<Mended> {
    let mut mends: Vec<&Mend> = report.findings.iter().filter_map(|finding| finding.mend.as_ref()).collect();
    // Modes first: behind a closed folder nothing interferes with the rest.
    mends.sort_by_key(|mend| !matches!(mend, Mend::Mode(..) | Mend::Modes(_)));
    let mut made_missing = false;
    let mut done = Vec::new();
    for mend in mends {
        if matches!(mend, Mend::MakeMissing) && std::mem::replace(&mut made_missing, true) {
            continue;
        }
        let failed = apply(place, mend, carry_out).err().map(|error| error.to_string());
        done.push(Mended { what: describe(mend, failed.is_none()), failed });
    }
    done
}

fn describe(mend: &Mend, done: bool) -> String {
    let verb = |past: &'static str, infinitive: &'static str| if done { past } else { infinitive };
    let removed = verb("removed", "remove");
    match mend {
        Mend::Mode(path, mode) => format!("chmod {mode:o} {}", quoted(path)),
        Mend::Modes(modes) => format!("chmod of {}", files(modes.len(), "more file")),
        Mend::MakeMissing => format!("{} what was missing in the folder", verb("made", "make")),
        Mend::RemoveUnderLock(path) | Mend::RemoveAbandoned(path) => format!("{removed} {}", path.display()),
        Mend::RemoveOld(folder, paths) => format!("{removed} {} in {folder}/", files(paths.len(), "unfinished file")),
        Mend::Orphans(orphans) => format!("{removed} {} that no record names", files(orphans.digests.len(), "blob")),
        Mend::Archives(names) => format!("{removed} {} that no record names", files(names.len(), "archive")),
        Mend::Erase => format!("{} what was redacted from every file", verb("erased", "erase")),
        Mend::Checkpoint => format!("{} office.db-wal", verb("emptied", "empty")),
        Mend::Mirrors(names) => format!("{} {} in contexts/", verb("wrote", "write"), files(names.len(), "file")),
        Mend::Settle => format!("{} what was due", verb("recorded", "record")),
    }
}

fn apply(place: &Place, mend: &Mend, carry_out: &mut dyn FnMut(&mut Office)) -> Result<(), Error> {
    match mend {
        Mend::Mode(path, mode) => folder::set_mode(path, *mode),
        Mend::Modes(modes) => modes.iter().try_for_each(|(path, mode)| folder::set_mode(path, *mode)),
        Mend::MakeMissing => folder::make_missing(&place.path),
        Mend::RemoveUnderLock(path) => {
            let _held = lock(place)?;
            folder::remove_file(path)
        }
        Mend::RemoveOld(_, paths) => paths.iter().try_for_each(|path| remove_old(path, LEFTOVER_AGE_MS_MIN)),
        Mend::RemoveAbandoned(path) => match aside::is_abandoned(path) {
            true => folder::remove_folder(path),
            false => Ok(()),
        },
        Mend::Orphans(orphans) => remove_orphans(place, orphans),
        Mend::Archives(names) => remove_archives(place, names),
        Mend::Erase => place.open_files()?.erase_all().map(|_| ()),
        Mend::Checkpoint => checkpoint(place),
        Mend::Settle => settle(place, carry_out),
        Mend::Mirrors(names) => {
            let files = place.open_files()?;
            names.iter().try_for_each(|name| mirror::write(files.store(), name, false).map(|_| ()))
        }
    }
}

fn lock(place: &Place) -> Result<impl Sized, Error> {
    WriteLock::new(&place.path, &place.options.program).acquire(place.options.lock_timeout)
}

/// Looks once more: it may have come to life since.
fn remove_old(path: &Path, age_ms_min: i64) -> Result<(), Error> {
    match folder::entry(path)? {
        Some(entry) if entry.age_ms >= age_ms_min => folder::remove_file(path),
        _ => Ok(()),
    }
}

/// Under the lock no record can come that names one of them, and every writer looks under the lock whether its blobs are
/// still there. So the log is read up to its end once more, and what it does not name is nobody's.
fn remove_orphans(place: &Place, orphans: &Orphans) -> Result<(), Error> {
    let _held = lock(place)?;
    let store = Store::open_as_is(&place.path, place.options.clone())?;
    let named: BTreeSet<_> = views::named_blobs(&store, orphans.up_to, |_| {})?;
    let Some(blobs) = store.blobs() else { return Ok(()) };
    for digest in orphans.digests.difference(&named) {
        remove_old(&blobs.path(digest), ORPHAN_AGE_MS_MIN)?;
    }
    Ok(())
}

/// As with blobs: under the lock no record can come that names one, and whoever would write one looks whether its file is
/// still there. Each is looked at once more, because a log may have been exchanged for an older one since.
fn remove_archives(place: &Place, names: &[String]) -> Result<(), Error> {
    let _held = lock(place)?;
    let store = Store::open_as_is(&place.path, place.options.clone())?;
    let Some(archives) = store.archives() else { return Ok(()) };
    for name in names {
        let is_orphan = folder::entry(&archives.path(name))?.is_some() && !store.tables()?.has_archive_file(name)?;
        if is_orphan && is_in_log(&store, name)? {
            remove_old(&archives.path(name), ORPHAN_AGE_MS_MIN)?;
        }
    }
    Ok(())
}

fn checkpoint(place: &Place) -> Result<(), Error> {
    let _held = lock(place)?;
    let store = Store::open_as_is(&place.path, place.options.clone())?;
    store.empty_wal();
    match store.wal_bytes() {
        0 => Ok(()),
        _ => Err(Error::Busy { holder: "a reader".to_owned(), waited_ms: 0 }),
    }
}

fn settle(place: &Place, carry_out: &mut dyn FnMut(&mut Office)) -> Result<(), Error> {
    let mut office = place.open()?;
    let settled = office.settle_patiently();
    carry_out(&mut office);
    settled
}
