use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use poste_connect::program::Program;
use poste_connect::setup::files::{Change, FileFault, Memory, Outcome, Plan};
use poste_connect::setup::programs::{self, Places};
use poste_connect::setup::proof::{self, Finding, State, Wiring};
use poste_connect::setup::{Invocation, Scope, Target, plugin};
use poste_core::store::discover;
use poste_core::text::Name;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::paths::repository_top;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Tell agent programs about Poste, and prove that it works
///
/// Writes the server of tools and the hooks into the settings of the program, for this project or for everything you work
/// on. Whatever else is in those files stays byte for byte; running it again changes nothing; --remove puts back what was
/// there. Then it starts the server and the hooks as they were written, in an office that is thrown away, and shows what
/// works. Without a program: those that are found here.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste setup                              the programs that are found here\n  \
                        poste setup claude-code --agent coder\n  poste setup codex --dry-run              show what would change\n  \
                        poste setup all --scope user             for everything you work on\n  \
                        poste setup gemini --remove              put back what was there\n  \
                        poste setup claude-code --plugin DIR     a plugin folder instead")]
pub(crate) struct Args {
    /// The agent program
    #[arg(value_enum, value_name = "PROGRAM")]
    program: Option<Which>,
    /// Whose settings: this project's, or yours
    #[arg(long, value_enum, default_value_t = ScopeArg::Project)]
    scope: ScopeArg,
    /// The agent every session speaks for; otherwise each takes its name itself
    #[arg(long, value_name = "NAME", conflicts_with = "remove")]
    agent: Option<Name>,
    /// Show what would change and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Take everything out again
    #[arg(long)]
    remove: bool,
    /// Do not try what was written
    #[arg(long)]
    no_proof: bool,
    /// Make a plugin folder for Claude Code instead
    #[arg(long, value_name = "DIR")]
    plugin: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    ClaudeCode,
    Codex,
    Gemini,
    #[value(name = "opencode")]
    OpenCode,
    Cursor,
    All,
}

impl Which {
    fn programs(self) -> Vec<Program> {
        match self {
            Self::ClaudeCode => vec![Program::ClaudeCode],
            Self::Codex => vec![Program::Codex],
            Self::Gemini => vec![Program::Gemini],
            Self::OpenCode => vec![Program::OpenCode],
            Self::Cursor => vec![Program::Cursor],
            Self::All => Program::ALL.to_vec(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScopeArg {
    Project,
    User,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SetupAnswer {
    /// `project` or `user`.
    pub scope: String,
    pub dry_run: bool,
    /// Whether a file was, or would be, changed.
    pub changed: bool,
    pub programs: Vec<ProgramView>,
    pub files: Vec<FileView>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProgramView {
    pub program: String,
    /// What was tried. Empty if nothing was.
    pub proof: Vec<ProofView>,
    /// What its user has to do, once.
    pub trust: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProofView {
    /// listed, tools, mid-turn delivery, stop guard, idle wake
    pub what: String,
    /// works, needs_trust, unavailable or fails
    pub state: String,
    pub note: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FileView {
    pub path: String,
    /// created, changed, unchanged, restored, removed, taken_out, kept or left
    pub outcome: String,
    /// With --dry-run: what would change.
    pub diff: Option<String>,
}

impl Answer for SetupAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for file in &self.files {
            match &file.diff {
                Some(diff) => write!(out, "{}", escape::block(diff))?,
                None => writeln!(out, "{}: {}", escape::line(&file.path), file.outcome.replace('_', " "))?,
            }
        }
        let findings = self.programs.iter().flat_map(|program| program.proof.iter().map(move |proof| (program, proof)));
        let rows: Vec<Vec<String>> = findings
            .map(|(program, proof)| {
                let (paint, word) = match proof.state.as_str() {
                    "works" => (Paint::Good, "works"),
                    "needs_trust" => (Paint::Attention, "needs your trust"),
                    "unavailable" => (Paint::Dim, "none"),
                    _ => (Paint::Bad, "not"),
                };
                let note = proof.note.as_deref().map(escape::line).unwrap_or_default();
                vec![program.program.clone(), proof.what.clone(), ui.paint(paint, word), note.into_owned()]
            })
            .collect();
        if !rows.is_empty() {
            writeln!(out)?;
        }
        ui.rows(out, &["PROGRAM", "WHAT", "STATE", "NOTE"], rows)
    }
}

fn outcome_word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Created => "created",
        Outcome::Changed => "changed",
        Outcome::Unchanged => "unchanged",
        Outcome::Restored => "restored",
        Outcome::Removed => "removed",
        Outcome::TakenOut => "taken_out",
        Outcome::Kept => "kept",
        Outcome::Left => "left",
    }
}

fn state_word(state: State) -> &'static str {
    match state {
        State::Works => "works",
        State::NeedsTrust => "needs_trust",
        State::Unavailable => "unavailable",
        State::Fails => "fails",
    }
}

impl From<FileFault> for CommandError {
    fn from(fault: FileFault) -> Self {
        let (kind, code) = match fault.fault.is_conflict {
            true => (Kind::Conflict, "not_ours"),
            false => (Kind::Refused, "unusable_file"),
        };
        let left: Vec<String> = fault.left.iter().map(|path| path.display().to_string()).collect();
        let error = match left.is_empty() {
            true => Self::new(kind, format!("{fault}; nothing was changed")),
            false => Self::new(kind, format!("{fault}; what was changed before could not all be put back"))
                .cause(format!("still changed: {}", left.join(", ")))
                .hint("take it out again: poste setup --remove"),
        };
        fault.fault.hint.into_iter().fold(error.code(code), CommandError::hint)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let site = Site::find(cx, &args)?;
    let programs = site.programs(&args)?;
    let targets: Vec<(Program, Vec<Target>)> =
        programs.iter().map(|&program| (program, site.targets(program))).collect();

    let memory = site.memory()?;
    let lock = if args.dry_run { None } else { Some(memory.lock()?) };
    let mut plan = Plan::new(memory);
    for (program, targets) in &targets {
        for target in targets {
            match args.remove {
                true => plan.remove(*program, target)?,
                false => plan.set_up(*program, target)?,
            }
        }
    }
    let changes = plan.changes();
    if !args.dry_run {
        plan.carry_out()?;
        if changes.iter().any(Change::is_change) {
            cx.note_stored(if args.remove { "the set-up is taken out" } else { "the set-up" });
        }
    }
    drop(lock);

    let is_tried = !(args.dry_run || args.remove || args.no_proof || args.plugin.is_some());
    let programs = targets.iter().map(|(program, targets)| site.view(*program, targets, &args, is_tried)).collect();
    let answer = SetupAnswer {
        scope: site.scope.word().to_owned(),
        dry_run: args.dry_run,
        changed: changes.iter().any(Change::is_change),
        programs,
        files: changes.iter().map(|change| file_view(change, args.dry_run)).collect(),
    };
    cx.ui.answer(&answer)?;
    say(cx, &site, &args, &answer);
    failed(&answer)
}

fn file_view(change: &Change, dry_run: bool) -> FileView {
    let path = change.path.display().to_string();
    let diff = (dry_run && change.is_change()).then(|| {
        let (old, new) = (change.before.as_deref().unwrap_or(""), change.after.as_deref().unwrap_or(""));
        let name = |there: bool| if there { path.clone() } else { "/dev/null".to_owned() };
        let mut options = diffy::DiffOptions::new();
        options.set_original_filename(name(change.before.is_some()));
        options.set_modified_filename(name(change.after.is_some()));
        options.create_patch(old, new).to_string()
    });
    FileView { path, outcome: outcome_word(change.outcome).to_owned(), diff }
}

/// What has to be told besides.
fn say(cx: &Cx, site: &Site, args: &Args, answer: &SetupAnswer) {
    if !answer.changed {
        cx.ui.say("everything is as it should be; nothing changed");
    }
    for file in &answer.files {
        match file.outcome.as_str() {
            "taken_out" => cx.ui.say(format!("{} was changed since; only Poste's entries were taken out", file.path)),
            "left" => cx.ui.warn(format!("{} was changed by hand and is left as it is", file.path)),
            "kept" => cx.ui.say(format!("{} stays for the other programs that are set up", file.path)),
            _ => {}
        }
    }
    if args.remove {
        return;
    }
    if site.poste.poste != "poste" && site.scope == Scope::Project {
        cx.ui.say(format!(
            "poste is not on the PATH, so the files name {}; others may have it elsewhere",
            site.poste.poste
        ));
    }
    for program in answer.programs.iter().filter(|program| program.proof.is_empty()) {
        if let Some(trust) = &program.trust {
            cx.ui.say(format!("{}: {trust}", program.program));
        }
    }
    if let Some(folder) = &site.plugin {
        cx.ui.say(format!("try it: claude --plugin-dir {}", crate::paths::shell_word(&folder.display().to_string())));
    }
}

fn failed(answer: &SetupAnswer) -> Result {
    let fails =
        answer.programs.iter().flat_map(|program| &program.proof).filter(|proof| proof.state == "fails").count();
    match fails {
        0 => Ok(()),
        count => Err(CommandError::new(
            Kind::Unhealthy,
            format!(
                "the files are written, but {} not work",
                match count {
                    1 => "one thing does".to_owned(),
                    _ => format!("{} do", ui::count(count, "thing")),
                }
            ),
        )
        .code("set_up_fails")
        .hint("take it out again: poste setup --remove; look at the office: poste doctor")),
    }
}

/// What is set up, and from where.
#[derive(Debug)]
struct Site {
    scope: Scope,
    places: Places,
    poste: Invocation,
    executable: PathBuf,
    /// The folder of the office, for a project.
    office: Option<PathBuf>,
    search: Vec<PathBuf>,
    /// The folder of the plugin, if it is one.
    plugin: Option<PathBuf>,
}

impl Site {
    fn find(cx: &Cx, args: &Args) -> Result<Self> {
        let scope = match (args.scope, &args.plugin) {
            // A plugin is its user's, wherever it is put.
            (ScopeArg::User, _) | (_, Some(_)) => Scope::User,
            (ScopeArg::Project, None) => Scope::Project,
        };
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = variable("HOME").filter(|home| home.is_absolute()).ok_or_else(|| {
            CommandError::usage("HOME is not set, so nobody knows where programs keep their settings")
        })?;
        let cwd = cx.cwd()?;
        let office = match scope {
            Scope::Project => Some(cx.place()?.path),
            Scope::User => None,
        };
        if let Some(office) = &office
            && !office.is_dir()
        {
            return Err(CommandError::not_found(format!("there is no office at {}", office.display()))
                .hint("make one: poste init"));
        }
        let office = office.map(|office| office.canonicalize().unwrap_or(office));
        let beside =
            office.as_deref().and_then(Path::parent).filter(|folder| cwd.starts_with(folder)).map(Path::to_owned);
        let plugin = args.plugin.as_ref().map(|folder| cwd.join(folder));
        let project = repository_top(&cwd).or(beside).unwrap_or(cwd);
        // The programs look for the office from the project upward, as every command does.
        let found = discover::find(&project).and_then(|found| found.canonicalize().ok());
        let elsewhere =
            office.clone().filter(|office| cx.explicit_office().is_some() && found.as_ref() != Some(office));
        let executable = std::env::current_exe().map_err(|error| {
            CommandError::new(Kind::Internal, format!("this program does not find itself: {error}"))
        })?;
        let search: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect();
        let poste = Invocation {
            poste: called(&executable, &search)?,
            agent: args.agent.as_ref().map(ToString::to_string),
            office: elsewhere.map(|office| text(&office)).transpose()?,
        };
        let places = Places::new(project, home, variable);
        Ok(Self { scope, places, poste, executable, office, search, plugin })
    }

    fn programs(&self, args: &Args) -> Result<Vec<Program>> {
        let named = args.program.map(Which::programs);
        if args.plugin.is_some() {
            return match named.as_deref() {
                None | Some([Program::ClaudeCode]) => Ok(vec![Program::ClaudeCode]),
                Some(_) => Err(CommandError::usage("only Claude Code knows such plugins")
                    .hint("poste setup claude-code --plugin DIR")),
            };
        }
        let programs =
            named.unwrap_or_else(|| Program::ALL.into_iter().filter(|program| self.is_here(*program)).collect());
        match programs.is_empty() {
            false => Ok(programs),
            true => Err(CommandError::not_found("none of the agent programs Poste knows was found here")
                .hint("name one: poste setup claude-code (or codex, gemini, opencode, cursor, all)")),
        }
    }

    /// Its command can be found, or it has left its settings somewhere.
    fn is_here(&self, program: Program) -> bool {
        let is_command =
            |folder: &PathBuf| programs::binaries(program).iter().any(|name| is_program(&folder.join(name)));
        self.search.iter().any(is_command)
            || [Scope::Project, Scope::User].iter().any(|scope| self.places.folder(program, *scope).is_dir())
    }

    fn targets(&self, program: Program) -> Vec<Target> {
        match &self.plugin {
            Some(folder) => plugin::targets(folder, &self.poste, env!("CARGO_PKG_VERSION")),
            None => programs::targets(program, self.scope, &self.places, &self.poste),
        }
    }

    /// In the office, or with what else is kept of this user on this machine.
    fn memory(&self) -> Result<Memory> {
        let state = || match std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute()) {
            Some(state) => state.join("poste"),
            None => self.places.home.join(".local/state/poste"),
        };
        Ok(Memory::new(self.office.clone().unwrap_or_else(state).join("setup")))
    }

    fn view(&self, program: Program, targets: &[Target], args: &Args, is_tried: bool) -> ProgramView {
        let proof = match is_tried {
            true => {
                let wiring = Wiring::read(program, targets, &self.poste);
                proof::prove(program, self.scope, &wiring, &self.poste, &self.executable)
            }
            false => Vec::new(),
        };
        let view = |Finding { what, state, note }: Finding| ProofView {
            what: what.to_owned(),
            state: state_word(state).to_owned(),
            note,
        };
        let trust = match args.remove || args.plugin.is_some() {
            true => None,
            false => programs::trust(program, self.scope).map(str::to_owned),
        };
        ProgramView { program: program.word().to_owned(), proof: proof.into_iter().map(view).collect(), trust }
    }
}

/// `poste`, if that is what leads here; else where this program is.
fn called(executable: &Path, search: &[PathBuf]) -> Result<String> {
    let itself = executable.canonicalize().unwrap_or_else(|_| executable.to_owned());
    let first = search.iter().map(|folder| folder.join("poste")).find(|path| is_program(path));
    match first.is_some_and(|found| found.canonicalize().is_ok_and(|found| found == itself)) {
        true => Ok("poste".to_owned()),
        false => text(executable),
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn text(path: &Path) -> Result<String> {
    let text = path.to_str().filter(|text| !text.contains(char::is_control));
    text.map(str::to_owned).ok_or_else(|| {
        CommandError::usage(format!("{} cannot be written into settings: it is no plain text", path.display()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use poste_connect::setup::Fault;

    #[test]
    fn nothing_was_changed_is_said_only_if_nothing_was() {
        let fault = |left: Vec<PathBuf>| FileFault { path: "b.json".into(), fault: Fault::malformed("is full"), left };
        let told = CommandError::from(fault(Vec::new())).lines(false).join("\n");
        assert!(told.contains("b.json is full; nothing was changed"), "{told}");
        let told = CommandError::from(fault(vec!["a.json".into()])).lines(false).join("\n");
        assert!(told.contains("still changed: a.json") && !told.contains("nothing was changed"), "{told}");
    }
}
