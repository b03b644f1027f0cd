use std::io::{self, Write};

use poste_config::{Mode, NewAgent, Preset};
use poste_core::Error;
use poste_core::gates::Source;
use poste_core::log::{Intent, Register};
use poste_core::text::{Name, Word};
use poste_core::vocabulary::AgentKind;
use poste_dispatch::team::{self, Started};
use schemars::JsonSchema;
use serde::Serialize;

use super::{say_next, started_row, trouble};
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::unknown_agent;
use crate::ui::{Answer, Ui};

/// Add a teammate on this machine: what is run for it, its role, and its lead
///
/// It is written into .poste/local.toml, which is this machine's own, registered, and started as poste team up would. With
/// --mode resident its program is kept running; otherwise it is started for its mail by poste dispatch. A preset goes on with
/// its conversation each time, so that the teammate keeps its context.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste spawn tester --role tester --prompt 'You test what coder writes.' --preset claude-code\n  \
                        poste spawn watcher --mode resident -- ./watch.sh\n  poste team add tester --preset codex --lead anna"
)]
pub(crate) struct Args {
    /// Its name
    name: Name,
    /// What it is for; role:ROLE addresses all who share it
    #[arg(long)]
    role: Option<Word>,
    /// Goes before its first message: who it is and how it works
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// A program whose ways are known: claude-code, codex, gemini, opencode, aider
    #[arg(long, value_parser = preset)]
    preset: Option<Preset>,
    /// session (started for its mail), resident (kept running) or subagent; otherwise session
    #[arg(long, value_parser = mode)]
    mode: Option<Mode>,
    /// Who leads it; otherwise the lead of [team]
    #[arg(long, value_name = "NAME")]
    lead: Option<Name>,
    /// It gets a git worktree of its own to run in
    #[arg(long)]
    worktree: bool,
    /// What is run, with its arguments, instead of what the preset runs
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn preset(word: &str) -> std::result::Result<Preset, String> {
    Preset::of(word).ok_or_else(|| format!("it is one of {}", Preset::WORDS.join(", ")))
}

fn mode(word: &str) -> std::result::Result<Mode, String> {
    Mode::of(word).ok_or_else(|| format!("it is one of {}", Mode::WORDS.join(", ")))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AddAnswer {
    /// False: it was there, just like this.
    pub added: bool,
    pub file: String,
    #[serde(flatten)]
    pub started: Started,
}

impl Answer for AddAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], vec![started_row(ui, &self.started)])
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.preset.is_none_or(|preset| preset == Preset::Command) && args.command.is_empty() {
        return Err(CommandError::usage("nothing says what is run for it")
            .hint("a preset: --preset claude-code; or a command after --: -- ./agent.sh"));
    }
    let mut office = cx.open_to_write()?;
    let runners = poste_config::runners(&office)?;
    if runners.agents.get(&args.name).is_some_and(|known| known.source != Source::Machine) {
        let message = format!("{} is in {} already", args.name, poste_config::FILE);
        return Err(CommandError::new(Kind::Conflict, message).hint(format!("start it: poste team up {}", args.name)));
    }
    let known = office.agent(&args.name)?.map(|known| known.kind);
    if let Some(kind @ (AgentKind::Human | AgentKind::Outside)) = known {
        let message = format!("{} is registered as {kind}, and no program speaks for one", args.name);
        return Err(CommandError::new(Kind::Refused, message).code("not_an_agent").hint("give it another name"));
    }
    let lead = args.lead.or_else(|| runners.team.lead.clone());
    let agent = NewAgent {
        name: args.name.clone(),
        preset: args.preset,
        run: args.command,
        mode: args.mode,
        role: args.role.clone(),
        prompt: args.prompt,
        worktree: args.worktree,
        resume: args.preset.is_some_and(|preset| preset != Preset::Command) && args.mode != Some(Mode::Subagent),
    };
    if let Some(lead) = lead.as_ref().filter(|lead| **lead != args.name)
        && !office.agent(lead)?.is_some_and(|lead| lead.is_active())
    {
        return Err(unknown_agent(&office, lead)?);
    }
    let is_there = runners.agents.contains_key(&args.name);
    let added = poste_config::add_agent(&office, &agent).map_err(|error| match error {
        Error::Config { .. } if is_there => CommandError::new(Kind::Conflict, error.to_string()).hint(format!(
            "what is run for it: poste team list; change it there by hand, or start it: poste team up {}",
            args.name
        )),
        // What it would be like is no section; the file is as it was.
        Error::Config { message, .. } => {
            CommandError::usage(message).hint("nothing was written; what it may be: docs/runners.md")
        }
        other => other.into(),
    })?;
    if added {
        cx.note_stored(format!("[agent.{}] in .poste/{}", args.name, poste_config::LOCAL_FILE));
    }
    register(cx, &mut office, &args.name, args.role, lead.as_ref())?;
    let runners = poste_config::runners(&office)?;
    let member = team::members(&runners).into_iter().find(|member| member.name == args.name);
    let member = member.ok_or_else(|| CommandError::new(Kind::Internal, "it was added and is not there"))?;
    let started = team::start(&mut office, &std::env::current_exe()?, &member, lead.as_ref())?;
    cx.carry_out(&mut office);
    cx.ui.now = office.now()?;
    let all = [started.clone()];
    say_next(cx, &all);
    let file = office.path()?.join(poste_config::LOCAL_FILE).display().to_string();
    cx.ui.answer(&AddAnswer { added, file, started })?;
    trouble(&all)
}

/// Whom somebody registered before keeps what is not said here.
fn register(cx: &Cx, office: &mut poste_core::Office, name: &Name, role: Option<Word>, lead: Option<&Name>) -> Result {
    let known = office.agent(name)?;
    let lead = lead.filter(|lead| *lead != name).cloned();
    let same = known.as_ref().is_some_and(|known| {
        known.is_active() && (role.is_none() || role == known.role) && (lead.is_none() || lead == known.lead)
    });
    if same {
        return Ok(());
    }
    let header = Register { role, lead, update: known.is_some(), ..Register::default() };
    let proposal = cx.proposal_as(office, name.clone(), Intent::Register(header), None, None);
    cx.decide(office, &proposal)?;
    Ok(())
}
