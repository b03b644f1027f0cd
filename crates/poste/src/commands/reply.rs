use poste_core::log::{MessageNo, Position};
use poste_verbs::reply;

use crate::Result;
use crate::context::Cx;
use crate::draft::MessageArgs;

/// Reply to a message that was sent to you
///
/// The reply goes to its sender, in the same conversation, and satisfies a wanted response. --done also
/// finishes the message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste reply 12 'Yes, use RS256' --done --as architect\n  \
                        poste reply 12 - --payload '{\"status\":\"accepted\"}' < answer.md")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Body in Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// Subject; otherwise Re: and that of the message
    #[arg(long)]
    subject: Option<String>,
    /// Also finish the message
    #[arg(long)]
    done: bool,
    /// With --done: the claim's token
    #[arg(long, value_parser = crate::cli::position, requires = "done")]
    token: Option<Position>,
    #[command(flatten)]
    message: MessageArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { number, body, subject, done, token, message } = args;
    let message = message.into_message(cx, body)?;
    cx.call(reply::Input { number, subject, done, token, message })
}
