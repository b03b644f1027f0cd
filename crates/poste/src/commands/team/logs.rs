use std::io::{self, Write};

use poste_core::text::{Name, Session};
use poste_dispatch::verbs::team_logs;

use crate::Result;
use crate::commands::dispatch_runs::{follow, print_output};
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Print the output of an agent's current or last run
///
/// Prints stdout and stderr in the order they came. Of a long output, only the beginning and the end are kept. Control
/// sequences are shown as text.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste team logs coder\n  poste team logs coder -f")]
pub(crate) struct Args {
    /// Agent whose output to print
    name: Name,
    /// Follow the output until the run ends
    #[arg(short, long)]
    follow: bool,
    /// Print the output of this run instead
    #[arg(long)]
    run: Option<Session>,
}

impl Answer for team_logs::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_output(&self.text, out)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if args.follow && cx.ui.json {
        return Err(CommandError::usage("--follow and --json cannot be combined"));
    }
    let (mut office, answered) = cx.call_verb_here(team_logs::Input { name: args.name, run: args.run })?;
    match args.follow {
        true => follow(cx, &mut office, &answered.answer.agent, &answered.answer.run),
        false => cx.show(&mut office, answered),
    }
}
