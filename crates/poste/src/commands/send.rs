use std::io::{self, Write};

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_verbs::send;

use crate::context::{Cx, recipients_text};
use crate::draft::{MessageArgs, parse_recipients};
use crate::error::CommandError;
use crate::ui::{Answer, Ui};
use crate::{Result, batch};

/// Send a message
///
/// TO is a name, several separated by commas, role:ROLE or can:CAPABILITY (one member takes it),
/// every:role:ROLE (each member gets it), topic:TOPIC or everyone. BODY is Markdown; - reads it from stdin.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste send coder 'Fix the login' 'It fails with a 500.' --type directive --as lead\n  \
                        git diff | poste send role:reviewer 'Please review' - --type question --respond-by 2h\n  \
                        poste send main 'Draft 39 ready' --type draft_ready --artifact drafts/039.md\n  \
                        poste send --batch messages.jsonl"
)]
pub(crate) struct Args {
    /// Recipient, or several separated by commas
    #[arg(required_unless_present = "batch")]
    to: Option<String>,
    /// Subject, one line
    #[arg(required_unless_present = "batch", allow_hyphen_values = true)]
    subject: Option<String>,
    /// Body in Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// Additional recipient; may be repeated
    #[arg(long = "to", value_name = "ADDRESS")]
    also_to: Vec<Address>,
    /// Message that this one replies to
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    /// Send each line of a JSONL file, or of stdin for -; schema: poste schema batch
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "subject", "body", "also_to", "reply_to", "MessageArgs"])]
    batch: Option<String>,
    #[command(flatten)]
    message: MessageArgs,
}

impl Answer for send::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (already sent under this id)" } else { "" };
        match self.sent.deliveries.as_slice() {
            [] => writeln!(out, "#{} delivered to 0{again}", self.sent.number),
            deliveries => writeln!(out, "#{} stored for {}{again}", self.sent.number, recipients_text(deliveries)),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if let Some(source) = &args.batch {
        return batch::run(cx, source, args.message.id.id, args.message.secret);
    }
    let (Some(to), Some(subject)) = (args.to, args.subject) else {
        return Err(CommandError::usage("TO and SUBJECT are required"));
    };
    let mut to = parse_recipients(&to)?;
    to.extend(args.also_to);
    let message = args.message.into_message(cx, args.body)?;
    cx.call(send::Input { to, subject, reply_to: args.reply_to, message })
}
