use poste_core::log::{MessageNo, Position};
use poste_verbs::reply;

use crate::Result;
use crate::context::Cx;
use crate::draft::MessageArgs;

/// Answer a message that was sent to you
///
/// The answer goes to its sender, in the same conversation, and satisfies a wanted response. --done also
/// finishes the message.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste reply 12 'Yes, use RS256' --done --as architect\n  \
                        poste reply 12 - --payload '{\"status\":\"accepted\"}' < answer.md")]
pub(crate) struct Args {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// Otherwise Re: and the subject of the message
    #[arg(long)]
    subject: Option<String>,
    /// Finish the message, too
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
