use poste_core::log::{Ends, EndsHow, MessageNo, Position};
use poste_core::views;

use super::send;
use crate::Result;
use crate::context::Cx;
use crate::draft::{Draft, MessageArgs};
use crate::explain::no_message;

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
    let mut office = cx.open_to_write()?;
    let original = views::message(office.store(), args.number)?.ok_or_else(|| no_message(args.number))?;
    let subject = args.subject.unwrap_or_else(|| prefixed("Re: ", &original.subject));
    let mut draft = Draft::from_args(cx, args.message, subject, args.body)?;
    draft.reply_to = Some(args.number);
    draft.ends = args.done.then_some(Ends { message: args.number, how: EndsHow::Replied, token: args.token });
    send::send(cx, &mut office, draft, "response")
}

/// A subject with a prefix, once, and not longer than a subject may be.
pub(crate) fn prefixed(prefix: &str, subject: &str) -> String {
    if subject.starts_with(prefix) {
        return subject.to_owned();
    }
    let room = poste_core::limits::SUBJECT_BYTES_MAX - prefix.len();
    let end = subject.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= room).last();
    format!("{prefix}{}", &subject[..end.unwrap_or(0)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_put_once_and_the_subject_stays_within_its_limit() {
        assert_eq!(prefixed("Re: ", "hello"), "Re: hello");
        assert_eq!(prefixed("Re: ", "Re: hello"), "Re: hello");
        let long = "ä".repeat(poste_core::limits::SUBJECT_BYTES_MAX / 2);
        assert!(prefixed("Re: ", &long).len() <= poste_core::limits::SUBJECT_BYTES_MAX);
        assert_eq!(prefixed("Re: ", ""), "Re: ");
    }
}
