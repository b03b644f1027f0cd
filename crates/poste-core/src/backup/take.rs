//! Takes a snapshot while other processes write.

use std::path::Path;

use super::manifest::{ARCHIVE, BLOBS, DATABASE, Manifest, ManifestFile, wrong};
use crate::error::Error;
use crate::office::Office;
use crate::progress::Progress;
use crate::store::aside::{self, Aside};
use crate::store::blobs::Stored;
use crate::store::folder::{self, Kind};
use crate::store::schema::get_meta;
use crate::store::{Options, Store};
use crate::views;

/// Copies an office into a new folder. The copy has everything that was acknowledged before this call.
///
/// The database is copied first, at one position. Blobs and archives are written before the records that name them and
/// never change, so all that the copied log names can be copied afterwards.
pub fn take(from: &Office, into: &Path, progress: &mut dyn FnMut(Progress)) -> Result<Manifest, Error> {
    let office = from.path()?;
    let (parent, name) = place(into)?;
    if folder::entry(into)?.is_some() {
        return Err(Error::Occupied(into.to_owned()));
    }
    if aside::is_within(parent, office)? {
        return Err(wrong(into, "a snapshot cannot be inside its own office".to_owned()));
    }
    clear_abandoned(parent)?;
    let aside = Aside::begin(parent, &format!(".{name}{UNFINISHED}"))?;

    progress(Progress::begin("copying the database"));
    let head = from.snapshot(&aside.path().join(DATABASE))?;

    let options = Options { schema: from.store().schema(), ..Options::default() };
    let copy = Store::open_copy_of_office(aside.path(), options)?;
    let id = get_meta(copy.conn(), "office")?.unwrap_or_default();
    let mut manifest = Manifest::of(id, copy.version()?.schema, from.wall().to_string());
    copy_blobs(&copy, from, &aside, &mut manifest, progress)?;
    copy_archives(&copy, from, &aside, &mut manifest, progress)?;

    let report = views::verify(&copy, |position| {
        progress(Progress { what: "verifying the copy", done: position.0, of: head.position.0 });
    })?;
    if let Some(problem) = report.problems.first() {
        let more = report.problems.len() - 1;
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Err(Error::Damaged(format!("{problem}{more}; no snapshot was made")));
    }
    manifest.position = report.position;
    manifest.chain = report.chain;
    manifest.tables = report.tables;
    drop(copy);

    manifest.files.insert(0, file(DATABASE.to_owned(), aside::hash(&aside.path().join(DATABASE))?));
    manifest.write(aside.path())?;
    aside.place(into)?;
    Ok(manifest)
}

/// The parent folder and the name of a snapshot.
fn place(into: &Path) -> Result<(&Path, &str), Error> {
    let name = into.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| wrong(into, "a snapshot needs a name of its own, in UTF-8".to_owned()))?;
    let parent = folder::parent(into);
    match folder::is_folder(parent) {
        true => Ok((parent, name)),
        false => Err(wrong(into, format!("there is no folder {}", parent.display()))),
    }
}

/// Skips blobs that the office lacks: verifying the copy reports each of them with its record.
fn copy_blobs(
    copy: &Store,
    from: &Office,
    aside: &Aside,
    manifest: &mut Manifest,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let Some(blobs) = from.store().blobs() else { return Ok(()) };
    let named = views::named_blobs(copy, crate::Position(0), |_| {})?;
    let target = aside.folder(BLOBS)?;
    let of = named.len() as u64;
    for (done, digest) in named.into_iter().enumerate() {
        progress(Progress { what: "copying blobs", done: done as u64, of });
        let name = digest.to_string();
        let Some(source) = blobs.open(&digest)? else { continue };
        let copied = aside::copy(source, &target.join(&name), |_| {})?;
        if copied.digest != digest {
            return Err(Error::Damaged(format!("blob {name} does not match its name; no snapshot was made")));
        }
        manifest.files.push(file(format!("{BLOBS}/{name}"), copied));
    }
    Ok(())
}

/// Copies the archives that records of the copy name. Other files are unfinished or left over.
fn copy_archives(
    copy: &Store,
    from: &Office,
    aside: &Aside,
    manifest: &mut Manifest,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let named = copy.tables()?.archives()?;
    let Some(archives) = from.store().archives().filter(|_| !named.is_empty()) else { return Ok(()) };
    let target = aside.folder(ARCHIVE)?;
    let of = named.len() as u64;
    for (done, archive) in named.into_iter().enumerate() {
        progress(Progress { what: "copying archives", done: done as u64, of });
        let name = archive.file;
        // Verifying the copy reports a missing one.
        if archives.has(&name)? {
            let copied = aside::copy(archives.open(&name)?, &target.join(&name), |_| {})?;
            manifest.files.push(file(format!("{ARCHIVE}/{name}"), copied));
        }
    }
    Ok(())
}

fn file(path: String, stored: Stored) -> ManifestFile {
    ManifestFile { path, bytes: stored.size, digest: stored.digest }
}

/// The suffix of a snapshot that is being built.
const UNFINISHED: &str = ".unfinished-";

/// Removes what killed processes left in this folder, under any snapshot name.
fn clear_abandoned(parent: &Path) -> Result<(), Error> {
    for entry in folder::entries(parent)? {
        if entry.kind == Kind::Folder && is_unfinished(&entry.name) && aside::is_abandoned(&entry.path) {
            folder::remove_folder(&entry.path)?;
        }
    }
    Ok(())
}

/// `.NAME.unfinished-` and the digits of a UUID: nothing else has such a name.
fn is_unfinished(name: &str) -> bool {
    let Some((before, digits)) = name.rsplit_once(UNFINISHED) else { return false };
    let is_id = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    before.starts_with('.') && before.len() > 1 && is_id
}
