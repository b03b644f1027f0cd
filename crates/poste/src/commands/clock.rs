use std::io::{self, Write};

use poste_core::time::length;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Deal with a clock that leapt
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste clock accept --as anna")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ClockCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ClockCommand {
    /// Accept that the wall clock ran ahead by more than a day; leases move along
    #[command(after_help = "Example:\n  poste clock accept --as anna")]
    Accept,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClockAnswer {
    /// Null when there was nothing to accept.
    pub leap_ms: Option<i64>,
}

impl Answer for ClockAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self.leap_ms {
            Some(leap_ms) => writeln!(out, "accepted a leap of {}", length(leap_ms)),
            None => writeln!(out, "the clock is fine; nothing to accept"),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let ClockCommand::Accept = args.command;
    let speaker = cx.speaker()?;
    let mut office = cx.place()?.open()?;
    let leap_ms = office.accept_clock(&speaker)?;
    if leap_ms.is_some() {
        cx.note_stored("that the clock was accepted");
    }
    cx.ui.answer(&ClockAnswer { leap_ms })
}
