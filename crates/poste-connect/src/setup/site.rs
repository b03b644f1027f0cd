//! Finds what a set-up works on: the project, its office and the agent programs.

use std::path::{Path, PathBuf};

use poste_core::store::discover::{self, repository_top};
use poste_core::text::Name;
use poste_verbs::program::Program;
use poste_verbs::{Error, Result, note};
use schemars::JsonSchema;
use serde::Serialize;

use super::files::Memory;
use super::programs::{self, Places};
use super::proof::{self, Finding, State, Wiring};
use super::{Invocation, Scope, Target, plugin};

/// Where a command was started, and its options.
#[derive(Debug)]
pub struct Start {
    pub scope: Scope,
    pub cwd: PathBuf,
    pub home: PathBuf,
    /// Looks up the variables that name settings folders.
    pub variable: fn(&str) -> Option<PathBuf>,
    /// The office named by an option or a variable.
    pub explicit_office: Option<PathBuf>,
    pub executable: PathBuf,
    /// The folders of `PATH`.
    pub search: Vec<PathBuf>,
    pub agent: Option<Name>,
    pub plugin: Option<PathBuf>,
    /// The version of this program.
    pub version: &'static str,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ProgramView {
    pub program: String,
    /// What was tested. Empty if nothing was.
    pub proof: Vec<ProofView>,
    /// What the user has to do, once.
    pub trust: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct ProofView {
    /// listed, tools, mid-turn delivery, stop guard, idle wake
    pub what: String,
    /// works, needs_trust, unavailable or fails
    pub state: String,
    pub note: Option<String>,
}

/// The set-up of one program.
#[derive(Debug)]
pub struct Job {
    pub program: Program,
    pub poste: Invocation,
    /// The agent named in its files, when no option names one.
    pub kept_agent: Option<String>,
    pub targets: Vec<Target>,
}

/// The project, office and options of a set-up.
#[derive(Debug)]
pub struct Site {
    pub scope: Scope,
    places: Places,
    pub poste: Invocation,
    executable: PathBuf,
    /// The folder of the office, for a project.
    pub office: Option<PathBuf>,
    search: Vec<PathBuf>,
    /// The `poste` on the PATH, if it is not this one.
    pub other_poste: Option<PathBuf>,
    /// The folder of the plugin, if one is written.
    pub plugin: Option<PathBuf>,
    version: &'static str,
}

impl Site {
    /// Finds the project and its office from where a command was started.
    pub fn find(start: &Start, opens: impl Fn(&Path) -> bool) -> Result<Self> {
        let Start { scope, cwd, home, explicit_office, .. } = start;
        let plugin = start.plugin.as_ref().map(|folder| plain_path(&cwd.join(folder)));
        let upward = explicit_office.clone().or_else(|| discover::find(cwd));
        let upward = upward.map(|office| office.canonicalize().unwrap_or(office));
        let beside =
            upward.as_deref().and_then(Path::parent).filter(|folder| cwd.starts_with(folder)).map(Path::to_owned);
        let project = repository_top(cwd).or(beside).unwrap_or_else(|| cwd.clone());
        let places = Places::new(project, home.clone(), start.variable);
        // A project that was set up for an office elsewhere keeps that office.
        let named = match (scope, explicit_office) {
            (Scope::Project, None) => named_office(&places).filter(|office| opens(office)),
            _ => None,
        };
        let office = match (scope, named.clone().or(upward)) {
            (Scope::User, _) => None,
            (Scope::Project, Some(office)) => Some(office),
            (Scope::Project, None) => {
                return Err(no_office(format!("no office in {} or any folder above it", cwd.display())));
            }
        };
        if let Some(office) = &office
            && !office.is_dir()
        {
            return Err(no_office(format!("there is no office at {}", office.display())));
        }
        // Programs search for the office from the project upward, as every command does.
        let found = discover::find(&places.project).and_then(|found| found.canonicalize().ok());
        let is_named = explicit_office.is_some() || named.is_some();
        let elsewhere = office.clone().filter(|office| is_named && found.as_ref() != Some(office));
        let (called, other_poste) = called(&start.executable, &start.search)?;
        let poste = Invocation {
            poste: called,
            agent: start.agent.as_ref().map(ToString::to_string),
            office: elsewhere.map(|office| text(&office)).transpose()?,
        };
        let (scope, executable, search) = (*scope, start.executable.clone(), start.search.clone());
        Ok(Self { scope, places, poste, executable, office, search, other_poste, plugin, version: start.version })
    }

    /// The programs to set up: those that are named, otherwise those that are found here.
    pub fn programs(&self, named: Option<Vec<Program>>) -> Result<Vec<Program>> {
        if self.plugin.is_some() {
            return match named.as_deref() {
                None | Some([Program::ClaudeCode]) => Ok(vec![Program::ClaudeCode]),
                Some(_) => {
                    Err(Error::usage("only claude-code supports --plugin").hint("poste setup claude-code --plugin DIR"))
                }
            };
        }
        let programs =
            named.unwrap_or_else(|| Program::ALL.into_iter().filter(|program| self.is_here(*program)).collect());
        match programs.is_empty() {
            false => Ok(programs),
            true => Err(Error::not_found("no supported agent program was found")
                .hint("name one: poste setup claude-code (or codex, gemini, opencode, cursor, all)")),
        }
    }

    /// Whether its command is on the PATH, or it has a settings folder.
    fn is_here(&self, program: Program) -> bool {
        let is_command =
            |folder: &PathBuf| programs::binaries(program).iter().any(|name| is_program(&folder.join(name)));
        self.search.iter().any(is_command)
            || [Scope::Project, Scope::User].iter().any(|scope| self.places.folder(program, *scope).is_dir())
    }

    pub fn job(&self, program: Program) -> Job {
        let mut poste = self.poste.clone();
        let mut kept_agent = None;
        if poste.agent.is_none() && self.plugin.is_none() {
            let written = Wiring::read(program, &self.targets(program, self.scope, &poste), &poste);
            kept_agent = written.agent().map(|agent| agent.to_string());
            poste.agent = kept_agent.clone();
        }
        Job { program, kept_agent, targets: self.targets(program, self.scope, &poste), poste }
    }

    fn targets(&self, program: Program, scope: Scope, poste: &Invocation) -> Vec<Target> {
        match &self.plugin {
            Some(folder) => plugin::targets(folder, poste, self.version),
            None => programs::targets(program, scope, &self.places, poste),
        }
    }

    /// Whether it is also set up in this scope, in other files.
    pub fn is_set_up(&self, job: &Job, scope: Scope) -> bool {
        let mut targets = self.targets(job.program, scope, &job.poste);
        targets.retain(|target| job.targets.iter().all(|here| here.path != target.path));
        !Wiring::read(job.program, &targets, &job.poste).is_empty()
    }

    /// Stores what was changed in the user's own folder: from a record in the project, an agent could have it restored
    /// what was never there.
    pub fn memory(&self) -> Memory {
        let folder = self.places.state().join("poste/setup");
        match &self.office {
            Some(office) => {
                let key = poste_config::adopt::key_of(office).unwrap_or_else(|| "new".to_owned());
                Memory::new(folder.join(key), office.parent().unwrap_or(office))
            }
            None => Memory::new(folder, &self.places.home),
        }
    }

    /// The view of a program that was set up or removed. Tests what was written if `is_tried`.
    pub fn view(&self, job: &Job, is_removed: bool, is_tried: bool) -> ProgramView {
        let Job { program, poste, targets, .. } = job;
        let program = *program;
        let proof = match is_tried {
            true => {
                let wiring = Wiring::read(program, targets, poste);
                proof::prove(program, self.scope, &wiring, poste, &self.executable)
            }
            false => Vec::new(),
        };
        let view = |Finding { what, state, note }: Finding| ProofView {
            what: what.to_owned(),
            state: state_word(state).to_owned(),
            note,
        };
        let trust = match is_removed || self.plugin.is_some() {
            true => None,
            false => programs::trust(program, self.scope).map(str::to_owned),
        };
        ProgramView { program: program.word().to_owned(), proof: proof.into_iter().map(view).collect(), trust }
    }
}

/// The office that the files of a project name, if it still exists.
fn named_office(places: &Places) -> Option<PathBuf> {
    let unnamed = Invocation { poste: "poste".to_owned(), agent: None, office: None };
    let named = Program::ALL.into_iter().filter_map(|program| {
        let targets = programs::targets(program, Scope::Project, places, &unnamed);
        Wiring::read(program, &targets, &unnamed).office().map(PathBuf::from)
    });
    named.filter(|office| office.is_absolute() && office.is_dir()).find_map(|office| office.canonicalize().ok())
}

/// Resolves links and `..`, as far as the path exists.
fn plain_path(path: &Path) -> PathBuf {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Ok(plain), _, _) => plain,
        (Err(_), Some(folder), Some(name)) => plain_path(folder).join(name),
        _ => path.to_owned(),
    }
}

/// How to call Poste: `poste` if the PATH leads to this program, otherwise its full path and the `poste` on the PATH.
fn called(executable: &Path, search: &[PathBuf]) -> Result<(String, Option<PathBuf>)> {
    let itself = executable.canonicalize().unwrap_or_else(|_| executable.to_owned());
    let first = search.iter().map(|folder| folder.join("poste")).find(|path| is_program(path));
    match first.as_ref().is_some_and(|found| found.canonicalize().is_ok_and(|found| found == itself)) {
        true => Ok(("poste".to_owned(), None)),
        false => Ok((text(executable)?, first)),
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        Error::usage(format!("{} cannot be written into settings: it is not plain text", path.display()))
    })
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Works => "works",
        State::NeedsTrust => "needs_trust",
        State::Unavailable => "unavailable",
        State::Fails => "fails",
    }
}

fn no_office(message: String) -> Error {
    Error::not_found(message).hint(note!("make one: "[init]))
}
