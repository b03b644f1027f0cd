use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use poste_connect::setup::Scope;
use poste_connect::setup::files::{Change, FileFault, Outcome, Plan};
use poste_connect::setup::site::{Job, ProgramView, Site, Start};
use poste_connect::shell;
use poste_core::text::Name;
use poste_verbs::program::Program;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::unknown_agent;
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
                // Which of the two line ends it is says nothing here.
                Some(diff) => write!(out, "{}", escape::block(&diff.replace("\r\n", "\n")))?,
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
    let site = Site::find(&start(cx, &args)?, |office| cx.place_at(office.to_owned()).open().is_ok())?;
    check_agent(cx, &site, args.agent.as_ref())?;
    let jobs: Vec<Job> =
        site.programs(args.program.map(Which::programs))?.into_iter().map(|program| site.job(program)).collect();

    let memory = site.memory();
    let lock = if args.dry_run { None } else { Some(memory.lock()?) };
    let mut plan = Plan::new(memory);
    for job in &jobs {
        for target in &job.targets {
            match args.remove {
                true => plan.remove(job.program, target)?,
                false => plan.set_up(job.program, target)?,
            }
        }
    }
    let changes: Vec<Change> = plan.changes().into_iter().filter(|change| !change.is_nothing()).collect();
    if !args.dry_run {
        plan.carry_out()?;
        if changes.iter().any(Change::is_change) {
            cx.note_stored(if args.remove { "the set-up is taken out" } else { "the set-up" });
        }
    }
    drop(lock);

    let is_tried = !(args.dry_run || args.remove || args.no_proof || args.plugin.is_some());
    let answer = SetupAnswer {
        scope: site.scope.word().to_owned(),
        dry_run: args.dry_run,
        changed: changes.iter().any(Change::is_change),
        programs: jobs.iter().map(|job| site.view(job, args.remove, is_tried)).collect(),
        files: changes.iter().map(|change| file_view(change, args.dry_run)).collect(),
    };
    cx.ui.answer(&answer)?;
    say_of_files(cx, &args, &changes);
    say(cx, &site, &args, &jobs, &answer);
    left(&args, &changes)?;
    failed(&answer)
}

fn start(cx: &Cx, args: &Args) -> Result<Start> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME")
        .filter(|home| home.is_absolute())
        .ok_or_else(|| CommandError::usage("HOME is not set, so nobody knows where programs keep their settings"))?;
    let executable = std::env::current_exe()
        .map_err(|error| CommandError::new(Kind::Internal, format!("this program does not find itself: {error}")))?;
    Ok(Start {
        // A plugin is its user's, wherever it is put.
        scope: if args.scope == ScopeArg::User || args.plugin.is_some() { Scope::User } else { Scope::Project },
        cwd: cx.cwd()?,
        home,
        variable,
        explicit_office: cx.explicit_office(),
        executable,
        search: std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).collect(),
        agent: args.agent.clone(),
        plugin: args.plugin.clone(),
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// A name that nobody has is a slip, and nobody would ever write to it.
fn check_agent(cx: &Cx, site: &Site, agent: Option<&Name>) -> Result {
    let (Some(office), Some(name)) = (&site.office, agent) else { return Ok(()) };
    let office = cx.place_at(office.clone()).open()?;
    match office.agent(name)? {
        Some(_) => Ok(()),
        None => Err(unknown_agent(&office, name)?),
    }
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

/// What has to be told of the files.
fn say_of_files(cx: &Cx, args: &Args, changes: &[Change]) {
    let is_quiet = |change: &Change| change.outcome == Outcome::Unchanged && !change.keeps_own;
    if changes.iter().all(is_quiet) {
        cx.ui.say(match args.remove {
            true => "there is nothing of Poste's; nothing changed",
            false => "the files are as they should be; nothing changed",
        });
    }
    let is_unrecorded = |change: &&Change| args.remove && change.is_change() && !change.is_recorded;
    let unrecorded: Vec<&Change> = changes.iter().filter(is_unrecorded).collect();
    if let Some(first) = unrecorded.first() {
        let which = match unrecorded.len() {
            1 => first.path.display().to_string(),
            count => ui::count(count, "file"),
        };
        cx.ui.say(format!(
            "there is no record here of what {which} held before; only what is as Poste writes it was taken out"
        ));
    }
    for change in changes {
        let path = change.path.display();
        if change.keeps_own {
            cx.ui.warn(format!("{path} still starts Poste: that entry was written or changed by hand, and stays"));
        }
        match change.outcome {
            Outcome::TakenOut if change.is_recorded => cx.ui.say(format!("{path} was changed since; only Poste's entries were taken out")),
            Outcome::Left if !args.remove => cx.ui.warn(format!(
                "what is Poste's in {path} was changed by hand and is left as it is; delete it and set up again to have it \
                 written anew"
            )),
            Outcome::Kept => cx.ui.say(format!("{path} stays for the other programs that are set up")),
            _ => {}
        }
    }
}

/// What has to be told besides.
fn say(cx: &Cx, site: &Site, args: &Args, jobs: &[Job], answer: &SetupAnswer) {
    if site.scope == Scope::User && site.plugin.is_none() && cx.explicit_office().is_some() {
        cx.ui.warn(
            "--office and POSTE_HOME are not heeded with --scope user: each session finds the office of its project",
        );
    }
    for job in jobs {
        say_of_the_other_scope(cx, site, args, job, answer.changed);
    }
    if args.remove {
        return;
    }
    for Job { program, kept_agent, .. } in jobs {
        if let Some(agent) = kept_agent {
            let remove = format!("poste setup {program}{} --remove", scope_option(site.scope));
            cx.ui.say(format!(
                "{program} speaks for {agent}, as before; to change that name it with --agent, or first: {remove}"
            ));
        }
    }
    if site.poste.poste != "poste" && site.scope == Scope::Project {
        let why = match &site.other_poste {
            Some(other) => format!("the poste on the PATH is another one ({})", other.display()),
            None => "poste is not on the PATH".to_owned(),
        };
        cx.ui.say(format!("{why}, so the files name {}; others may have it elsewhere", site.poste.poste));
    }
    for program in answer.programs.iter().filter(|program| program.proof.is_empty()) {
        if let Some(trust) = &program.trust {
            cx.ui.say(format!("{}: {trust}", program.program));
        }
    }
    if let Some(folder) = &site.plugin {
        cx.ui.say(format!("try it: claude --plugin-dir {}", shell::word(&folder.display().to_string())));
    }
}

/// Programs heed both scopes, so both count.
fn say_of_the_other_scope(cx: &Cx, site: &Site, args: &Args, job: &Job, changed: bool) {
    let other = match site.scope {
        Scope::Project => Scope::User,
        Scope::User => Scope::Project,
    };
    if site.plugin.is_some() || !site.is_set_up(job, other) {
        return;
    }
    let program = job.program;
    let remove = format!("poste setup {program} --scope {} --remove", other.word());
    match args.remove {
        false => cx.ui.warn(format!(
            "{program} is set up with --scope {} as well, so its hooks may run twice; take one of them out: {remove}",
            other.word()
        )),
        true if !changed => cx.ui.say(format!("{program} is set up with --scope {}: {remove}", other.word())),
        true => {}
    }
}

fn scope_option(scope: Scope) -> &'static str {
    match scope {
        Scope::Project => "",
        Scope::User => " --scope user",
    }
}

/// A file that is somebody's now is not deleted; but it may still run Poste.
fn left(args: &Args, changes: &[Change]) -> Result {
    let left: Vec<&Change> = changes.iter().filter(|change| args.remove && change.outcome == Outcome::Left).collect();
    let Some(first) = left.first() else { return Ok(()) };
    let paths: Vec<String> =
        left.iter().map(|change| poste_connect::shell::word(&change.path.display().to_string())).collect();
    let message = match left.len() {
        1 => format!("{} was changed by hand and is left as it is", first.path.display()),
        count => format!("{} were changed by hand and are left as they are", ui::count(count, "file")),
    };
    Err(CommandError::new(Kind::Conflict, format!("{message}; everything else of Poste's is taken out"))
        .code("not_ours")
        .hint(format!("if you do not need it any more: rm {}", paths.join(" "))))
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
