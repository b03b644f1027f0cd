//! Fixes that are safe without asking: none of them can lose a message or a result.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::files::{ORPHAN_AGE_MS_MIN, Orphans, is_in_log};
use super::folder::{LEFTOVER_AGE_MS_MIN, files};
use super::{Report, quoted};
use crate::error::Error;
use crate::office::{Office, Place};
use crate::store::{Folder, Store, aside, folder, mirror};
use crate::text::ContextName;
use crate::views;

/// A way to fix a finding.
#[derive(Debug, Clone)]
pub(super) enum Fix {
    Mode(PathBuf, u32),
    Modes(Vec<(PathBuf, u32)>),
    MakeMissing,
    /// Such files are only written under the write lock.
    RemoveUnderLock(PathBuf),
    /// Files in a folder of the office that have not been written to for long.
    RemoveOld(&'static str, Vec<PathBuf>),
    RemoveAbandoned(PathBuf),
    Orphans(Orphans),
    /// Archives that no record names.
    Archives(Vec<String>),
    Erase,
    Checkpoint,
    Settle,
    /// Shared contexts whose files are behind the log.
    Mirrors(Vec<ContextName>),
}

/// One attempted fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Mended {
    pub what: String,
    /// Why it failed; null if it was done.
    pub failed: Option<String>,
}

/// Applies all fixes of a report. One that fails is reported and does not stop the others. An office that committed
/// something on the way is passed to `carry_out`.
pub fn apply_fixes(place: &Place, report: &Report, carry_out: &mut dyn FnMut(&mut Office)) -> Vec<Mended> {
    let mut fixes: Vec<&Fix> = report.findings.iter().filter_map(|finding| finding.fix.as_ref()).collect();
    // Modes first: with the folder closed, other users cannot interfere with the rest.
    fixes.sort_by_key(|fix| !matches!(fix, Fix::Mode(..) | Fix::Modes(_)));
    let mut made_missing = false;
    let mut done = Vec::new();
    for fix in fixes {
        if matches!(fix, Fix::MakeMissing) && std::mem::replace(&mut made_missing, true) {
            continue;
        }
        let failed = apply(place, fix, carry_out).err().map(|error| error.to_string());
        done.push(Mended { what: describe(fix, failed.is_none()), failed });
    }
    done
}

fn describe(fix: &Fix, done: bool) -> String {
    let verb = |past: &'static str, infinitive: &'static str| if done { past } else { infinitive };
    let removed = verb("removed", "remove");
    match fix {
        Fix::Mode(path, mode) => format!("chmod {mode:o} {}", quoted(path)),
        Fix::Modes(modes) => format!("chmod of {}", files(modes.len(), "more file")),
        Fix::MakeMissing => format!("{} what was missing in the folder", verb("created", "create")),
        Fix::RemoveUnderLock(path) | Fix::RemoveAbandoned(path) => format!("{removed} {}", path.display()),
        Fix::RemoveOld(folder, paths) => format!("{removed} {} in {folder}/", files(paths.len(), "unfinished file")),
        Fix::Orphans(orphans) => format!("{removed} {} that no record names", files(orphans.digests.len(), "blob")),
        Fix::Archives(names) => format!("{removed} {} that no record names", files(names.len(), "archive")),
        Fix::Erase => format!("{} redacted text from every file", verb("erased", "erase")),
        Fix::Checkpoint => format!("{} office.db-wal", verb("emptied", "empty")),
        Fix::Mirrors(names) => format!("{} {} in contexts/", verb("wrote", "write"), files(names.len(), "file")),
        Fix::Settle => format!("{} due changes", verb("recorded", "record")),
    }
}

fn apply(place: &Place, fix: &Fix, carry_out: &mut dyn FnMut(&mut Office)) -> Result<(), Error> {
    match fix {
        Fix::Mode(path, mode) => set_mode(place, path, *mode),
        Fix::Modes(modes) => modes.iter().try_for_each(|(path, mode)| set_mode(place, path, *mode)),
        Fix::MakeMissing => {
            let made = Folder::open(&place.path).and_then(|office| office.make_missing());
            made.map_err(|error| Error::io(&place.path, error))
        }
        Fix::RemoveUnderLock(path) => {
            let _held = place.lock()?;
            remove_old(place, path, 0)
        }
        Fix::RemoveOld(_, paths) => paths.iter().try_for_each(|path| remove_old(place, path, LEFTOVER_AGE_MS_MIN)),
        Fix::RemoveAbandoned(path) => match aside::is_abandoned(path) {
            true => folder::remove_folder(path),
            false => Ok(()),
        },
        Fix::Orphans(orphans) => remove_orphans(place, orphans),
        Fix::Archives(names) => remove_archives(place, names),
        Fix::Erase => place.open_files()?.erase_all().map(|_| ()),
        Fix::Checkpoint => checkpoint(place),
        Fix::Settle => settle(place, carry_out),
        Fix::Mirrors(names) => {
            let files = place.open_files()?;
            names.iter().try_for_each(|name| mirror::write(files.store(), name, false).map(|_| ()))
        }
    }
}

fn set_mode(place: &Place, path: &Path, mode: u32) -> Result<(), Error> {
    let set = match path == place.path {
        true => Folder::open_as_is(path).and_then(|office| office.set_own_mode(mode)),
        false => within(place, path).and_then(|(folder, name)| folder.set_mode(name, mode)),
    };
    set.map_err(|error| Error::io(path, error))
}

/// Checks the age again, because the file may be in use by now.
fn remove_old(place: &Place, path: &Path, age_ms_min: i64) -> Result<(), Error> {
    let remove = || -> io::Result<()> {
        let (folder, name) = within(place, path)?;
        match folder.entry(name)? {
            Some(entry) if entry.age_ms() >= age_ms_min => folder.remove(name).map(drop),
            _ => Ok(()),
        }
    };
    remove().map_err(|error| Error::io(path, error))
}

/// The folder of the office that a file is in, opened without following links, and its name there.
fn within<'a>(place: &Place, path: &'a Path) -> io::Result<(Folder, &'a OsStr)> {
    let outside = || io::Error::other("it is not in the office");
    let relative = path.strip_prefix(&place.path).map_err(|_| outside())?;
    let (above, name) = relative.parent().zip(relative.file_name()).ok_or_else(outside)?;
    Ok((Folder::open_as_is(&place.path)?.below(above)?, name))
}

/// While the lock is held, no new record can name one of them, and every writer checks under the lock that its blobs
/// still exist. So the rest of the log is read here, and blobs that it does not name are unused.
fn remove_orphans(place: &Place, orphans: &Orphans) -> Result<(), Error> {
    let _held = place.lock()?;
    let store = Store::open_as_is(&place.path, place.options.clone())?;
    let named: BTreeSet<_> = views::named_blobs(&store, orphans.up_to, |_| {})?;
    let Some(blobs) = store.blobs() else { return Ok(()) };
    for digest in orphans.digests.difference(&named) {
        remove_old(place, &blobs.path(digest), ORPHAN_AGE_MS_MIN)?;
    }
    Ok(())
}

/// As with blobs: while the lock is held, no new record can name one, and every writer checks that its file still
/// exists. Each is checked again, because the log may have been replaced by an older one since.
fn remove_archives(place: &Place, names: &[String]) -> Result<(), Error> {
    let _held = place.lock()?;
    let store = Store::open_as_is(&place.path, place.options.clone())?;
    let Some(archives) = store.archives() else { return Ok(()) };
    for name in names {
        let is_orphan = archives.has(name)? && !store.tables()?.has_archive_file(name)?;
        if is_orphan && is_in_log(&store, name)? {
            remove_old(place, &archives.path(name), ORPHAN_AGE_MS_MIN)?;
        }
    }
    Ok(())
}

fn checkpoint(place: &Place) -> Result<(), Error> {
    let _held = place.lock()?;
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
