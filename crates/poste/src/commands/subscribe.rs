use std::io::{self, Write};

use poste_core::log::{Position, TopicPattern};
use poste_core::text::RecordId;
use poste_verbs::subscribe;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Subscribe to a topic, or to all with '*'
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste subscribe TaskCompleted --as orchestrator\n  poste subscribe '*' --from 0 --as archivist"
)]
pub(crate) struct Args {
    /// Topic, or * for all
    topic: TopicPattern,
    /// Also deliver past events published after this log position (0: all of them)
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    from: Option<Position>,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for subscribe::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let past = match self.delivered {
            0 => String::new(),
            count => format!("; {} delivered", ui::count(count, "past event")),
        };
        let already = if self.already { " already" } else { "" };
        writeln!(out, "subscribed to {}{already}{past}", self.topic)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(subscribe::Input { topic: args.topic, from: args.from, id: args.id })
}
