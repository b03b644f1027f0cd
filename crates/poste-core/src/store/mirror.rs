//! The mirror: every shared context as a Markdown file, `contexts/NAME.md`, for people and their tools.
//!
//! It is generated from the log after each change, so deleting it loses nothing: the next command that uses the context
//! generates it again. An edit of the file is not in the log. It is detected by the digest of what was last written,
//! which is kept next to the file, and left alone until an agent or a person stores or drops it.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::archive::UNFINISHED;
use super::folder::Kind;
use super::lock::WriteLock;
use super::{Folder, Store};
use crate::digest::Digest;
use crate::document;
use crate::error::Error;
use crate::text::ContextName;
use crate::views;

/// The folder of the mirror, inside the office.
pub const FOLDER: &str = "contexts";

/// The state of a mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mirror {
    /// It matches the log.
    Current,
    /// It is missing, or a process died before writing it.
    Behind,
    /// The file was edited, or something else is in its place. It is left as it is.
    Edited(PathBuf),
}

/// What was last written.
#[derive(Debug, Serialize, Deserialize)]
struct Written {
    version: u64,
    /// The newest redaction of one of its versions at that time. A redaction changes the text of a version.
    redacted: u64,
    digest: Digest,
    /// What was there before. A crash between the two renames leaves the file like that.
    before: Option<Digest>,
}

/// The file of a context.
pub fn path(office: &Path, name: &ContextName) -> PathBuf {
    office.join(FOLDER).join(file_name(name))
}

fn file_name(name: &ContextName) -> String {
    format!("{name}.md")
}

fn state_name(name: &ContextName) -> String {
    format!(".{name}.json")
}

/// The folder of an office; `None` if it has no mirror yet.
fn folder(store: &Store) -> Result<Option<Folder>, Error> {
    let Some(office) = store.folder() else { return Ok(None) };
    match office.below(FOLDER) {
        Ok(folder) => Ok(Some(folder)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(&office.path().join(FOLDER), error)),
    }
}

/// Checks a mirror without writing. `None` if there is no such context.
pub fn look(store: &Store, name: &ContextName) -> Result<Option<Mirror>, Error> {
    let Some(wanted) = wanted(store, name)? else { return Ok(None) };
    let Some(folder) = folder(store)? else { return Ok(store.path().map(|_| Mirror::Behind)) };
    Ok(Some(standing(&folder, name, wanted)?.0))
}

/// Whether a version was redacted since the file was last written. An edited file may then still hold that content.
pub fn may_hold_redacted(store: &Store, name: &ContextName) -> Result<bool, Error> {
    let Some(folder) = folder(store)? else { return Ok(false) };
    let Some((_, redacted)) = wanted(store, name)? else { return Ok(false) };
    Ok(redacted > last_written(&folder, name)?.map_or(0, |written| written.redacted))
}

/// Whether `edited`, an edited mirror of `version`, differs from it in the text alone. Everything around the text is
/// generated from the log, so no version can hold an edit there.
pub fn differs_in_text_only(store: &Store, name: &ContextName, version: u64, edited: &str) -> Result<bool, Error> {
    let Some(folder) = folder(store)? else { return Ok(false) };
    let (Some(written), Some(parts)) = (last_written(&folder, name)?, views::markdown_parts(name, edited)) else {
        return Ok(false);
    };
    let Some(view) = views::context(store, name, Some(version))? else { return Ok(false) };
    let unedited = [parts.before, &document::ended(&view.text), parts.after].concat();
    Ok(Digest::of(unedited.as_bytes()) == written.digest)
}

/// Files in the mirror's folder that belong to no context, such as an editor's backup.
pub fn strangers(store: &Store) -> Result<Vec<PathBuf>, Error> {
    let Some(folder) = folder(store)? else { return Ok(Vec::new()) };
    let tables = store.tables()?;
    let mut found = Vec::new();
    for entry in folder.entries().map_err(|error| Error::io(folder.path(), error))? {
        let file = entry.name.as_str();
        if file == ".lock" || file.starts_with(UNFINISHED) {
            continue;
        }
        let name = file.strip_suffix(".md").or_else(|| file.strip_prefix('.')?.strip_suffix(".json"));
        let is_ours = match name.and_then(|name| name.parse::<ContextName>().ok()) {
            Some(name) => tables.context(&name)?.is_some(),
            None => false,
        };
        if !is_ours {
            found.push(entry.path);
        }
    }
    found.sort();
    Ok(found)
}

/// The result of storing the text of an edited mirror.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakenOver {
    /// Every edit is in the log, and the file follows the log again.
    Whole,
    /// There are also edits around the text, which only this file has.
    TextOnly(PathBuf),
    /// The file is no longer the one that was read.
    Changed,
}

/// Lets a mirror follow the log again after its edited text was stored.
pub(crate) fn take_over(store: &Store, name: &ContextName, made_from: u64, edited: &str) -> Result<TakenOver, Error> {
    let Some(folder) = folder(store)? else { return Ok(TakenOver::Changed) };
    match read(&folder, &file_name(name))? {
        Is::File(bytes) if bytes == edited.as_bytes() => {}
        _ => return Ok(TakenOver::Changed),
    }
    if !differs_in_text_only(store, name, made_from, edited)? {
        return Ok(TakenOver::TextOnly(folder.path().join(file_name(name))));
    }
    write(store, name, true)?;
    Ok(TakenOver::Whole)
}

/// Updates the mirror of a context from the log. An edit is left alone unless `drop_edit` is set.
///
/// The newest version is read under the lock, so an older one never replaces a newer one.
pub fn write(store: &Store, name: &ContextName, drop_edit: bool) -> Result<Option<Mirror>, Error> {
    let Some(office) = store.folder().filter(|_| !store.is_read_only()) else { return Ok(None) };
    if store.tables()?.context(name)?.is_none() {
        return Ok(None);
    }
    let folder = office.make(FOLDER).map_err(|error| Error::io(&office.path().join(FOLDER), error))?;
    let failed = |error| Error::io(folder.path(), error);
    let lock = WriteLock::named(&folder, ".lock", &store.options.program);
    let _held = lock.acquire(store.options.lock_timeout)?;
    // Writers hold the lock, so unfinished files belong to dead ones.
    folder.remove_unfinished().map_err(failed)?;
    let Some(wanted) = wanted(store, name)? else { return Ok(None) };
    let before = match standing(&folder, name, wanted)? {
        (Mirror::Current, _) => return Ok(Some(Mirror::Current)),
        (edited @ Mirror::Edited(_), _) if !drop_edit => return Ok(Some(edited)),
        (_, found) => found,
    };
    let Some(view) = views::context(store, name, None)? else { return Ok(None) };
    let text = views::context_markdown(&view);
    // The view includes a version stored since then. A redaction since then is mirrored by the process that redacts.
    let written = Written { version: view.version, redacted: wanted.1, digest: Digest::of(text.as_bytes()), before };
    let state = serde_json::to_vec(&written).expect("plain data always encodes");
    // Nothing is synced, because the log is the durable copy.
    folder.replace_unsynced(state_name(name), &state).map_err(failed)?;
    let file = file_name(name);
    // Anything else in its place is only reached when the caller asked to drop the edit.
    if folder.entry(&file).map_err(failed)?.is_some_and(|entry| entry.kind == Kind::Folder) {
        folder.remove_empty(&file).map_err(|error| Error::io(&folder.path().join(&file), error))?;
    }
    folder.replace_unsynced(&file, text.as_bytes()).map_err(failed)?;
    Ok(Some(Mirror::Current))
}

/// The version and newest redaction that a mirror should reflect.
fn wanted(store: &Store, name: &ContextName) -> Result<Option<(u64, u64)>, Error> {
    let Some(context) = store.tables()?.context(name)? else { return Ok(None) };
    let newest = "SELECT coalesce(max(r.redacted_by), 0) FROM context_versions v JOIN redactions r USING (position)
         WHERE v.context = ?1";
    let redacted: u64 = store.conn().prepare_cached(newest)?.query_row([context.number], |row| row.get(0))?;
    Ok(Some((context.version, redacted)))
}

/// The state of the mirror, and the digest of the file if it is ours.
fn standing(folder: &Folder, name: &ContextName, wanted: (u64, u64)) -> Result<(Mirror, Option<Digest>), Error> {
    let path = folder.path().join(file_name(name));
    let written = last_written(folder, name)?;
    let found = match read(folder, &file_name(name))? {
        Is::Nothing => return Ok((Mirror::Behind, None)),
        // An empty file is not an edit; a power loss can leave one.
        Is::File(bytes) if bytes.is_empty() => return Ok((Mirror::Behind, None)),
        Is::File(bytes) => Digest::of(&bytes),
        Is::Else => return Ok((Mirror::Edited(path), None)),
    };
    Ok(match written {
        Some(written) if written.digest == found => match (written.version, written.redacted) == wanted {
            true => (Mirror::Current, Some(found)),
            false => (Mirror::Behind, Some(found)),
        },
        Some(written) if written.before == Some(found) => (Mirror::Behind, Some(found)),
        _ => (Mirror::Edited(path), None),
    })
}

fn last_written(folder: &Folder, name: &ContextName) -> Result<Option<Written>, Error> {
    Ok(match read(folder, &state_name(name))? {
        Is::File(bytes) => serde_json::from_slice(&bytes).ok(),
        Is::Nothing | Is::Else => None,
    })
}

enum Is {
    Nothing,
    File(Vec<u8>),
    /// A link, a folder or a pipe.
    Else,
}

fn read(folder: &Folder, file: &str) -> Result<Is, Error> {
    let mut bytes = Vec::new();
    match folder.open_to_read(file).and_then(|mut file| file.read_to_end(&mut bytes)) {
        Ok(_) => Ok(Is::File(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Is::Nothing),
        Err(_) if is_else(folder, file) => Ok(Is::Else),
        Err(error) => Err(Error::io(&folder.path().join(file), error)),
    }
}

fn is_else(folder: &Folder, file: &str) -> bool {
    folder.entry(file).is_ok_and(|entry| entry.is_some_and(|entry| entry.kind != Kind::File))
}
