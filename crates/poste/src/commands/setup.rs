use std::io::{self, Write};
use std::path::PathBuf;

use clap::ValueEnum;
use poste_connect::setup::Scope;
use poste_connect::setup::site::{Site, Start};
use poste_connect::setup::work::{SetupAnswer, Work};
use poste_core::text::Name;
use poste_verbs::program::Program;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Paint, Ui, escape};

/// Connect agent programs to Poste and test that it works
///
/// Writes the MCP server and the hooks into the settings of the program, for this project or for everything you work
/// on. Everything else in those files stays byte for byte; running it again changes nothing; --remove restores what was
/// there. Then it starts the server and the hooks as they were written, in a temporary office, and shows what works.
/// Without PROGRAM, it sets up the programs that are found here.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste setup                              set up the programs found here\n  \
                        poste setup claude-code --agent coder\n  poste setup codex --dry-run              show what would change\n  \
                        poste setup all --scope user             for everything you work on\n  \
                        poste setup gemini --remove              restore what was there\n  \
                        poste setup claude-code --plugin DIR     write a plugin folder instead")]
pub(crate) struct Args {
    /// Agent program; otherwise those found here
    #[arg(value_enum, value_name = "PROGRAM")]
    program: Option<Which>,
    /// Settings to change: those of this project, or your own
    #[arg(long, value_enum, default_value_t = ScopeArg::Project)]
    scope: ScopeArg,
    /// Agent that every session acts as; otherwise each session takes a name itself
    #[arg(long, value_name = "NAME", conflicts_with = "remove")]
    agent: Option<Name>,
    /// Show what would change, without writing it
    #[arg(long)]
    dry_run: bool,
    /// Remove everything that was set up
    #[arg(long)]
    remove: bool,
    /// Do not test what was written
    #[arg(long)]
    no_proof: bool,
    /// Write a plugin folder for Claude Code instead
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

impl Answer for SetupAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for file in &self.files {
            match &file.diff {
                // Line endings do not matter in a diff for people.
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

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let site = Site::find(&start(cx, &args)?, |office| poste_config::open(&cx.place_at(office.to_owned())).is_ok())?;
    check_agent(cx, &site, args.agent.as_ref())?;
    cx.print_answer(site.set_up(&Work {
        programs: args.program.map(Which::programs),
        remove: args.remove,
        dry_run: args.dry_run,
        proof: !args.no_proof,
        is_office_named: cx.explicit_office().is_some(),
    })?)
}

/// An unregistered name is probably a typo, and would never get mail.
fn check_agent(cx: &Cx, site: &Site, agent: Option<&Name>) -> Result {
    let (Some(office), Some(name)) = (&site.office, agent) else { return Ok(()) };
    let office = poste_config::open(&cx.place_at(office.clone()))?;
    match office.agent(name)? {
        Some(_) => Ok(()),
        None => Err(poste_verbs::unknown_agent(&office, name)?.into()),
    }
}

fn start(cx: &Cx, args: &Args) -> Result<Start> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = variable("HOME")
        .filter(|home| home.is_absolute())
        .ok_or_else(|| CommandError::usage("HOME is not set, so the settings of programs cannot be found"))?;
    let executable = std::env::current_exe()
        .map_err(|error| CommandError::new(Kind::Internal, format!("could not find this executable: {error}")))?;
    Ok(Start {
        // A plugin belongs to the user, wherever it is written.
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
