use poste_core::text::Topic;
use poste_verbs::publish;

use crate::Result;
use crate::context::Cx;
use crate::draft::MessageArgs;

/// Publish an event to the subscribers of a topic
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste publish TaskCompleted 'JWT service done' --payload '{\"passed\":24}' --as builder-1\n  \
                        poste publish BlockerEncountered 'No User model yet' --type blocker_notification"
)]
pub(crate) struct Args {
    /// Topic to publish to, for example TaskCompleted
    topic: Topic,
    /// Subject, one line
    #[arg(allow_hyphen_values = true)]
    subject: String,
    /// Body in Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    #[command(flatten)]
    message: MessageArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let message = args.message.into_message(cx, args.body)?;
    cx.call(publish::Input { topic: args.topic, subject: args.subject, message })
}
