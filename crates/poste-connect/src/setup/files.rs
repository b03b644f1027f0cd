//! Puts entries into files and takes them out again.
//!
//! Everything is planned before anything is written: one file that cannot be set up, and no file is touched. What a file
//! held before is remembered, so that it comes back byte for byte as long as nobody else has changed it; after that only
//! Poste's own entries are taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};

use super::{Fault, Target, What, json, seal, section, toml};
use crate::program::Program;

/// More than any of these files has; some programs keep their history in them.
const BYTES_MAX: u64 = 16 * 1024 * 1024;
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A fault, and the file it is about.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} {}", path.display(), fault.why)]
pub struct FileFault {
    pub path: PathBuf,
    pub fault: Fault,
    /// Files that were changed before it and could not be put back; otherwise everything is as it was.
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
    /// It was not there.
    Created,
    Changed,
    /// Everything was as it should be.
    Unchanged,
    /// It is again what it was before it was set up.
    Restored,
    /// It was not there before, and is not any more.
    Removed,
    /// It was changed since it was set up; only Poste's entries were taken out.
    TakenOut,
    /// Another program that is set up needs it.
    Kept,
    /// It is not as Poste wrote it, and is left.
    Left,
}

/// What a file held before, and what was put into it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    path: PathBuf,
    existed: bool,
    /// The digest of what was written.
    written: String,
    /// What it held before, unless taking out the entries gives just that: copies of other programs' files may hold what
    /// should not lie around twice.
    #[serde(default)]
    original: Option<String>,
    /// What was made for the entries.
    #[serde(default)]
    made: Vec<json::Path>,
    /// Folders that were made for it, outermost first.
    #[serde(default)]
    folders: Vec<PathBuf>,
    owners: BTreeSet<Program>,
}

/// Where it is remembered what files held before: one file each, for its owner's eyes only.
#[derive(Debug, Clone)]
pub struct Memory {
    folder: PathBuf,
}

impl Memory {
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Whoever sets up at the same time waits.
    pub fn lock(&self) -> Result<File, FileFault> {
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
        let name = blake3::hash(file.as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(&name[..32]).with_extension("json")
    }

    /// What cannot be read is as good as forgotten: then only entries are taken out.
    fn record(&self, file: &Path) -> Option<Record> {
        let text = read(&self.path(file)).ok()??.text;
        serde_json::from_str::<Record>(&text).ok().filter(|record| record.path == file)
    }

    fn save(&self, record: &Record) -> io::Result<()> {
        write_aside(&self.path(&record.path), &serde_json::to_vec(record)?, Mode::Exactly(0o600))
    }

    fn forget(&self, file: &Path) -> io::Result<()> {
        match fs::remove_file(self.path(file)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// A file as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Existing {
    text: String,
    mode: u32,
}

/// `None`: there is none.
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
        return Err(Fault::malformed("is no file"));
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(cannot)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(Fault::malformed(format!("is larger than {} MiB", BYTES_MAX / 1024 / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| Fault::malformed("is no UTF-8"))?;
    Ok(Some(Existing { text, mode: metadata.permissions().mode() & 0o7777 }))
}

/// Where a path leads, through links. They are kept: what they lead to is what is written.
fn real(target: &Target) -> Result<PathBuf, Fault> {
    let path = &target.path;
    let is_link = path.symlink_metadata().is_ok_and(|found| found.is_symlink());
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(_) if is_link => return Err(Fault::malformed("is a link that leads nowhere")),
        Err(error) if is_missing(&error) => missing(path)?,
        Err(error) => return Err(Fault::malformed(format!("cannot be reached: {error}"))),
    };
    let Some(below) = &target.below else { return Ok(real) };
    let below = below.canonicalize().or_else(|_| missing(below))?;
    match real.starts_with(&below) {
        true => Ok(real),
        false => Err(Fault::malformed(format!("leads out of {}, to {}", below.display(), real.display()))
            .hint("make it a file of its own, or set up with --scope user")),
    }
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// A path that is not there yet: the nearest folder that is, and the rest.
fn missing(path: &Path) -> Result<PathBuf, Fault> {
    let nowhere = || Fault::malformed("is in no folder");
    let (folder, name) = (path.parent().ok_or_else(nowhere)?, path.file_name().ok_or_else(nowhere)?);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    match folder.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real.join(name)),
        Ok(real) => Err(Fault::malformed(format!("cannot be made: {} is no folder", real.display()))),
        Err(_) if folder.symlink_metadata().is_ok_and(|found| found.is_symlink()) => {
            Err(Fault::malformed(format!("cannot be made: {} is a link that leads nowhere", folder.display())))
        }
        Err(error) if is_missing(&error) => Ok(missing(folder)?.join(name)),
        Err(error) => Err(Fault::malformed(format!("cannot be reached: {error}"))),
    }
}

/// A file between what it is and what it shall be.
#[derive(Debug)]
struct Staged {
    named: PathBuf,
    before: Option<Existing>,
    after: Option<String>,
    record_before: Option<Record>,
    record_after: Option<Record>,
    outcome: Outcome,
}

/// A change of one file, as it is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As its program knows it.
    pub path: PathBuf,
    pub before: Option<String>,
    pub after: Option<String>,
    pub outcome: Outcome,
}

impl Change {
    pub fn is_change(&self) -> bool {
        self.before != self.after
    }
}

/// What shall become of every file. Several programs may share one.
#[derive(Debug)]
pub struct Plan {
    memory: Memory,
    /// By where they really are.
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
        let done = staged.set_up(program, &target.what, &real).map_err(&fault);
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
        };
        staged.map(change).collect()
    }

    /// Does all of it, or none: if one file fails, those that were written before are put back.
    pub fn carry_out(&self) -> Result<(), FileFault> {
        for (done, path) in self.order.iter().enumerate() {
            let Some(staged) = self.files.get(path) else { continue };
            if let Err(error) = staged.carry_out(path, &self.memory) {
                // This one, too: what was made for it, and what is remembered of it.
                let left = self.put_back(&self.order[..=done]);
                return Err(FileFault { left, ..FileFault::io(&staged.named, &error) });
            }
        }
        Ok(())
    }

    /// Undoes what was done to these, the last first. Says which of them are not as they were.
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
    /// Whether it is as Poste left it.
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
            (None, true) => what.take_out(text, &record.made).map(Some),
        }
    }

    fn set_up(&mut self, program: Program, what: &What, real: &Path) -> Result<(), Fault> {
        if let Some(text) = &self.after
            && what.holds(text)?
        {
            if let Some(record) = &mut self.record_after {
                record.owners.insert(program);
            }
            return Ok(());
        }
        let made = self.record_after.as_ref().map(|record| record.made.clone()).unwrap_or_default();
        let base = match &self.after {
            None => None,
            Some(_) if self.is_as_written() => self.original(what)?,
            Some(text) => match what.take_out(text, &made)? {
                // Written by a version that wrote it otherwise.
                text if matches!(what, What::Whole(_)) && text.is_empty() => None,
                text => Some(text),
            },
        };
        let (text, made) = match &base {
            Some(base) => what.apply(base)?,
            None => what.fresh()?,
        };
        let is_computed = match &base {
            Some(base) => what.take_out(&text, &made).as_ref() == Ok(base),
            None => true,
        };
        let folders = match &self.record_after {
            Some(record) => record.folders.clone(),
            None => missing_folders(real),
        };
        let mut owners = self.record_after.take().map(|record| record.owners).unwrap_or_default();
        owners.insert(program);
        self.record_after = Some(Record {
            path: real.to_owned(),
            existed: base.is_some(),
            written: digest(&text),
            original: base.filter(|_| !is_computed),
            made,
            folders,
            owners,
        });
        self.outcome = if self.before.is_some() { Outcome::Changed } else { Outcome::Created };
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
        let (after, outcome) = if self.is_as_written() {
            match self.original(what)? {
                Some(original) => (Some(original), Outcome::Restored),
                None => (None, Outcome::Removed),
            }
        } else {
            let made = self.record_after.as_ref().map(|record| record.made.clone()).unwrap_or_default();
            let was_there = self.record_after.as_ref().is_none_or(|record| record.existed);
            match what {
                What::Whole(wanted) => match text == *wanted || seal::is_whole(&text) {
                    true => (None, Outcome::Removed),
                    false => (Some(text), Outcome::Left),
                },
                _ => match what.take_out(&text, &made)? {
                    rest if rest == text => (Some(rest), Outcome::Unchanged),
                    rest if !was_there && what.is_empty(&rest) => (None, Outcome::Removed),
                    rest => (Some(rest), Outcome::TakenOut),
                },
            }
        };
        if outcome != Outcome::Left {
            self.record_after = None;
        }
        self.after = after;
        self.outcome = outcome;
        Ok(())
    }

    fn carry_out(&self, path: &Path, memory: &Memory) -> io::Result<()> {
        let before = self.before.as_ref().map(|existing| existing.text.as_str());
        if before != self.after.as_deref() {
            let now = read(path).map_err(|fault| io::Error::other(fault.why))?;
            if now.as_ref() != self.before.as_ref() {
                return Err(io::Error::other("somebody has changed it in this very moment; set up again"));
            }
        }
        // First what is needed to put it back: whatever comes between, the original is not lost.
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
        if self.after.is_none()
            && let Some(record) = &self.record_before
        {
            // Only if nobody has put anything else into them.
            record.folders.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
        }
        if self.record_after.is_none() && self.record_before.is_some() {
            memory.forget(path)?;
        }
        Ok(())
    }

    /// Makes it what it was, and says whether it is.
    fn put_back(&self, path: &Path, memory: &Memory, has_failed: bool) -> bool {
        // Nobody's change but ours is undone. Whether that worked shows in the file.
        let is_ours = read(path).is_ok_and(|now| self.is_written(now.as_ref()));
        let _ = match &self.before {
            Some(existing) if is_ours => write(path, &existing.text, Some(existing)),
            None if is_ours => fs::remove_file(path),
            _ => Ok(()),
        };
        if self.is_left(path, has_failed) {
            // What is remembered of it is needed to take it out later.
            return false;
        }
        if self.before.is_none() {
            let folders = self.record_after.iter().flat_map(|record| record.folders.iter().rev());
            folders.for_each(|folder| drop(fs::remove_dir(folder)));
        }
        // What is remembered of a file and does not fit it harms nobody: the file is looked at anew.
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

    /// Whether something of Poste is still in it. Of the file that failed only what was written whole is Poste's; in one that was
    /// written, whatever somebody has added to it since.
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
    /// Everything is there as it should be.
    fn holds(&self, text: &str) -> Result<bool, Fault> {
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        match self {
            Self::Json(edits) => json::holds(text, edits),
            Self::Toml(edit) => toml::holds(text, edit),
            Self::Section(body) => section::holds(text, body),
            Self::Whole(wanted) => Ok(text == wanted),
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
            Self::Whole(_) => {
                return Err(Fault::conflict("is there already and not as Poste writes it")
                    .hint("move it away and set up again, or keep it and go on without"));
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
            Self::Whole(text) => (text.clone(), Vec::new()),
        })
    }

    fn take_out(&self, text: &str, made: &[json::Path]) -> Result<String, Fault> {
        let (mark, text) = split_mark(text);
        let after = match self {
            Self::Json(edits) => json::take_out(text, edits, made)?,
            Self::Toml(edit) => toml::take_out(text, edit)?,
            Self::Section(_) => section::take_out(text)?,
            Self::Whole(_) if seal::is_whole(text) => return Ok(String::new()),
            Self::Whole(_) => text.to_owned(),
        };
        Ok(format!("{mark}{after}"))
    }

    fn is_empty(&self, text: &str) -> bool {
        match self {
            Self::Json(_) => json::is_empty(text),
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

/// The folders that will have to be made, outermost first.
fn missing_folders(file: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        file.ancestors().skip(1).take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    folders.reverse();
    folders
}

#[derive(Debug, Clone, Copy)]
enum Mode {
    Exactly(u32),
    /// As a new file of this user has it.
    Usual,
}

fn write(path: &Path, text: &str, before: Option<&Existing>) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    write_aside(path, text.as_bytes(), before.map_or(Mode::Usual, |existing| Mode::Exactly(existing.mode)))
}

/// Beside it and then in its place: whoever reads it finds the old one or the new one, whole.
fn write_aside(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".poste-unfinished-");
    if matches!(mode, Mode::Usual) {
        builder.permissions(Permissions::from_mode(0o666)); // less what the user's mask takes away
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
#[path = "files_tests.rs"]
mod tests;
