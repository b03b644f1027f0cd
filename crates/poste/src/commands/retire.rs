use std::io::{self, Write};

use poste_core::fold::Effect;
use poste_core::log::{Intent, Retire};
use poste_core::text::{Name, RecordId};
use schemars::JsonSchema;
use serde::Serialize;

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

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RetireAnswer {
    pub name: Name,
    /// Deliveries that were released or returned.
    pub deliveries: usize,
}

impl Answer for RetireAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let deliveries = ui::count(self.deliveries, "delivery");
        writeln!(out, "retired {}; {deliveries} released or returned", self.name)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let intent = Intent::Retire(Retire { name: args.name.clone() });
    let proposal = cx.proposal(&office, intent, None, args.id)?;
    let (_, effect) = cx.decide(&mut office, &proposal)?;
    let deliveries = match effect {
        Effect::Touched(count) => count,
        _ => 0,
    };
    cx.ui.answer(&RetireAnswer { name: args.name, deliveries })
}
