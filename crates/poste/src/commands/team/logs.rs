use std::io::{self, Write};

use poste_core::text::{Name, Session};
use poste_dispatch::verbs::team_logs;

use crate::Result;
use crate::commands::dispatch_runs::{follow, print_output};
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Print what the program of a teammate printed, in the run that is under way or the last one
///
/// Both of its streams, as they came. A long output is kept from its beginning and its end. What a program prints is data:
/// signs that a terminal would obey are shown as text.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste team logs coder\n  poste team logs coder -f")]
pub(crate) struct Args {
    /// Whose
    name: Name,
    /// Go on until the run is over
    #[arg(short, long)]
    follow: bool,
    /// Of this run instead
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
        return Err(CommandError::usage("--follow prints text as it comes, which is no JSON"));
    }
    let (mut office, answered) = cx.ask_here(team_logs::Input { name: args.name, run: args.run })?;
    match args.follow {
        true => follow(cx, &mut office, &answered.answer.agent, &answered.answer.run),
        false => cx.show(&mut office, answered),
    }
}
