use std::io::{self, Write};

use poste_verbs::whoami;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// Show the agent you act as, and its office
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste whoami --as coder\n  POSTE_AGENT=coder poste whoami")]
pub(crate) struct Args {}

impl Answer for whoami::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", super::register::describe(&self.entry.agent))?;
        let more = if self.entry.pending_at_least { "+" } else { "" };
        writeln!(out, "{}{more} pending, {} claimed", self.entry.pending, self.entry.claimed)?;
        if let Some(session) = &self.session {
            writeln!(out, "session {session}")?;
        }
        if let Some(live) = &self.live_session {
            writeln!(out, "runs as {}", super::session::in_a_line(ui, live))?;
        }
        writeln!(out, "office {}", escape::line(&self.office))
    }
}

pub(crate) fn run(cx: &mut Cx, _: Args) -> Result {
    cx.call(whoami::Input {})
}
