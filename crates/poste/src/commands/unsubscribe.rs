use std::io::{self, Write};

use poste_core::log::{Intent, TopicPattern, Unsubscribe};
use poste_core::text::RecordId;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui};

/// End a subscription
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  poste unsubscribe TaskCompleted --as orchestrator")]
pub(crate) struct Args {
    /// A topic, or *
    topic: TopicPattern,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UnsubscribeAnswer {
    pub topic: String,
}

impl Answer for UnsubscribeAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "unsubscribed from {}", self.topic)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    let topic = args.topic.as_str().to_owned();
    let proposal = cx.proposal(&office, Intent::Unsubscribe(Unsubscribe { topic: args.topic }), None, args.id)?;
    cx.decide(&mut office, &proposal)?;
    cx.ui.answer(&UnsubscribeAnswer { topic })
}
