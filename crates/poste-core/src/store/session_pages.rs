//! The pages of closed sessions: Markdown files in the folder `sessions`, for people and for grep.
//!
//! A page is generated from the log and can be generated again. It is complete or absent.

use std::io;
use std::path::PathBuf;

use super::Folder;
use super::folder::Kind;
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

/// Writes a page, whole or not at all.
pub(crate) fn write(office: &Folder, name: &str, text: &str) -> Result<PathBuf, Error> {
    let path = office.path().join(FOLDER).join(name);
    let written = office.make(FOLDER).and_then(|pages| pages.replace(name, text.as_bytes()));
    written.and_then(|()| office.sync()).map_err(|error| Error::io(&path, error))?;
    Ok(path)
}

/// Deletes the pages of sessions with redacted content. They can be generated again from what is left.
pub(crate) fn forget(office: &Folder, ids: &[Session]) -> Result<(), Error> {
    const DATE: usize = "2026-01-01-".len();
    if ids.is_empty() {
        return Ok(());
    }
    let forget = || -> io::Result<()> {
        let pages = office.below(FOLDER)?;
        let names: Vec<String> = ids.iter().map(|id| format!("{}.md", slug(id))).collect();
        for entry in pages.entries()?.into_iter().filter(|entry| entry.kind == Kind::File) {
            if entry.name.get(DATE..).is_some_and(|rest| names.iter().any(|name| name == rest)) {
                pages.remove(&entry.name)?;
            }
        }
        pages.remove_unfinished()?;
        pages.sync()
    };
    match forget() {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(&office.path().join(FOLDER), error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_replaced_whole_and_forgotten_by_its_session() {
        let folder = tempfile::tempdir().unwrap();
        let office = Folder::open(folder.path()).unwrap();
        let (one, two): (Session, Session) = ("one".parse().unwrap(), "two".parse().unwrap());
        let at = Timestamp::from_ms(1_772_442_000_000);
        let path = write(&office, &page_name(&one, at), "first").unwrap();
        assert_eq!(write(&office, &page_name(&one, at), "second").unwrap(), path);
        let other = write(&office, &page_name(&two, at), "stays").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "second");
        forget(&office, std::slice::from_ref(&one)).unwrap();
        assert!(!path.exists() && other.exists());
    }
}
