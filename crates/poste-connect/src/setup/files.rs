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

use super::ours::Own;
use super::{Fault, Target, What, json, seal, section, toml};
use poste_verbs::program::Program;

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
    /// From where the memory counts.
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
    /// Folders that were made for it, outermost first, from where the memory counts.
    #[serde(default)]
    folders: Vec<PathBuf>,
    owners: BTreeSet<Program>,
}

/// Where it is remembered what files held before: one file each, for its owner's eyes only.
#[derive(Debug, Clone)]
pub struct Memory {
    folder: PathBuf,
    /// Paths below it are kept from here, so that what moves together is still known.
    top: PathBuf,
}

impl Memory {
    pub fn new(folder: PathBuf, top: &Path) -> Self {
        Self { folder, top: top.canonicalize().unwrap_or_else(|_| top.to_owned()) }
    }

    fn below_top(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.top).unwrap_or(path).to_owned()
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
        let name = blake3::hash(self.below_top(file).as_os_str().as_encoded_bytes()).to_hex();
        self.folder.join(&name[..32]).with_extension("json")
    }

    /// What cannot be read is as good as forgotten: then only entries are taken out.
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
    /// What somebody wrote themselves for Poste stays in it.
    keeps_own: bool,
    /// The folder it does not lead out of.
    below: Option<PathBuf>,
}

/// A change of one file, as it is planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// As its program knows it.
    pub path: PathBuf,
    pub before: Option<String>,
    pub after: Option<String>,
    pub outcome: Outcome,
    /// Whether it was known what it held before.
    pub is_recorded: bool,
    /// Poste was taken out, but for what somebody wrote themselves.
    pub keeps_own: bool,
}

impl Change {
    pub fn is_change(&self) -> bool {
        self.before != self.after
    }

    /// There is no such file, and there shall be none.
    pub fn is_nothing(&self) -> bool {
        self.before.is_none() && self.after.is_none()
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
            (None, true) => what.take_out(text, Some(&record.made), Own::Nothing).map(Some),
        }
    }

    /// What a file that is not as Poste left it would be without Poste.
    fn without_poste(&self, what: &What, text: &str) -> Result<Option<String>, Fault> {
        let Some(record) = &self.record_after else {
            // Nobody knows what was there. What is just as Poste writes it was not, nor was a file of nothing else.
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
        // What is there already and is just as Poste writes it may be whoever's: nothing is known of it.
        let is_somebodys =
            || base.as_ref().is_some_and(|base| what.take_out(base, None, Own::Nothing).as_ref() != Ok(base));
        if !is_change && (self.record_after.is_some() || !is_somebodys()) {
            return Ok(());
        }
        let folders = match &self.record_after {
            Some(record) => record.folders.clone(),
            None => {
                // A file that is there and all Poste's was made with its folders, whoever made them.
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
        // A file that several programs share may have been changed for another one.
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
        if self.after.is_none() && before.is_some() {
            self.remove_folders(self.record_before.as_ref(), path, memory);
        }
        if self.record_after.is_none() && self.record_before.is_some() {
            memory.forget(path)?;
        }
        Ok(())
    }

    /// The folders that were made for it or, if nobody knows, those it was in. Only if nobody has put anything else there.
    fn remove_folders(&self, record: Option<&Record>, path: &Path, memory: &Memory) {
        let folders = match record {
            Some(record) => record.folders.iter().map(|folder| memory.top.join(folder)).collect(),
            None => self.folders_of(path),
        };
        folders.iter().rev().for_each(|folder| drop(fs::remove_dir(folder)));
    }

    /// Where it is, below what it does not lead out of; outermost first.
    fn folders_of(&self, path: &Path) -> Vec<PathBuf> {
        let Some(below) = &self.below else { return Vec::new() };
        let above = path.ancestors().skip(1).take_while(|folder| *folder != below && folder.starts_with(below));
        let mut folders: Vec<PathBuf> = above.map(Path::to_owned).collect();
        folders.reverse();
        folders
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
        if self.before.is_none()
            && let Some(record) = &self.record_after
        {
            self.remove_folders(Some(record), path, memory);
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
    /// Somebody made it theirs.
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
                return Err(Fault::conflict("is there already and not as Poste writes it")
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
mod tests {
    use super::*;
    use crate::setup::programs::{Places, targets};
    use crate::setup::{Invocation, Scope};

    #[test]
    fn a_file_that_is_not_put_back_is_named() {
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
        // Somebody writes to one of them before they are put back: what they wrote is kept, and Poste's entries are in it.
        let theirs = fs::read_to_string(&servers).unwrap().replacen('{', "{ \"mine\": 1,", 1);
        fs::write(&servers, &theirs).unwrap();
        assert_eq!(plan.put_back(&plan.order), std::slice::from_ref(&servers));
        assert_eq!(fs::read_to_string(&servers).unwrap(), theirs);
        assert_eq!(fs::read_to_string(&settings).unwrap(), "{}");
        assert!(!path("project/.claude/skills").exists());
        let remembered = fs::read_dir(path("state")).unwrap().flatten().filter(|entry| entry.file_name() != "lock");
        assert_eq!(remembered.count(), 1, "it is known what to take out of it");
    }
}
