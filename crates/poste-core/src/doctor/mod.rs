//! Finds problems of an office, explains them and suggests fixes.
//!
//! [`examine`] only reads: it never waits for the write lock and changes nothing, whatever state the office is in. A
//! check that cannot run is reported as a note and does not stop the others. [`apply_fixes`] applies the fixes that are
//! safe without asking, under the lock. Examine again to see their effect.
//!
//! Each group of checks has a file: the [`folder`](self) and what is in it, the lock and the processes, the database,
//! the clock, agents and their mail. Other crates add their own findings with [`Report::add`].

mod clock;
mod database;
mod files;
mod fix;
mod folder;
mod locks;
mod mail;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

pub use database::readable;
pub use fix::{Mended, apply_fixes};

use crate::error::Error;
use crate::limits::HOUR_MS;
use crate::office::Place;
use crate::progress::Progress;
use crate::store::folder::Entry;
use crate::store::{Folder, Store};
use crate::time::Timestamp;
use fix::Fix;

/// How closely to look.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Skip checks that read the whole log: integrity, replay, blobs against their digests.
    pub quick: bool,
    /// Report harmless findings, too.
    pub verbose: bool,
    /// How long an agent with mail may be inactive.
    pub patience_ms: i64,
}

impl Default for Request {
    fn default() -> Self {
        Self { quick: false, verbose: false, patience_ms: HOUR_MS }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Mail is lost or in danger, or the office cannot be used.
    Problem,
    /// Something is wrong, but mail is safe.
    Warning,
    /// Worth knowing.
    Note,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Self::Problem => "problem",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Finding {
    pub severity: Severity,
    /// The kind of finding, as a stable word.
    pub check: &'static str,
    pub what: String,
    pub meaning: String,
    /// What to do about it; null if nothing needs to be done.
    pub advice: Option<String>,
    /// A command that does it, or the first one to type.
    pub command: Option<String>,
    /// A verb that does it, which each surface shows as its own command.
    #[serde(skip)]
    pub verb: Option<VerbCall>,
    /// `poste doctor --fix` can fix it.
    pub fixable: bool,
    #[serde(skip)]
    fix: Option<Fix>,
}

/// A verb with its input.
#[derive(Debug, Clone)]
pub struct VerbCall {
    pub name: &'static str,
    pub input: Map<String, Value>,
}

impl Finding {
    fn new(severity: Severity, check: &'static str, what: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self {
            severity,
            check,
            what: what.into(),
            meaning: meaning.into(),
            advice: None,
            command: None,
            verb: None,
            fixable: false,
            fix: None,
        }
    }

    pub fn problem(check: &'static str, what: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(Severity::Problem, check, what, meaning)
    }

    pub fn warning(check: &'static str, what: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(Severity::Warning, check, what, meaning)
    }

    pub fn note(check: &'static str, what: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self::new(Severity::Note, check, what, meaning)
    }

    pub fn advice(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    pub fn command(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }

    /// A verb, with its input as an object. `as` is the agent that should call it.
    pub fn verb(mut self, name: &'static str, input: Value) -> Self {
        let input = input.as_object().cloned().unwrap_or_default();
        self.verb = Some(VerbCall { name, input });
        self
    }

    /// The finding of a check that failed to run.
    pub fn unchecked(what: &str, error: &Error) -> Self {
        match error {
            Error::Damaged(damage) | Error::DatabaseDamaged(damage) => database::damaged(damage),
            error => Self::note("unchecked", format!("{what} could not be checked: {error}"), "Its state is unknown.")
                .advice("fix the cause, then run poste doctor again"),
        }
    }

    fn with_fix(mut self, fix: Fix) -> Self {
        self.fixable = true;
        self.fix = Some(fix);
        self
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Report {
    pub office: String,
    pub quick: bool,
    /// Problems first, in the order they were found.
    pub findings: Vec<Finding>,
}

impl Report {
    pub fn count(&self, severity: Severity) -> usize {
        self.findings.iter().filter(|finding| finding.severity == severity).count()
    }

    pub fn add(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| finding.severity);
    }
}

/// What the checks work on.
struct Scene<'a> {
    place: &'a Place,
    office: Folder,
    request: Request,
    findings: Vec<Finding>,
}

/// A database that could be opened and may be read.
struct Opened {
    store: Store,
    now: Timestamp,
}

impl Scene<'_> {
    fn entry(&self, name: &str) -> Result<Option<Entry>, Error> {
        self.office.entry(name).map_err(|error| Error::io(&self.office.path().join(name), error))
    }

    fn entries_of(&self, name: &str) -> Result<Vec<Entry>, Error> {
        self.office.entries_of(name).map_err(|error| Error::io(&self.office.path().join(name), error))
    }

    fn entries(&self) -> Result<Vec<Entry>, Error> {
        self.office.entries().map_err(|error| Error::io(self.office.path(), error))
    }

    fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Runs one check. If it fails, that is a finding, and the next checks still run.
    fn check(&mut self, what: &'static str, check: impl FnOnce(&mut Self) -> Result<(), Error>) {
        if let Err(error) = check(self) {
            self.add(Finding::unchecked(what, &error));
        }
    }
}

/// Checks everything and changes nothing. Fails only if nothing exists at the place.
pub fn examine(place: &Place, request: Request, progress: &mut dyn FnMut(Progress)) -> Result<Report, Error> {
    let mut findings = Vec::new();
    if let Some(office) = folder::open(place, &mut findings)? {
        let mut scene = Scene { place, office, request, findings };
        scene.check("the permissions", folder::permissions);
        scene.check("the files of every office", folder::missing);
        scene.check("the kinds of files", folder::shapes);
        scene.check("leftovers", folder::leftovers);
        scene.check("the file system", folder::file_system);
        scene.check("the free disk space", folder::room);
        scene.check("the write lock", locks::write_lock);
        if let Some(opened) = database::open(&mut scene) {
            scene.check("the end of the log", |scene| database::bell(scene, &opened));
            scene.check("the write-ahead log", |scene| locks::write_ahead_log(scene, &opened));
            scene.check("the clock", |scene| clock::clock(scene, &opened));
            scene.check("the agents", |scene| mail::agents(scene, &opened));
            scene.check("the sessions", |scene| mail::sessions(scene, &opened));
            scene.check("the claims", |scene| mail::claims(scene, &opened));
            scene.check("redacted content", |scene| database::erasure(scene, &opened));
            scene.check("the archives", |scene| files::unnamed_archives(scene, &opened));
            scene.check("the mirror of contexts", |scene| files::mirrors(scene, &opened));
            if !request.quick {
                scene.check("the log and the tables", |scene| database::soundness(scene, &opened, progress));
                scene.check("the blobs", |scene| files::orphans(scene, &opened, progress));
            }
        }
        findings = scene.findings;
    }
    let mut report = Report { office: place.path.display().to_string(), quick: request.quick, findings: Vec::new() };
    report.add(findings);
    Ok(report)
}

/// A path quoted for a shell.
fn quoted(path: &std::path::Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | ',' | ':' | '@');
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}
