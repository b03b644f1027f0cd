use std::io::{self, Write};

use poste_core::text::{Name, RecordId};
use poste_verbs::retire;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Retire an agent: release its claims and return its mail
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste retire coder --as lead")]
pub(crate) struct Args {
    /// Agent to retire; its name stays taken
    name: Name,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for retire::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let deliveries = ui::count(self.deliveries, "delivery");
        writeln!(out, "retired {}; {deliveries} released or returned", self.name)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(retire::Input { name: args.name, id: args.id })
}
