//! The pages of closed sessions: Markdown files in the folder `sessions`, for people and for grep.
//!
//! A page is generated from the log and can be generated again. It is complete or absent.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::archive::UNFINISHED;
use super::folder::{self, Kind};
use super::{make_private_folder, private_file, sync_folder};
use crate::digest::Digest;
use crate::error::Error;
use crate::text::Session;
use crate::time::Timestamp;

pub(crate) const FOLDER: &str = "sessions";

/// The part of a file name that stands for a session. An id may contain characters that do not belong in a file name;
/// such an id gets its digest appended, to keep it distinct from others.
fn slug(id: &Session) -> String {
    const CHARS_MAX: usize = 60;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let text = id.as_str();
    if text.len() <= CHARS_MAX && text.chars().all(is_plain) {
        return text.to_owned();
    }
    let plain: String = text.chars().take(CHARS_MAX).map(|c| if is_plain(c) { c } else { '-' }).collect();
    format!("{plain}-{}", Digest::of(text.as_bytes()).short())
}

/// `DATE-ID.md`, with the day on which a session was closed.
pub fn page_name(id: &Session, closed_at: Timestamp) -> String {
    format!("{}-{}.md", &closed_at.to_string()[..10], slug(id))
}

/// Writes a page to a temporary file, then renames it.
pub(crate) fn write(office: &Path, name: &str, text: &str) -> Result<PathBuf, Error> {
    let pages = office.join(FOLDER);
    make_private_folder(&pages)?;
    let path = pages.join(name);
    let aside = pages.join(format!("{UNFINISHED}{}", uuid::Uuid::new_v4().simple()));
    let written = private_file(&aside).and_then(|()| {
        let mut file = File::options().write(true).open(&aside).map_err(|error| Error::io(&aside, error))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|error| Error::io(&aside, error))?;
        fs::rename(&aside, &path).map_err(|error| Error::io(&path, error))
    });
    if let Err(error) = written {
        let _ = fs::remove_file(&aside);
        return Err(error);
    }
    sync_folder(&pages)?;
    sync_folder(office)?;
    Ok(path)
}

/// Deletes the pages of sessions with redacted content. They can be generated again from what is left.
pub(crate) fn forget(office: &Path, ids: &[Session]) -> Result<(), Error> {
    const DATE: usize = "2026-01-01-".len();
    let pages = office.join(FOLDER);
    if ids.is_empty() || !folder::is_folder(&pages) {
        return Ok(());
    }
    let names: Vec<String> = ids.iter().map(|id| format!("{}.md", slug(id))).collect();
    for entry in folder::entries(&pages)?.into_iter().filter(|entry| entry.kind == Kind::File) {
        let is_theirs = entry.name.get(DATE..).is_some_and(|rest| names.iter().any(|name| name == rest));
        if is_theirs || entry.name.starts_with(UNFINISHED) {
            folder::remove_file(&entry.path)?;
        }
    }
    sync_folder(&pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_replaced_whole_and_forgotten_by_its_session() {
        let office = tempfile::tempdir().unwrap();
        let (one, two): (Session, Session) = ("one".parse().unwrap(), "two".parse().unwrap());
        let at = Timestamp::from_ms(1_772_442_000_000);
        let path = write(office.path(), &page_name(&one, at), "first").unwrap();
        assert_eq!(write(office.path(), &page_name(&one, at), "second").unwrap(), path);
        let other = write(office.path(), &page_name(&two, at), "stays").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        forget(office.path(), std::slice::from_ref(&one)).unwrap();
        assert!(!path.exists() && other.exists());
    }
}
