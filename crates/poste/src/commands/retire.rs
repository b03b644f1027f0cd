use std::io::{self, Write};

use poste_core::text::{Name, RecordId};
use poste_verbs::retire;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Retire an agent: its mail goes back, what it holds is released, its name stays taken
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste retire coder --as lead")]
pub(crate) struct Args {
    /// Who
    name: Name,
    /// An id of your own: doing it again has no second effect
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
