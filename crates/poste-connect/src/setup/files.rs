//! Adds entries to files and removes them again.
//!
//! Everything is planned before anything is written: if one file cannot be set up, no file is touched. The original
//! content is recorded and restored byte for byte, as long as the file was not changed in between; otherwise only
//! Poste's own entries are removed.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use poste_core::store::discover;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::ours::Own;
use super::{Fault, Target, What, json, seal, section, toml};
use poste_verbs::program::Program;

/// Larger than any of these files; some programs keep their history in them.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A fault of a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {}", path.display(), fault.why)]
pub struct FileFault {
    pub path: PathBuf,
    pub fault: Fault,
    /// Files that were already changed and could not be restored. If empty, everything is as it was.
    pub left: Vec<PathBuf>,
}

impl FileFault {
    fn at(path: &Path) -> impl Fn(Fault) -> Self {
        let path = path.to_owned();
        move |fault| Self { path: path.clone(), fault, left: Vec::new() }
    }

    fn io(path: &Path, error: &io::Error) -> Self {
        Self::at(path)(Fault::malformed(format!("cannot be used: {error}")))
    }
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The file did not exist.
    Created,
    Changed,
    /// Nothing had to change.
    Unchanged,
    /// The original content is back.
    Restored,
    /// The file did not exist before the set-up, and was deleted.
    Removed,
    /// The file was changed since the set-up; only Poste's entries were removed.
    TakenOut,
    /// Another program that is set up needs it.
    Kept,
    /// The file is not as Poste wrote it, and is left alone.
    Left,
}

/// The original content of a file, and what was added to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// Relative to the top of the memory.
    path: PathBuf,
    existed: bool,
    /// The digest of what was written.
    written: String,
    /// The original content, unless removing the entries restores it: other programs' files may hold secrets, which are
    /// not copied without need.
    #[serde(default)]
    original: Option<String>,
    /// Properties that were created for the entries.
    #[serde(default)]
    made: Vec<json::Path>,
    /// Folders that were created for it, outermost first, relative to the top of the memory.
    #[serde(default)]
    folders: Vec<PathBuf>,
    owners: BTreeSet<Program>,
}

/// Stores the record of each changed file, readable only by this user.
#[derive(Debug, Clone)]
pub struct Memory {
    folder: PathBuf,
    /// Paths below it are stored relative to it, so that records stay valid when the folder moves.
    top: PathBuf,
}

impl Memory {
    pub fn new(folder: PathBuf, top: &Path) -> Self {
        Self { folder, top: top.canonicalize().unwrap_or_else(|_| top.to_owned()) }
    }

    fn below_top(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.top).unwrap_or(path).to_owned()
    }

    /// Makes another set-up wait until this one has finished.
    pub fn lock(&self) -> Result<File, FileFault> {
        if self.folder.symlink_metadata().is_ok_and(|found| found.is_symlink()) {
            return Err(FileFault::at(&self.folder)(Fault::malformed("is a link")));
        }
        let made = || -> io::Result<File> {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
            let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
            let lock = options.open(self.folder.join("lock"))?;
            flock(&lock, FlockOperation::LockExclusive)?;
            Ok(lock)
        };
        made().map_err(|error| FileFault::io(&self.folder, &error))
    }

    fn path(&self, file: &Path) -> PathBuf {
        let name = blake3::hash(self.below_top(file).as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(&name[..32]).with_extension("json")
    }

    /// A record that cannot be read counts as missing: then only entries are removed.
    fn record(&self, file: &Path) -> Option<Record> {
        let text = read(&self.path(file)).ok()??.text;
        serde_json::from_str::<Record>(&text).ok().filter(|record| record.path == self.below_top(file))
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        write_aside(&self.path(&self.top.join(&record.path)), &serde_json::to_vec(record)?, Mode::Exactly(0o600))
    }

    fn forget(&self, file: &Path) -> io::Result<()> {
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// The current content and mode of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Existing {
    text: String,
    mode: u32,
}

/// `None`: the file does not exist.
fn read(path: &Path) -> Result<Option<Existing>, Fault> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Fault::malformed(format!("cannot be read: {error}"))),
    };
    let cannot = |error: io::Error| Fault::malformed(format!("cannot be read: {error}"));
    let metadata = file.metadata().map_err(cannot)?;
    if !metadata.is_file() {
        return Err(Fault::malformed("is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Fault::malformed(format!("is larger than {} MiB", BYTES_MAX / 1024 / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| Fault::malformed("is not valid UTF-8"))?;
    Ok(Some(Existing { text, mode: metadata.permissions().mode() & 0o7777 }))
}

/// The text of a file, for a look at it.
pub(super) fn text(path: &Path) -> Result<Option<String>, Fault> {
    Ok(read(path)?.map(|existing| existing.text))
}

/// Resolves the links of a path. The links stay: their target is what is written.
fn real(target: &Target) -> Result<PathBuf, Fault> {
    let path = &target.path;
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(_) if is_link => return Err(Fault::malformed("is a broken link")),
        Err(error) if is_missing(&error) => missing(path)?,
        Err(error) => return Err(Fault::malformed(format!("cannot be reached: {error}"))),
    };
    let Some(below) = &target.below else { return Ok(real) };
    let below = below.canonicalize().or_else(|_| missing(below))?;
    let is_of_git_or_office =
        |part: &OsStr| [".git", discover::FOLDER].iter().any(|name| part.eq_ignore_ascii_case(name));
    match real.strip_prefix(&below) {
        Ok(rest) if rest.iter().any(is_of_git_or_office) => {
            Err(Fault::malformed(format!("leads to {}, which is no settings file", real.display()))
                .hint("replace the link with a file"))
        }
        Ok(_) => Ok(real),
        Err(_) => Err(Fault::malformed(format!("leads out of {}, to {}", below.display(), real.display()))
            .hint("replace the link with a file, or set up with --scope user")),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Resolves a path that does not exist yet: its nearest existing folder, and the rest.
fn missing(path: &Path) -> Result<PathBuf, Fault> {
    let nowhere = || Fault::malformed("is not in a folder");
    let (folder, name) = (path.parent().ok_or_else(nowhere)?, path.file_name().ok_or_else(nowhere)?);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match folder.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real.join(name)),
        Ok(real) => Err(Fault::malformed(format!("cannot be created: {} is not a folder", real.display()))),
        Err(_) if folder.symlink_metadata().is_ok_and(|found| found.is_symlink()) => {
            Err(Fault::malformed(format!("cannot be created: {} is a broken link", folder.display())))
        }
        Err(error) if is_missing(&error) => Ok(missing(folder)?.join(name)),
        Err(error) => Err(Fault::malformed(format!("cannot be reached: {error}"))),
    }
}

/// A file with its current and its planned content.
#[derive(Debug)]
struct Staged {
    named: PathBuf,
    before: Option<Existing>,
    after: Option<String>,
    record_before: Option<Record>,
    record_after: Option<Record>,
    outcome: Outcome,
    /// An entry for Poste that the user wrote stays in it.
    keeps_own: bool,
    /// The folder that the file is inside of.
    below: Option<PathBuf>,
}

/// A planned change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path by which its program knows it.
    pub path: PathBuf,
    pub before: Option<String>,
    pub after: Option<String>,
    pub outcome: Outcome,
    /// Whether there was a record of its original content.
    pub is_recorded: bool,
    /// Poste was removed, except for entries that the user wrote.
    pub keeps_own: bool,
}

impl Change {
    pub fn is_change(&self) -> bool {
        self.before != self.after
    }

    /// The file does not exist and will not be created.
    pub fn is_nothing(&self) -> bool {
        self.before.is_none() && self.after.is_none()
    }
}

/// The planned changes of all files. Several programs may share a file.
#[derive(Debug)]
pub struct Plan {
    memory: Memory,
    /// By their real path.
    files: BTreeMap<PathBuf, Staged>,
    order: Vec<PathBuf>,
}

impl Plan {
    pub fn new(memory: Memory) -> Self {
        Self { memory, files: BTreeMap::new(), order: Vec::new() }
    }

    pub fn set_up(&mut self, program: Program, target: &Target) -> Result<(), FileFault> {
        let fault = FileFault::at(&target.path);
        let (real, mut staged) = self.take(target).map_err(&fault)?;
        let done = staged.set_up(program, &target.what, &real, &self.memory).map_err(&fault);
        self.files.insert(real, staged);
        done
    }

    pub fn remove(&mut self, program: Program, target: &Target) -> Result<(), FileFault> {
        let fault = FileFault::at(&target.path);
        let (real, mut staged) = self.take(target).map_err(&fault)?;
        let done = staged.remove(program, &target.what).map_err(&fault);
        self.files.insert(real, staged);
        done
    }

    fn take(&mut self, target: &Target) -> Result<(PathBuf, Staged), Fault> {
        let real = real(target)?;
        if let Some(staged) = self.files.remove(&real) {
            return Ok((real, staged));
        }
        self.order.push(real.clone());
        let before = read(&real)?;
        let record = self.memory.record(&real);
        let staged = Staged {
            named: target.path.clone(),
            after: before.as_ref().map(|existing| existing.text.clone()),
            before,
            record_before: record.clone(),
            record_after: record,
            outcome: Outcome::Unchanged,
            keeps_own: false,
            below: target.below.as_ref().and_then(|below| below.canonicalize().ok()),
        };
        Ok((real, staged))
    }

    /// In the order in which they were planned.
    pub fn changes(&self) -> Vec<Change> {
        let staged = self.order.iter().filter_map(|path| self.files.get(path));
        let change = |staged: &Staged| Change {
            path: staged.named.clone(),
            before: staged.before.as_ref().map(|existing| existing.text.clone()),
            after: staged.after.clone(),
            outcome: staged.outcome,
            is_recorded: staged.record_before.is_some(),
            keeps_own: staged.keeps_own,
        };
        staged.map(change).collect()
    }

    /// Writes all changes or none: if one file fails, those written before are restored.
    pub fn carry_out(&self) -> Result<(), FileFault> {
        for (done, path) in self.order.iter().enumerate() {
            let Some(staged) = self.files.get(path) else { continue };
            if let Err(error) = staged.carry_out(path, &self.memory) {
                // This file, too: folders may have been created for it, and its record saved.
                let left = self.put_back(&self.order[..=done]);
                return Err(FileFault { left, ..FileFault::io(&staged.named, &error) });
            }
        }
        Ok(())
    }

    /// Restores these files, last first. Returns those that could not be restored.
    fn put_back(&self, done: &[PathBuf]) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (index, path) in done.iter().enumerate().rev() {
            let Some(staged) = self.files.get(path) else { continue };
            let has_failed = index + 1 == done.len();
            if !staged.put_back(path, &self.memory, has_failed) {
                left.push(staged.named.clone());
            }
        }
        left.reverse();
        left
    }
}

impl Staged {
    /// Whether it is unchanged since Poste wrote it.
    fn is_as_written(&self) -> bool {
        match (&self.after, &self.record_after) {
            (Some(text), Some(record)) => digest(text) == record.written,
            _ => false,
        }
    }

    fn original(&self, what: &What) -> Result<Option<String>, Fault> {
        let (Some(text), Some(record)) = (&self.after, &self.record_after) else { return Ok(None) };
        match (&record.original, record.existed) {
            (_, false) => Ok(None),
            (Some(original), true) => Ok(Some(original.clone())),
            (None, true) => what.take_out(text, Some(&record.made), Own::Nothing).map(Some),
        }
    }

    /// A file that was changed since, without Poste's entries.
    fn without_poste(&self, what: &What, text: &str) -> Result<Option<String>, Fault> {
        let Some(record) = &self.record_after else {
            // Without a record, assume that Poste added every entry that is exactly as it writes them, and created a
            // file that holds nothing else.
            let rest = what.take_out(text, None, Own::Unlike)?;
            return Ok(Some(rest).filter(|rest| rest == text || !what.is_empty(rest)));
        };
        let before = record.original.as_ref().map(|original| what.value(original)).transpose()?;
        let rest = what.take_out(text, Some(&record.made), before.as_ref().map_or(Own::Nothing, Own::Before))?;
        Ok(Some(rest).filter(|rest| record.existed || !what.is_empty(rest)))
    }

    fn set_up(&mut self, program: Program, what: &What, real: &Path, memory: &Memory) -> Result<(), Fault> {
        if let Some(record) = &mut self.record_after {
            record.owners.insert(program);
        }
        let is_as_written = self.is_as_written();
        let (base, written) = match &self.after {
            None => (None, what.fresh()?),
            Some(_) if is_as_written => {
                let original = self.original(what)?;
                let written = original.as_ref().map_or_else(|| what.fresh(), |original| what.apply(original))?;
                (original, written)
            }
            Some(text) if what.is_edited(text)? => {
                self.outcome = Outcome::Left;
                return Ok(());
            }
            Some(text) => (self.without_poste(what, text)?, what.apply(text)?),
        };
        let (text, mut made) = written;
        if !is_as_written && let Some(record) = &self.record_after {
            made.extend(record.made.iter().cloned());
        }
        let bare = what.take_out(&text, Some(&made), Own::Nothing)?;
        let is_change = self.after.as_ref() != Some(&text);
        // An entry that is there already, exactly as Poste writes it, may be anyone's: nothing is recorded about it.
        let has_own_entries =
            || base.as_ref().is_some_and(|base| what.take_out(base, None, Own::Nothing).as_ref() != Ok(base));
        if !is_change && (self.record_after.is_some() || !has_own_entries()) {
            return Ok(());
        }
        let folders = match &self.record_after {
            Some(record) => record.folders.clone(),
            None => {
                // An existing file that is all Poste's was created together with its folders.
                let is_all_ours = self.before.is_some() && base.is_none();
                let folders = if is_all_ours { self.folders_of(real) } else { missing_folders(real) };
                folders.iter().map(|folder| memory.below_top(folder)).collect()
            }
        };
        let mut owners = self.record_after.take().map(|record| record.owners).unwrap_or_default();
        owners.insert(program);
        self.record_after = Some(Record {
            path: memory.below_top(real),
            existed: base.is_some(),
            written: digest(&text),
            original: base.filter(|base| *base != bare),
            made,
            folders,
            owners,
        });
        if is_change {
            self.outcome = if self.before.is_some() { Outcome::Changed } else { Outcome::Created };
        }
        self.after = Some(text);
        Ok(())
    }

    fn remove(&mut self, program: Program, what: &What) -> Result<(), Fault> {
        let Some(text) = self.after.clone() else {
            self.record_after = None;
            return Ok(());
        };
        if let Some(record) = &mut self.record_after {
            record.owners.remove(&program);
            if matches!(what, What::Section(_)) && !record.owners.is_empty() {
                self.outcome = Outcome::Kept;
                return Ok(());
            }
        }
        let (after, outcome) = match what {
            _ if self.is_as_written() => match self.original(what)? {
                Some(original) => (Some(original), Outcome::Restored),
                None => (None, Outcome::Removed),
            },
            What::Whole(wanted) | What::Sealed(wanted) => match text == *wanted || seal::is_whole(&text) {
                true => (None, Outcome::Removed),
                false => (Some(text.clone()), Outcome::Left),
            },
            What::Json(_) | What::Toml(_) | What::Section(_) => match self.without_poste(what, &text)? {
                None => (None, Outcome::Removed),
                rest => (rest, Outcome::TakenOut),
            },
        };
        let is_still_there = |after: &String| what.take_out(after, None, Own::Nothing).as_ref() != Ok(after);
        self.keeps_own = outcome != Outcome::Left && after.as_ref().is_some_and(is_still_there);
        if outcome != Outcome::Left {
            self.record_after = None;
        }
        // A shared file may already have been changed for another program.
        if after.as_ref() != Some(&text) || outcome == Outcome::Left {
            self.outcome = outcome;
        }
        self.after = after;
        Ok(())
    }

    fn carry_out(&self, path: &Path, memory: &Memory) -> io::Result<()> {
        let before = self.before.as_ref().map(|existing| existing.text.as_str());
        if before != self.after.as_deref() {
            let now = read(path).map_err(|fault| io::Error::other(fault.why))?;
            if now.as_ref() != self.before.as_ref() {
                return Err(io::Error::other("another process has just changed it; set up again"));
            }
        }
        // Save the record first: whatever happens after that, the original is not lost.
        if let Some(record) = &self.record_after
            && self.record_before.as_ref() != Some(record)
        {
            memory.save(record)?;
        }
        match &self.after {
            after if after.as_deref() == before => {}
            Some(text) => write(path, text, self.before.as_ref())?,
            None => fs::remove_file(path)?,
        }
        if self.after.is_none() && before.is_some() {
            self.remove_folders(self.record_before.as_ref(), path, memory);
        }
        if self.record_after.is_none() && self.record_before.is_some() {
            memory.forget(path)?;
        }
        Ok(())
    }

    /// Removes the folders that were created for it or, without a record, those it was in, if they are empty.
    fn remove_folders(&self, record: Option<&Record>, path: &Path, memory: &Memory) {
        let folders = match record {
            Some(record) => record.folders.iter().map(|folder| memory.top.join(folder)).collect(),
            None => self.folders_of(path),
        };
        folders.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }

    /// Its folders inside `below`, outermost first.
    fn folders_of(&self, path: &Path) -> Vec<PathBuf> {
        let Some(below) = &self.below else { return Vec::new() };
        let above = path.ancestors().skip(1).take_while(|folder| *folder != below && folder.starts_with(below));
        let mut folders: Vec<PathBuf> = above.map(Path::to_owned).collect();
        folders.reverse();
        folders
    }

    /// Restores the file; returns whether it is as it was.
    fn put_back(&self, path: &Path, memory: &Memory, has_failed: bool) -> bool {
        // Only Poste's change is undone. The check below shows whether that worked.
        let is_ours = read(path).is_ok_and(|now| self.is_written(now.as_ref()));
        let _ = match &self.before {
            Some(existing) if is_ours => write(path, &existing.text, Some(existing)),
            None if is_ours => fs::remove_file(path),
            _ => Ok(()),
        };
        if self.is_left(path, has_failed) {
            // The record is needed to remove the entries later.
            return false;
        }
        if self.before.is_none()
            && let Some(record) = &self.record_after
        {
            self.remove_folders(Some(record), path, memory);
        }
        // A record that does not match its file does no harm: its digest shows that.
        let _ = match &self.record_before {
            Some(record) => memory.save(record),
            None => memory.forget(path),
        };
        true
    }

    fn is_written(&self, now: Option<&Existing>) -> bool {
        let text = |existing: Option<&Existing>| existing.map(|existing| existing.text.clone());
        text(now) == self.after && text(now) != text(self.before.as_ref())
    }

    /// Whether Poste's change is still in it. The file that failed counts only if it was written in full; others count
    /// if they differ from their original.
    fn is_left(&self, path: &Path, has_failed: bool) -> bool {
        let text = |existing: &Existing| existing.text.clone();
        let before = self.before.as_ref().map(text);
        if before == self.after {
            return false;
        }
        match read(path) {
            Ok(now) if has_failed => self.is_written(now.as_ref()),
            Ok(now) => now.as_ref().map(text) != before,
            Err(_) => !has_failed,
        }
    }
}

impl What {
    /// Whether the user changed it.
    fn is_edited(&self, text: &str) -> Result<bool, Fault> {
        match self {
            Self::Section(_) => section::is_edited(text),
            Self::Sealed(wanted) => Ok(text != wanted && !seal::is_whole(text)),
            Self::Json(_) | Self::Toml(_) | Self::Whole(_) => Ok(false),
        }
    }

    fn value(&self, text: &str) -> Result<serde_json::Value, Fault> {
        let (_, text) = split_mark(text);
        match self {
            Self::Json(_) => json::value(text),
            Self::Toml(_) => toml::value(text),
            Self::Section(_) | Self::Whole(_) | Self::Sealed(_) => Ok(serde_json::Value::Null),
        }
    }

    fn apply(&self, text: &str) -> Result<(String, Vec<json::Path>), Fault> {
        let (mark, text) = split_mark(text);
        let (after, made) = match self {
            Self::Json(edits) => {
                let json::Edited { text, made } = json::apply(text, edits)?;
                (text, made)
            }
            Self::Toml(edit) => (toml::apply(text, edit)?, Vec::new()),
            Self::Section(body) => (section::apply(text, body)?, Vec::new()),
            Self::Whole(wanted) | Self::Sealed(wanted) if text == wanted || seal::is_whole(text) => {
                (wanted.clone(), Vec::new())
            }
            Self::Whole(_) | Self::Sealed(_) => {
                return Err(Fault::conflict("exists already and is not as Poste writes it")
                    .hint("name another folder, or move the file away and try again"));
            }
        };
        Ok((format!("{mark}{after}"), made))
    }

    fn fresh(&self) -> Result<(String, Vec<json::Path>), Fault> {
        Ok(match self {
            Self::Json(edits) => {
                let json::Edited { text, made } = json::fresh(edits)?;
                (text, made)
            }
            Self::Toml(edit) => (toml::apply("", edit)?, Vec::new()),
            Self::Section(body) => (section::apply("", body)?, Vec::new()),
            Self::Whole(text) | Self::Sealed(text) => (text.clone(), Vec::new()),
        })
    }

    fn take_out(&self, text: &str, made: Option<&[json::Path]>, own: Own) -> Result<String, Fault> {
        let (mark, text) = split_mark(text);
        let after = match self {
            Self::Json(edits) => json::take_out(text, edits, made, own)?,
            Self::Toml(edit) => toml::take_out(text, edit, own)?,
            Self::Section(_) => section::take_out(text)?,
            Self::Whole(wanted) | Self::Sealed(wanted) if text == wanted || seal::is_whole(text) => {
                return Ok(String::new());
            }
            Self::Whole(_) | Self::Sealed(_) => text.to_owned(),
        };
        Ok(format!("{mark}{after}"))
    }

    fn is_empty(&self, text: &str) -> bool {
        match self {
            Self::Json(_) => json::is_empty(split_mark(text).1),
            _ => text.trim().is_empty(),
        }
    }
}

fn split_mark(text: &str) -> (&str, &str) {
    match text.strip_prefix(BYTE_ORDER_MARK) {
        Some(rest) => text.split_at(text.len() - rest.len()),
        None => ("", text),
    }
}

fn digest(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The folders to create, outermost first.
fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        file.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    folders.reverse();
    folders
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Exactly(u32),
    /// The mode of a new file of this user.
    Usual,
}

fn write(path: &Path, text: &str, before: Option<&Existing>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    write_aside(path, text.as_bytes(), before.map_or(Mode::Usual, |existing| Mode::Exactly(existing.mode)))
}

/// Writes a temporary file and renames it, so that a reader finds the old or the new content, whole.
fn write_aside(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".poste-unfinished-");
    if matches!(mode, Mode::Usual) {
        builder.permissions(Permissions::from_mode(0o666)); // minus the umask
    }
    let mut file = builder.tempfile_in(folder)?;
    file.write_all(bytes)?;
    if let Mode::Exactly(mode) = mode {
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
    }
    file.as_file().sync_data()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::programs::{Places, targets};
    use crate::setup::{Invocation, Scope};

    #[test]
    fn a_file_that_cannot_be_restored_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("project/.claude")).unwrap();
        let [servers, settings] = ["project/.mcp.json", "project/.claude/settings.json"].map(path);
        fs::write(&servers, "{}").unwrap();
        fs::write(&settings, "{}").unwrap();
        let places = Places::new(path("project"), path("home"), |_| None);
        let poste = Invocation { poste: "poste".into(), agent: None, office: None };
        let mut plan = Plan::new(Memory::new(path("state"), folder.path()));
        let _lock = plan.memory.lock().unwrap();
        for target in targets(Program::ClaudeCode, Scope::Project, &places, &poste) {
            plan.set_up(Program::ClaudeCode, &target).unwrap();
        }
        plan.carry_out().unwrap();
        // Another process changes one of them before they are restored: its change stays, and so do Poste's entries.
        let theirs = fs::read_to_string(&servers).unwrap().replacen('{', "{ \"mine\": 1,", 1);
        fs::write(&servers, &theirs).unwrap();
        assert_eq!(plan.put_back(&plan.order), std::slice::from_ref(&servers));
        assert_eq!(fs::read_to_string(&servers).unwrap(), theirs);
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
        assert!(!path("project/.claude/skills").exists());
        let remembered = fs::read_dir(path("state")).unwrap().flatten().filter(|entry| entry.file_name() != "lock");
        assert_eq!(remembered.count(), 1, "the record of the changed file stays");
    }
}
