use std::io::{self, Write};

use poste_config::{Mode, Preset};
use poste_core::text::{Name, Word};
use poste_dispatch::verbs::team_add;
use poste_verbs::Answered;

use super::{await_starts, started_row, trouble};
use crate::context::Cx;
use crate::ui::{Answer, Ui};
use crate::{Result, notes};

/// Add a teammate on this machine and start it
///
/// Writes the agent into .poste/local.toml of this machine, registers it, and starts it as poste team up would. With
/// --mode resident its program is kept running; otherwise poste dispatch starts it when mail arrives. With a preset,
/// each run resumes the conversation before it, so that the agent keeps its context. poste spawn and poste team add are
/// the same command.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste spawn tester --role tester --prompt 'You test what coder writes.' --preset claude-code\n  \
                        poste spawn watcher --mode resident -- ./watch.sh\n  poste team add tester --preset codex --lead anna"
)]
pub(crate) struct Args {
    /// Name of the agent
    name: Name,
    /// Role; role:ROLE addresses the agents that share it
    #[arg(long)]
    role: Option<Word>,
    /// Prompt that precedes its first message: what it is and how it works
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    prompt: Option<String>,
    /// Program that Poste knows how to run: claude-code, codex, gemini, opencode, aider
    #[arg(long, value_parser = preset)]
    preset: Option<Preset>,
    /// session (starts when mail arrives), resident (kept running) or subagent; otherwise session
    #[arg(long, value_parser = mode)]
    mode: Option<Mode>,
    /// Lead of the agent; otherwise the lead of [team]
    #[arg(long, value_name = "NAME")]
    lead: Option<Name>,
    /// Run it in a separate git worktree
    #[arg(long)]
    worktree: bool,
    /// Command to run with its arguments, instead of that of the preset
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn preset(word: &str) -> std::result::Result<Preset, String> {
    Preset::of(word).ok_or_else(|| format!("must be one of {}", Preset::WORDS.join(", ")))
}

fn mode(word: &str) -> std::result::Result<Mode, String> {
    Mode::of(word).ok_or_else(|| format!("must be one of {}", Mode::WORDS.join(", ")))
}

impl Answer for team_add::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], vec![started_row(ui, &self.started)])
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { name, role, prompt, preset, mode, lead, worktree, command } = args;
    // A person is asked here and not by `poste trust` afterwards, so that the teammate can start at once.
    if cx.has_person() {
        cx.confirm(&format!("let {name} run on this machine"), "add")?;
    }
    let input = team_add::Input { name, role, lead, prompt, preset, mode, worktree, command };
    let (mut office, Answered { mut answer, warnings, .. }) = cx.call_verb_here(input)?;
    warnings.iter().for_each(|note| cx.ui.warn(notes::text(&cx.ui, note)));
    await_starts(cx, &mut office, &mut answer.starts)?;
    answer.started.clone_from(&answer.starts.team[0]);
    cx.ui.answer(&answer)?;
    trouble(cx, &answer.starts)
}
