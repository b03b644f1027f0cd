//! Finished conversations in files: one line per record, in log order, never changed except by redaction.
//!
//! ```text
//! archive/2026-11-15-4821.jsonl
//! {"position":12,"at":…,"by":"lead","kind":"message.send","number":5,"message":{…},"deliveries":[…],"events":[…],"content":"{…}"}
//! {"position":17,"at":…,"by":"coder","kind":"delivery.done","content":"{…}"}
//! ```
//!
//! The content is the last member of a line, so that one digest in the log still proves everything before it after the
//! content was redacted. The content itself is proven by the digest in its record's header. Lines are in order, so a
//! binary search finds one. Redacted content is overwritten with `null` and spaces, so that no byte after it moves.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Seek, SeekFrom, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Folder;
use super::folder::unfinished;
use super::tables::{ArchiveRow, Delivery, EventRow, Message};
use crate::digest::Digest;
use crate::error::Error;
use crate::limits;
use crate::log::{Archive, MessageNo, Position};
use crate::text::Name;
use crate::time::Timestamp;

/// The `kind` of a line that is a notice of the office, which has no content of its own.
pub const NOTICE: &str = "notice";
/// Prefix of files that are still being written, or whose writer died.
pub const UNFINISHED: &str = "tmp-";
const CONTENT_KEY: &[u8] = b",\"content\":";

/// `2026-11-15-4821.jsonl`: a name that cannot leave its folder on any machine.
pub(crate) fn is_archive_name(file: &str) -> bool {
    let stem = file.strip_suffix(".jsonl").unwrap_or_default();
    let is_plain = stem.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    !stem.is_empty() && stem.len() <= limits::NAME_BYTES_MAX && is_plain
}

/// One record of an archived conversation: a message with its whole history, or a record about a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    pub position: Position,
    pub at: Timestamp,
    #[serde(deserialize_with = "crate::text::name_in_log")]
    pub by: Name,
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<MessageNo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deliveries: Vec<Delivery>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<EventRow>,
    /// The content as it was stored. `None` if there is none, if it is in a blob, or if it was redacted.
    pub content: Option<String>,
}

/// What a file holds, for the record that names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    pub lines: u64,
    pub digest: Digest,
}

const FOLDER: &str = "archive";

/// The folder of archives.
#[derive(Debug, Clone)]
pub struct Archives {
    office: Folder,
}

impl Archives {
    pub fn new(office: &Folder) -> Self {
        Self { office: office.clone() }
    }

    /// The path of a file, for people.
    pub fn path(&self, file: &str) -> PathBuf {
        self.office.path().join(FOLDER).join(file)
    }

    pub(crate) fn folder(&self) -> io::Result<Folder> {
        self.office.below(FOLDER)
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io(&self.office.path().join(FOLDER), error)
    }

    /// Whether a file exists. That it cannot be looked for is an error: an erasure or a backup must not pass over it.
    pub fn has(&self, file: &str) -> Result<bool, Error> {
        match self.folder().and_then(|folder| folder.entry(file)) {
            Ok(entry) => Ok(entry.is_some()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.failed(error)),
        }
    }

    /// Writes a file under an unused name. When this returns, the file survives a power loss, so the record that names
    /// it may be appended. Returns `None` if the name is taken.
    pub fn write(&self, file: &str, lines: &[Line]) -> Result<Option<Written>, Error> {
        let write = || -> io::Result<Option<Written>> {
            let folder = self.office.make(FOLDER)?;
            self.office.sync()?;
            let unfinished = unfinished();
            let written = folder.create(&unfinished).and_then(|file| write_lines(file, lines));
            // A link, unlike a rename, never replaces a file that another process wrote under the same name.
            let linked = written.and_then(|written| folder.link(&unfinished, file).map(|()| written));
            let _ = folder.remove(&unfinished);
            match linked {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(None),
                linked => folder.sync().and(linked).map(Some),
            }
        };
        write().map_err(|error| self.failed(error))
    }

    /// Deletes a file that no record names. If it is already missing, a process that erased redacted content deleted
    /// it.
    pub fn discard(&self, file: &str) -> Result<(), Error> {
        let folder = self.folder().map_err(|error| self.failed(error))?;
        folder.remove(file).and_then(|_| folder.sync()).map_err(|error| Error::io(&self.path(file), error))
    }

    /// Whether every line of a file that no record names passes a test. A line that cannot be parsed does not.
    pub(crate) fn all_lines(
        &self,
        file: &str,
        mut test: impl FnMut(&Line) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let io_error = |error| Error::io(&self.path(file), error);
        let mut source = BufReader::new(self.try_open(file).map_err(io_error)?);
        let mut bytes = Vec::new();
        while read_line(&mut source, &mut bytes).map_err(io_error)? {
            match serde_json::from_slice(&bytes) {
                Ok(line) if test(&line)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Whether a file that no record names holds content of one of the given records.
    pub fn holds_content(
        &self,
        file: &str,
        mut of: impl FnMut(Position) -> Result<bool, Error>,
    ) -> Result<bool, Error> {
        let io_error = |error| Error::io(&self.path(file), error);
        let mut source = BufReader::new(self.try_open(file).map_err(io_error)?);
        let mut bytes = Vec::new();
        while read_line(&mut source, &mut bytes).map_err(io_error)? {
            let content = bytes.get(content_at(&bytes) + CONTENT_KEY.len()..).unwrap_or_default();
            let Some(position) = position_of(&bytes).filter(|_| !content.starts_with(b"null")) else { continue };
            if of(position)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Every line of the record at `position`.
    pub fn find(&self, archive: &ArchiveRow, position: Position) -> Result<Vec<Line>, Error> {
        let mut file = BufReader::new(self.open(&archive.file)?);
        let io_error = |error| Error::io(&self.path(&archive.file), error);
        let start = first_line_from(&mut file, position).map_err(io_error)?;
        file.seek(SeekFrom::Start(start)).map_err(io_error)?;
        let mut found = Vec::new();
        let mut bytes = Vec::new();
        while read_line(&mut file, &mut bytes).map_err(io_error)? {
            let line = parse(&archive.file, &bytes)?;
            if line.position != position {
                break;
            }
            found.push(line);
        }
        Ok(found)
    }

    /// Reads the whole file and returns what it holds now, to compare with what its record says.
    pub fn check(&self, file: &str, mut each: impl FnMut(Line) -> Result<(), Error>) -> Result<Written, Error> {
        let mut source = BufReader::new(self.open(file)?);
        let mut hasher = blake3::Hasher::new();
        let mut lines = 0;
        let mut bytes = Vec::new();
        while read_line(&mut source, &mut bytes).map_err(|error| Error::io(&self.path(file), error))? {
            hash_line(&mut hasher, &bytes);
            lines += 1;
            each(parse(file, &bytes)?)?;
        }
        Ok(Written { lines, digest: Digest::from_bytes(*hasher.finalize().as_bytes()) })
    }

    /// Whether the file is still as it was written.
    pub fn is_whole(&self, archive: &Archive) -> Result<bool, Error> {
        let found = self.check(&archive.file, |_| Ok(()))?;
        Ok((found.lines, found.digest) == (archive.lines, archive.digest))
    }

    /// Overwrites the content of records, in a new file that atomically replaces the old one.
    pub fn redact(&self, archive: &ArchiveRow, records: &[Position]) -> Result<(), Error> {
        let mut source = BufReader::new(self.open(&archive.file)?);
        let mut rewrite = || -> io::Result<()> {
            let folder = self.folder()?;
            let unfinished = unfinished();
            let mut copy = || -> io::Result<()> {
                let mut target = BufWriter::new(folder.create(&unfinished)?);
                let mut bytes = Vec::new();
                while read_line(&mut source, &mut bytes)? {
                    if position_of(&bytes).is_some_and(|position| records.contains(&position)) {
                        blank_content(&mut bytes);
                    }
                    target.write_all(&bytes)?;
                }
                target.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
                folder.rename(&unfinished, &archive.file)
            };
            let copied = copy();
            if copied.is_err() {
                let _ = folder.remove(&unfinished);
            }
            copied.and_then(|()| folder.sync())
        };
        rewrite().map_err(|error| self.failed(error))
    }

    /// Names of the files in the folder, including those of interrupted writes. A missing folder has no files.
    pub fn files(&self) -> Result<Vec<String>, Error> {
        let names = match self.folder().and_then(|folder| folder.names()) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(error)),
        };
        Ok(names.iter().map(|name| name.to_string_lossy().into_owned()).collect())
    }

    fn try_open(&self, file: &str) -> io::Result<File> {
        self.folder()?.open_to_read(file)
    }

    pub(crate) fn open(&self, file: &str) -> Result<File, Error> {
        self.try_open(file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::Damaged(format!("the archive {file} is missing")),
            _ => Error::io(&self.path(file), error),
        })
    }
}

fn parse(file: &str, bytes: &[u8]) -> Result<Line, Error> {
    serde_json::from_slice(bytes).map_err(|error| Error::Damaged(format!("the archive {file}: {error}")))
}

fn write_lines(file: File, lines: &[Line]) -> io::Result<Written> {
    let mut file = BufWriter::new(file);
    let mut hasher = blake3::Hasher::new();
    for line in lines {
        let mut bytes = serde_json::to_vec(line)?;
        bytes.push(b'\n');
        hash_line(&mut hasher, &bytes);
        file.write_all(&bytes)?;
    }
    let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    if !sabotaged!(ArchiveUnsynced) {
        file.sync_all()?;
    }
    Ok(Written { lines: lines.len() as u64, digest: Digest::from_bytes(*hasher.finalize().as_bytes()) })
}

/// Where the content begins. Quotes inside strings are escaped, so the key can only occur elsewhere in a header before
/// it. So the last occurrence is the right one.
fn content_at(line: &[u8]) -> usize {
    let found = line.windows(CONTENT_KEY.len()).rposition(|window| window == CONTENT_KEY);
    found.unwrap_or(line.len())
}

fn hash_line(hasher: &mut blake3::Hasher, line: &[u8]) {
    hasher.update(&line[..content_at(line)]);
    hasher.update(b"\n");
}

/// `"content":"…"}` becomes `"content":null   }`, with the same number of bytes.
fn blank_content(line: &mut [u8]) {
    let value = content_at(line) + CONTENT_KEY.len();
    let end = line.len().saturating_sub(2); // the closing brace and the line feed
    let (null, rest) = match line.get_mut(value..end) {
        Some(content) if content.len() >= 4 => content.split_at_mut(4),
        _ => return,
    };
    null.copy_from_slice(b"null");
    rest.fill(b' ');
}

fn read_line(file: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<bool> {
    bytes.clear();
    Ok(file.read_until(b'\n', bytes)? > 0)
}

/// The position at the start of a line, without parsing the rest.
fn position_of(line: &[u8]) -> Option<Position> {
    let digits = line.strip_prefix(b"{\"position\":")?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&digits[..end]).ok()?.parse().ok().map(Position)
}

/// Where the first line at or after a position begins, by binary search.
fn first_line_from(file: &mut BufReader<File>, position: Position) -> io::Result<u64> {
    let (mut low, mut high) = (0, file.get_ref().metadata()?.len());
    let mut bytes = Vec::new();
    while low < high {
        let middle = low + (high - low) / 2;
        let mut start = middle;
        if middle > low {
            // The middle is inside some line, so look at the line after it.
            file.seek(SeekFrom::Start(middle - 1))?;
            read_line(file, &mut bytes)?;
            start = middle - 1 + bytes.len() as u64;
        } else {
            file.seek(SeekFrom::Start(middle))?;
        }
        if start >= high {
            high = middle;
            continue;
        }
        read_line(file, &mut bytes)?;
        match position_of(&bytes) {
            Some(found) if found < position => low = start + bytes.len() as u64,
            Some(_) => high = middle,
            None => return Err(io::Error::new(io::ErrorKind::InvalidData, "a line has no position")),
        }
    }
    Ok(low)
}
