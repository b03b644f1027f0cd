use std::io::{self, Write};

use poste_config::{Mode, Preset};
use poste_core::text::{Name, Word};
use poste_dispatch::verbs::team_add;
use poste_verbs::Answered;

use super::{await_starts, started_row, trouble};
use crate::context::Cx;
use crate::ui::{Answer, Ui};
use crate::{Result, notes};

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

impl Answer for team_add::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], vec![started_row(ui, &self.started)])
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { name, role, prompt, preset, mode, lead, worktree, command } = args;
    let input = team_add::Input { name, role, lead, prompt, preset, mode, worktree, command };
    let (mut office, Answered { mut answer, warnings, .. }) = cx.ask_here(input)?;
    warnings.iter().for_each(|note| cx.ui.warn(notes::text(&cx.ui, note)));
    await_starts(cx, &mut office, &mut answer.starts)?;
    answer.started.clone_from(&answer.starts.team[0]);
    cx.ui.answer(&answer)?;
    trouble(cx, &answer.starts)
}
