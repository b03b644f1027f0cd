use std::io::{self, Write};

use poste_core::time::length;
use poste_verbs::clock::accept;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Accept a jump of the system clock
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste clock accept --as anna")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ClockCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClockCommand {
    /// Accept a forward jump of more than a day
    ///
    /// Leases move along with the clock.
    #[command(after_help = "Example:\n  poste clock accept --as anna")]
    Accept,
}

impl Answer for accept::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.leap_ms {
            Some(leap_ms) => writeln!(out, "accepted a clock jump of {}", length(leap_ms)),
            None => writeln!(out, "the clock is fine; nothing to accept"),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let ClockCommand::Accept = args.command;
    cx.call(accept::Input {})
}
