//! Files whose commands a person on this machine has reviewed. Any other file runs nothing: it may have arrived with a
//! repository or an archive, or an agent may have written it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use poste_core::gates::Source;
use poste_core::store::{discover, state};
use poste_core::{Digest, Error, Office, Timestamp};
use serde::{Deserialize, Serialize};

use crate::adopt::{Found, store_of};
use crate::store::{UserStore, read_program};
use crate::{Command, ConfigFile, FILE, commands, read_config, read_local};

const TRUSTED: &str = "trusted";

/// Programs by the word that starts each, with the digest of the copy that runs.
type Programs = BTreeMap<String, Digest>;

/// What a file was reviewed as. Reviewed as another kind, the same file would do something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Configuration,
    Workflow,
    Handoff,
}

/// A file as a person reviewed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reviewed {
    pub kind: Kind,
    pub file: String,
    pub digest: Digest,
    /// Its whole text, to show what changed later.
    pub text: String,
    /// The programs of its commands that lay in the project. Copies of them run.
    pub programs: Programs,
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
    pub kind: Kind,
    /// Its path from the project's folder, or whole if it lies elsewhere.
    pub file: String,
    pub text: String,
    pub commands: Vec<Command>,
}

impl Candidate {
    /// Equal only for equal texts whose commands do the same, down to the bytes of programs in the project.
    pub fn digest(&self) -> Digest {
        let shown = serde_json::to_vec(&(self.kind, &self.file, &self.text, &self.commands)).expect("plain data");
        Digest::of(&shown)
    }

    /// The first command that cannot be trusted, and why.
    pub fn problem(&self) -> Option<(&Command, &str)> {
        self.commands.iter().find_map(|command| Some((command, command.problem.as_deref()?)))
    }
}

impl Reviewed {
    /// Whether a person means it: by its name as listed, or by the name of a workflow without folder and ending.
    pub fn is_named(&self, name: &str) -> bool {
        let is_stem = || Path::new(&self.file).file_stem().is_some_and(|stem| stem == name);
        self.file == name || (self.kind == Kind::Workflow && is_stem())
    }

    /// The programs that are not as they were reviewed.
    pub fn changed_programs<'a>(&self, now: &'a Candidate) -> BTreeSet<&'a str> {
        // A program that only a new text starts has not changed.
        let is_known = |word: &str| self.text == now.text || self.programs.contains_key(word);
        let changed = now.commands.iter().filter_map(|command| {
            let word = command.program.as_deref()?;
            (is_known(word) && self.programs.get(word) != command.digest.as_ref()).then_some(word)
        });
        changed.collect()
    }
}

/// Why something is not trusted although a person wants that.
#[derive(Debug)]
pub enum Refusal {
    /// This program is not what was shown.
    Changed(String),
    /// What is wrong with a command.
    Unsound(String),
    Failed(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Failed(error)
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

    fn entry(&self, kind: Kind, file: &str) -> String {
        format!("{}/{}", self.folder, Digest::of(format!("{kind:?} {file}").as_bytes()))
    }

    fn reviewed(&self, candidate: &Candidate) -> Result<Option<Reviewed>, Error> {
        let Some(store) = &self.store else { return Ok(None) };
        store.read(&self.entry(candidate.kind, &candidate.file))
    }

    pub(crate) fn trust(&self, candidate: &Candidate) -> Result<Trust, Error> {
        let Some(reviewed) = self.reviewed(candidate)? else { return Ok(Trust::Never) };
        let is_same = reviewed.digest == Digest::of(candidate.text.as_bytes())
            && self.with_programs(candidate.clone()).commands.iter().all(|now| is_as_in(&reviewed.programs, now));
        Ok(if is_same { Trust::Trusted(reviewed) } else { Trust::Changed(reviewed) })
    }

    /// Completes each command with what its program is now.
    fn with_programs(&self, mut candidate: Candidate) -> Candidate {
        let mut found = Programs::new();
        for command in &mut candidate.commands {
            (command.digest, command.problem) = match self.own_program(command) {
                Ok(bytes) => (bytes.map(|bytes| Digest::of(&bytes)), None),
                Err(why) => (None, Some(why)),
            };
            if let (Some(word), Some(digest)) = (&command.program, command.digest)
                && found.insert(word.clone(), digest).is_some_and(|other| other != digest)
            {
                // Copies are found by the word.
                command.problem = Some(format!("{word} is another program in another folder; give it its own name"));
            }
        }
        candidate
    }

    /// The bytes of a program that lies in the project: whoever can write there could replace it. A path that is relative
    /// always counts, because what it leads to depends on where it is run.
    fn own_program(&self, command: &Command) -> Result<Option<Vec<u8>>, String> {
        let Some(word) = command.program.as_deref() else { return Ok(None) };
        let folder = command.folder.as_ref().map_or_else(|| self.project.clone(), |folder| self.project.join(folder));
        let text = folder.to_string_lossy();
        let filled = ["{worktree}", "{folder}"].iter().fold(word.to_owned(), |word, name| word.replace(name, &text));
        if filled.contains('{') {
            return Err(format!("{word}: a program cannot be a placeholder"));
        }
        let path = match filled.contains('/') {
            true => folder.join(&filled),
            false => match poste_run::find_program(&filled) {
                Some(path) => path,
                None => return Ok(None),
            },
        };
        // They lead elsewhere for each process that looks.
        if ["/proc", "/dev"].iter().any(|live| path.starts_with(live)) {
            return Err(format!("{word} is another program in each process"));
        }
        let is_relative = word.contains('/') && !Path::new(word).is_absolute();
        let is_project = self.project.parent().is_some() && state::home().is_none_or(|home| home != self.project);
        let real = path.canonicalize().ok();
        let is_inside =
            |folder: &Path| path.starts_with(folder) || real.as_deref().is_some_and(|real| real.starts_with(folder));
        if !is_relative && !(is_project && (is_inside(&self.project) || is_inside(&folder))) {
            return Ok(None);
        }
        let place = command.folder.as_deref().unwrap_or("the project");
        let bytes = read_program(&path).ok_or_else(|| format!("{word} is not a program in {place}, or too large"))?;
        if let Some(interpreter) = interpreter(&bytes)
            && (!interpreter.is_absolute() || is_inside_real(interpreter, &self.project))
        {
            return Err(format!("{word} is run by {}, which can be replaced", interpreter.display()));
        }
        Ok(Some(bytes))
    }

    /// Where the copy of a program lies that was reviewed, if the program lay in the project.
    pub(crate) fn copy_of(&self, reviewed: &Reviewed, program: &str) -> Option<String> {
        let digest = reviewed.programs.get(program)?;
        Some(self.store.as_ref()?.program(digest).display().to_string())
    }

    /// Makes a command run the copy of its program that was reviewed.
    pub(crate) fn pin(&self, reviewed: &Reviewed, words: &mut [String]) {
        if let Some(word) = words.first_mut()
            && let Some(copy) = self.copy_of(reviewed, word)
        {
            *word = copy;
        }
    }
}

/// What runs a script, according to its first line.
fn interpreter(bytes: &[u8]) -> Option<&Path> {
    let line = bytes.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let program = line.split(|byte| byte.is_ascii_whitespace()).find(|word| !word.is_empty())?;
    Some(Path::new(OsStr::from_bytes(program)))
}

fn is_inside_real(path: &Path, folder: &Path) -> bool {
    path.starts_with(folder) || path.canonicalize().is_ok_and(|real| real.starts_with(folder))
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
    let text = read_config(&path_of(office, source)?)?;
    text.map(|text| candidate_of(office, source, text)).transpose()
}

fn path_of(office: &Office, source: Source) -> Result<PathBuf, Error> {
    let folder = office.path()?;
    Ok(match source {
        Source::Office => folder.with_file_name(FILE),
        Source::Machine => folder.join(crate::LOCAL_FILE),
    })
}

/// What a configuration file would be with this text.
fn candidate_of(office: &Office, source: Source, text: String) -> Result<Candidate, Error> {
    let path = path_of(office, source)?;
    let file = match source {
        Source::Office => ConfigFile::parse(&text, &path)?,
        Source::Machine => match read_local(&text) {
            (file, problems) if problems.is_empty() => file,
            (_, problems) => return Err(Error::Config { path, message: problems[0].to_string() }),
        },
    };
    let kind = Kind::Configuration;
    let candidate = Candidate { kind, file: file_name(source), text, commands: commands(&file) };
    Ok(Reviews::of(office)?.with_programs(candidate))
}

/// Commands that run in this folder, with the digests of their programs there.
pub fn in_folder(office: &Office, mut candidate: Candidate, folder: Option<&Path>) -> Result<Candidate, Error> {
    let reviews = Reviews::of(office)?;
    if let Some(folder) = folder.filter(|folder| *folder != reviews.project) {
        candidate.commands.iter_mut().for_each(|command| command.folder = Some(folder.display().to_string()));
    }
    Ok(reviews.with_programs(candidate))
}

pub(crate) fn file_name(source: Source) -> String {
    match source {
        Source::Office => FILE.to_owned(),
        Source::Machine => format!("{}/{}", discover::FOLDER, crate::LOCAL_FILE),
    }
}

/// Remembers that a person has reviewed this text, and keeps copies of the programs in the project that it starts.
/// Refuses a program that is no longer the one that was shown.
pub fn set_trusted(office: &Office, candidate: &Candidate, by: String) -> Result<Reviewed, Refusal> {
    if let Some((_, why)) = candidate.problem() {
        return Err(Refusal::Unsound(why.to_owned()));
    }
    let store = store_of(office.store().options())?;
    let reviews = Reviews::at(office.path()?, Some(store.clone()))?;
    let _held = store.hold()?;
    let mut programs = Programs::new();
    for command in &candidate.commands {
        let Some(word) = command.program.clone() else { continue };
        let changed = |_| Refusal::Changed(word.clone());
        let bytes = reviews.own_program(command).map_err(changed)?;
        if bytes.as_deref().map(Digest::of) != command.digest {
            return Err(Refusal::Changed(word));
        }
        if let Some(bytes) = bytes {
            programs.insert(word, store.keep_program(&bytes)?);
        }
    }
    Ok(remember(office, &store, &reviews, candidate.clone(), programs, by)?)
}

fn remember(
    office: &Office,
    store: &UserStore,
    reviews: &Reviews,
    candidate: Candidate,
    programs: Programs,
    by: String,
) -> Result<Reviewed, Error> {
    let Candidate { kind, file, text, .. } = candidate;
    let reviewed = Reviewed { kind, digest: Digest::of(text.as_bytes()), file, text, programs, by, at: office.wall() };
    store.write(&reviews.entry(reviewed.kind, &reviewed.file), &reviewed)?;
    Ok(reviewed)
}

/// Whether the program of a command is the one that was reviewed.
fn is_as_in(programs: &Programs, now: &Command) -> bool {
    let reviewed = now.program.as_ref().and_then(|word| programs.get(word));
    now.problem.is_none() && reviewed == now.digest.as_ref()
}

/// Everything of an office that was reviewed.
pub fn all_trusted(office: &Office) -> Result<Vec<Reviewed>, Error> {
    let reviews = Reviews::of(office)?;
    let Some(store) = &reviews.store else { return Ok(Vec::new()) };
    let found = store.names(&reviews.folder)?.into_iter().filter_map(|name| store.read(&name).transpose());
    let mut found: Vec<Reviewed> = found.collect::<Result<_, _>>()?;
    found.sort_by(|a, b| (a.kind, &a.file).cmp(&(b.kind, &b.file)));
    Ok(found)
}

/// Revokes the trust in files, and returns those that were trusted.
pub fn revoke_trust(office: &Office, is_meant: impl Fn(&Reviewed) -> bool) -> Result<Vec<Reviewed>, Error> {
    let reviews = Reviews::of(office)?;
    let revoked: Vec<Reviewed> = all_trusted(office)?.into_iter().filter(is_meant).collect();
    if let Some(store) = reviews.store.as_ref().filter(|_| !revoked.is_empty()) {
        let _held = store.hold()?;
        for Reviewed { kind, file, .. } in &revoked {
            store.remove(&reviews.entry(*kind, file))?;
        }
    }
    Ok(revoked)
}

/// The programs that were reviewed with this text of a file. `None` if the text was not; one that runs nothing needs no
/// review.
pub(crate) fn reviewed_programs(
    office: &Office,
    source: Source,
    text: Option<&str>,
) -> Result<Option<Programs>, Error> {
    let Some(text) = text else { return Ok(Some(Programs::new())) };
    let candidate = candidate_of(office, source, text.to_owned())?;
    if candidate.commands.is_empty() {
        return Ok(Some(Programs::new()));
    }
    Ok(match trust(office, &candidate)? {
        Trust::Trusted(reviewed) => Some(reviewed.programs),
        Trust::Never | Trust::Changed(_) => None,
    })
}

/// A change of a file by Poste itself, on behalf of a person: what was trusted stays trusted, and what ran nothing
/// before may run what the person added. Trusts the text that Poste wrote, whatever the file says by now, and of the
/// programs only those that were reviewed and the one that the person named. Returns whether that text is trusted.
pub(crate) fn renew(
    office: &Office,
    source: Source,
    text: String,
    reviewed: Option<Programs>,
    named: Option<&String>,
    by: Option<String>,
) -> Result<bool, Error> {
    let candidate = candidate_of(office, source, text)?;
    if candidate.commands.is_empty() {
        return Ok(true);
    }
    let (Some(mut programs), Some(by)) = (reviewed, by) else { return Ok(trust(office, &candidate)?.is_trusted()) };
    let store = store_of(office.store().options())?;
    let reviews = Reviews::at(office.path()?, Some(store.clone()))?;
    let _held = store.hold()?;
    let is_named = |command: &&Command| named.is_some() && command.program.as_ref() == named;
    for command in candidate.commands.iter().filter(is_named) {
        if let (Some(word), Ok(Some(bytes))) = (named, reviews.own_program(command)) {
            programs.insert(word.clone(), store.keep_program(&bytes)?);
        }
    }
    if !candidate.commands.iter().all(|command| is_as_in(&programs, command)) {
        return Ok(false);
    }
    programs.retain(|word, _| candidate.commands.iter().any(|command| command.program.as_ref() == Some(word)));
    remember(office, &store, &reviews, candidate, programs, by).map(|_| true)
}

/// Whether a configuration file of an office was reviewed as it is.
pub fn is_trusted(office: &Office, source: Source) -> Result<bool, Error> {
    candidate(office, source)?.map_or(Ok(false), |candidate| Ok(trust(office, &candidate)?.is_trusted()))
}

/// The changed lines of a text that was reviewed, as a diff, with at most this many lines.
pub fn changed_lines(reviewed: &Reviewed, text: &str, lines_max: usize) -> Vec<String> {
    diff(&reviewed.text, text, lines_max)
}

/// What changed in a program since it was reviewed: lines of a script, of anything else the digests.
pub fn changed_program(office: &Office, reviewed: &Reviewed, now: &Command) -> Result<Vec<String>, Error> {
    let Some(word) = &now.program else { return Ok(Vec::new()) };
    let reviews = Reviews::of(office)?;
    let old = reviews.copy_of(reviewed, word).and_then(|copy| read_program(Path::new(&copy)));
    let new = reviews.own_program(now).ok().flatten();
    let script = |bytes: &Option<Vec<u8>>| {
        bytes.as_ref().filter(|bytes| bytes.starts_with(b"#!")).and_then(|bytes| String::from_utf8(bytes.clone()).ok())
    };
    if let (Some(old), Some(new)) = (script(&old), script(&new)) {
        return Ok(diff(&old, &new, usize::MAX));
    }
    let digests = [("-", reviewed.programs.get(word)), ("+", now.digest.as_ref())];
    Ok(digests.into_iter().filter_map(|(sign, digest)| Some(format!("{sign}{word}, digest {}", digest?))).collect())
}

/// More changed lines than this are listed without looking for those that stayed between them: that takes too long.
const COMPARED_MAX: usize = 2_000;

fn diff(old: &str, new: &str, lines_max: usize) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |(a, b): &(&&str, &&str)| a == b;
    let begin = old.iter().zip(&new).take_while(same).count();
    let (old, new) = (&old[begin..], &new[begin..]);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
    let (old, new) = (&old[..old.len() - end], &new[..new.len() - end]);
    if old.len() + new.len() > COMPARED_MAX {
        let removed = old.iter().map(|line| format!("-{}", line.trim_end()));
        return removed.chain(new.iter().map(|line| format!("+{}", line.trim_end()))).take(lines_max).collect();
    }
    let text = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let (old, new) = (text(old), text(new));
    let patch = diffy::create_patch(&old, &new);
    let lines = patch.hunks().iter().flat_map(|hunk| hunk.lines());
    let changed = lines.filter_map(|line| match line {
        diffy::Line::Context(_) => None,
        diffy::Line::Delete(line) => Some(format!("-{}", line.trim_end())),
        diffy::Line::Insert(line) => Some(format!("+{}", line.trim_end())),
    });
    changed.take(lines_max).collect()
}
