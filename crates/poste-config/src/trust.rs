//! Files whose commands a person on this machine has reviewed. Any other file runs nothing: it may have arrived with a
//! repository or an archive, or an agent may have written it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use poste_core::gates::Source;
use poste_core::store::{discover, state};
use poste_core::{Digest, Error, Office, Timestamp};
use serde::{Deserialize, Serialize};

use crate::adopt::{Found, store_of};
use crate::store::{UserStore, find_program, read_program};
use crate::{Command, ConfigFile, FILE, commands, read_config, read_local};

const TRUSTED: &str = "trusted";

/// A file as a person reviewed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewed {
    pub file: String,
    pub digest: Digest,
    /// Its whole text, to show what changed later.
    pub text: String,
    /// The programs of its commands that lay in the project. Copies of them run.
    pub programs: BTreeMap<String, Digest>,
    pub by: String,
    /// In milliseconds.
    pub at: Timestamp,
}

/// How a file relates to what was reviewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trust {
    /// No state of it was ever trusted here.
    Never,
    /// It, or a program of it, has changed since it was trusted.
    Changed(Reviewed),
    Trusted(Reviewed),
}

impl Trust {
    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Trusted(_))
    }
}

/// A text that would run commands, or speak in a person's name, if it was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its path from the project's folder, or whole if it lies elsewhere.
    pub file: String,
    pub text: String,
    pub commands: Vec<Command>,
}

impl Candidate {
    fn programs(&self) -> impl Iterator<Item = &str> {
        self.commands.iter().filter_map(|command| command.program.as_deref())
    }
}

/// The name under which a file is trusted.
pub fn name_of(office: &Office, path: &Path) -> Result<String, Error> {
    let folder = office.path()?;
    let project = folder.parent().unwrap_or(folder);
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    Ok(path.strip_prefix(&project).unwrap_or(&path).display().to_string())
}

/// What this user has reviewed of one office.
#[derive(Debug)]
pub(crate) struct Reviews {
    store: Option<UserStore>,
    folder: String,
    project: PathBuf,
}

impl Reviews {
    pub(crate) fn of(office: &Office) -> Result<Self, Error> {
        Self::at(office.path()?, UserStore::of(office.store().options()))
    }

    fn at(office: &Path, store: Option<UserStore>) -> Result<Self, Error> {
        let found = Found::at(office)?.ok_or_else(|| Error::NoOffice(office.to_owned()))?;
        let project = found.path.parent().unwrap_or(&found.path).to_owned();
        Ok(Self { store, folder: format!("{TRUSTED}/{}", found.key()), project })
    }

    fn entry(&self, file: &str) -> String {
        format!("{}/{}", self.folder, Digest::of(file.as_bytes()))
    }

    fn reviewed(&self, file: &str) -> Result<Option<Reviewed>, Error> {
        self.store.as_ref().map_or(Ok(None), |store| store.read(&self.entry(file)))
    }

    pub(crate) fn trust(&self, candidate: &Candidate) -> Result<Trust, Error> {
        let Some(reviewed) = self.reviewed(&candidate.file)? else { return Ok(Trust::Never) };
        let is_same = reviewed.digest == Digest::of(candidate.text.as_bytes())
            && candidate.programs().all(|word| {
                let now = self.own_program(word).map(|path| path.and_then(|path| read_program(&path)));
                now.is_ok_and(|bytes| bytes.map(|bytes| Digest::of(&bytes)).as_ref() == reviewed.programs.get(word))
            });
        Ok(if is_same { Trust::Trusted(reviewed) } else { Trust::Changed(reviewed) })
    }

    /// Where a program is, if it lies in the project: whoever can write there could replace it.
    fn own_program(&self, word: &str) -> Result<Option<PathBuf>, String> {
        let project = self.project.to_string_lossy();
        let word = ["{worktree}", "{folder}"].iter().fold(word.to_owned(), |word, name| word.replace(name, &project));
        if word.contains('{') {
            return Err(format!("{word}: a program cannot be a placeholder"));
        }
        let path = match word.contains('/') {
            true => self.project.join(&word),
            false => match find_program(&word) {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        let is_project = self.project.parent().is_some() && state::home().is_none_or(|home| home != self.project);
        let is_inside = |path: &Path| path.starts_with(&self.project);
        let real = path.canonicalize().ok();
        Ok((is_project && (is_inside(&path) || real.as_deref().is_some_and(is_inside))).then_some(path))
    }

    /// Makes a command run the copy of its program that was reviewed.
    pub(crate) fn pin(&self, reviewed: &Reviewed, words: &mut [String]) {
        let (Some(store), Some(word)) = (&self.store, words.first_mut()) else { return };
        if let Some(digest) = reviewed.programs.get(word) {
            *word = store.program(digest).display().to_string();
        }
    }
}

/// Makes a command run the copy of its program that was reviewed.
pub fn pin(office: &Office, reviewed: &Reviewed, words: &mut [String]) -> Result<(), Error> {
    Reviews::of(office)?.pin(reviewed, words);
    Ok(())
}

/// How a text relates to what was reviewed.
pub fn trust(office: &Office, candidate: &Candidate) -> Result<Trust, Error> {
    Reviews::of(office)?.trust(candidate)
}

/// The configuration files of an office that exist and would run something.
pub fn candidates(office: &Office) -> Result<Vec<Candidate>, Error> {
    let found =
        [Source::Office, Source::Machine].into_iter().filter_map(|source| candidate(office, source).transpose());
    found.filter(|found| found.as_ref().map_or(true, |found| !found.commands.is_empty())).collect()
}

/// A configuration file of an office, if it exists.
pub fn candidate(office: &Office, source: Source) -> Result<Option<Candidate>, Error> {
    let folder = office.path()?;
    let path = match source {
        Source::Office => folder.with_file_name(FILE),
        Source::Machine => folder.join(crate::LOCAL_FILE),
    };
    let Some(text) = read_config(&path)? else { return Ok(None) };
    let file = match source {
        Source::Office => ConfigFile::parse(&text, &path)?,
        Source::Machine => match read_local(&text) {
            (file, problems) if problems.is_empty() => file,
            (_, problems) => return Err(Error::Config { path, message: problems[0].to_string() }),
        },
    };
    Ok(Some(Candidate { file: file_name(source), text, commands: commands(&file) }))
}

pub(crate) fn file_name(source: Source) -> String {
    match source {
        Source::Office => FILE.to_owned(),
        Source::Machine => format!("{}/{}", discover::FOLDER, crate::LOCAL_FILE),
    }
}

/// Remembers that a person has reviewed this text, with the programs in the project that it starts.
pub fn set_trusted(office: &Office, candidate: &Candidate, by: String) -> Result<Reviewed, Error> {
    let store = store_of(office.store().options())?;
    let reviews = Reviews::at(office.path()?, Some(store.clone()))?;
    let _held = store.hold()?;
    let wrong = |message: String| Error::Config { path: PathBuf::from(&candidate.file), message };
    let mut programs = BTreeMap::new();
    for word in candidate.programs() {
        let bytes = reviews.own_program(word).map_err(wrong)?.and_then(|path| read_program(&path));
        if let Some(bytes) = bytes {
            programs.insert(word.to_owned(), store.keep_program(&bytes)?);
        }
    }
    let Candidate { file, text, .. } = candidate.clone();
    let reviewed = Reviewed { digest: Digest::of(text.as_bytes()), file, text, programs, by, at: office.wall() };
    store.write(&reviews.entry(&reviewed.file), &reviewed)?;
    Ok(reviewed)
}

/// Everything of an office that was reviewed.
pub fn all_trusted(office: &Office) -> Result<Vec<Reviewed>, Error> {
    let reviews = Reviews::of(office)?;
    let Some(store) = &reviews.store else { return Ok(Vec::new()) };
    let found = store.names(&reviews.folder)?.into_iter().filter_map(|name| store.read(&name).transpose());
    let mut found: Vec<Reviewed> = found.collect::<Result<_, _>>()?;
    found.sort_by(|a, b| a.file.cmp(&b.file));
    Ok(found)
}

/// Revokes the trust in one file, or in all. Returns the names of those that were trusted.
pub fn revoke_trust(office: &Office, file: Option<&str>) -> Result<Vec<String>, Error> {
    let reviews = Reviews::of(office)?;
    let mut revoked: Vec<String> = all_trusted(office)?.into_iter().map(|reviewed| reviewed.file).collect();
    revoked.retain(|known| file.is_none_or(|file| file == known));
    if let Some(store) = reviews.store.as_ref().filter(|_| !revoked.is_empty()) {
        let _held = store.hold()?;
        for file in &revoked {
            store.remove(&reviews.entry(file))?;
        }
    }
    Ok(revoked)
}

/// A change of a file by Poste itself, on behalf of a person: what was trusted stays trusted, and what ran nothing
/// before may run what the person added. Returns whether the new text is trusted.
pub(crate) fn renew(office: &Office, source: Source, was_trusted: bool, by: Option<String>) -> Result<bool, Error> {
    let Some(candidate) = candidate(office, source)? else { return Ok(true) };
    match by {
        _ if candidate.commands.is_empty() => Ok(true),
        Some(by) if was_trusted => set_trusted(office, &candidate, by).map(|_| true),
        _ => Ok(trust(office, &candidate)?.is_trusted()),
    }
}

/// Whether a configuration file of an office was reviewed as it is.
pub fn is_trusted(office: &Office, source: Source) -> Result<bool, Error> {
    candidate(office, source)?.map_or(Ok(false), |candidate| Ok(trust(office, &candidate)?.is_trusted()))
}

/// Whether a file runs nothing, or only what was reviewed.
pub(crate) fn is_reviewed(office: &Office, source: Source) -> Result<bool, Error> {
    let Some(candidate) = candidate(office, source)? else { return Ok(true) };
    Ok(candidate.commands.is_empty() || trust(office, &candidate)?.is_trusted())
}

/// The changed lines of a text that was reviewed, as a diff, with at most this many lines.
pub fn changed_lines(reviewed: &Reviewed, text: &str, lines_max: usize) -> Vec<String> {
    let patch = diffy::create_patch(&reviewed.text, text);
    let lines = patch.hunks().iter().flat_map(|hunk| hunk.lines());
    let changed = lines.filter_map(|line| match line {
        diffy::Line::Context(_) => None,
        diffy::Line::Delete(line) => Some(format!("-{}", line.trim_end())),
        diffy::Line::Insert(line) => Some(format!("+{}", line.trim_end())),
    });
    changed.take(lines_max).collect()
}
