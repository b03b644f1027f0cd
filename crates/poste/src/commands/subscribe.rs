use std::io::{self, Write};

use poste_core::fold::Effect;
use poste_core::log::{Intent, Position, Subscribe, TopicPattern};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Subscribe to a topic, or to all with '*'
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste subscribe TaskCompleted --as orchestrator\n  poste subscribe '*' --from 0 --as archivist"
)]
pub(crate) struct Args {
    /// A topic, or * for all
    topic: TopicPattern,
    /// Also deliver what was published after this log position (0: everything)
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    from: Option<Position>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SubscribeAnswer {
    pub topic: String,
    /// Past publications that were delivered now.
    pub delivered: usize,
    /// It was subscribed before.
    pub already: bool,
}

impl Answer for SubscribeAnswer {
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
    let mut office = cx.open_to_write()?;
    let topic = args.topic.as_str().to_owned();
    let intent = Intent::Subscribe(Subscribe { topic: args.topic, from: args.from });
    let proposal = cx.proposal(&office, intent, None, args.id)?;
    let (delivered, already) = match cx.decide(&mut office, &proposal) {
        Ok((_, Effect::Touched(count))) => (count, false),
        Ok(_) => (0, false),
        // Agents subscribe whenever they start; that it stands already is no trouble.
        Err(error) if error.code == Some("nothing_to_do") => (0, true),
        Err(error) => return Err(error),
    };
    cx.ui.answer(&SubscribeAnswer { topic, delivered, already })
}
