use std::io::{self, Write};

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_core::text::RecordId;
use poste_verbs::retry;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Retry a message that failed, died, expired or was returned
///
/// Only its sender and humans can retry it. Attempts count from zero again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste retry 12 --as lead\n  poste retry 12 --to coder --as anna")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Only the delivery to this recipient
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Address>,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for retry::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "#{}: {} pending again", self.number, ui::count(self.deliveries, "delivery"))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(retry::Input { number: args.number, to: args.to, id: args.id })
}
