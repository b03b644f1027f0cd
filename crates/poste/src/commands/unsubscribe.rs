use std::io::{self, Write};

use poste_core::log::TopicPattern;
use poste_core::text::RecordId;
use poste_verbs::unsubscribe;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// Unsubscribe from a topic
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste unsubscribe TaskCompleted --as orchestrator")]
pub(crate) struct Args {
    /// Topic, or *
    topic: TopicPattern,
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

impl Answer for unsubscribe::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "unsubscribed from {}", self.topic)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(unsubscribe::Input { topic: args.topic, id: args.id })
}
