use poste_verbs::broadcast;

use crate::Result;
use crate::context::Cx;
use crate::draft::MessageArgs;

/// Send a message to every active agent but yourself
///
/// Agents that register later do not receive it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  poste broadcast 'JWT uses RS256' 'See docs/jwt.md' --type decision_announcement --as architect"
)]
pub(crate) struct Args {
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
    cx.call(broadcast::Input { subject: args.subject, message })
}
