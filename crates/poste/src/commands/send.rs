use std::io::{self, Write};

use poste_core::Address;
use poste_core::fold::{Effect, Sent};
use poste_core::log::{Intent, MessageNo, Position};
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views;
use schemars::JsonSchema;
use serde::Serialize;

use crate::context::{Cx, recipients_text};
use crate::draft::{Draft, MessageArgs, parse_recipients};
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};
use crate::{Result, batch};

/// Send a message
///
/// TO is a name, several with commas between, role:ROLE or can:CAPABILITY (one of them takes it),
/// every:role:ROLE (each gets it), topic:TOPIC or everyone. BODY is Markdown; - reads it from stdin.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste send coder 'Fix the login' 'It fails with a 500.' --type directive --as lead\n  \
                        git diff | poste send role:reviewer 'Please review' - --type question --respond-by 2h\n  \
                        poste send main 'Draft 39 ready' --type draft_ready --artifact drafts/039.md\n  \
                        poste send --batch messages.jsonl"
)]
pub(crate) struct Args {
    /// Who it is for
    #[arg(required_unless_present = "batch")]
    to: Option<String>,
    /// One line
    #[arg(required_unless_present = "batch", allow_hyphen_values = true)]
    subject: Option<String>,
    /// Markdown; - for stdin
    #[arg(allow_hyphen_values = true)]
    body: Option<String>,
    /// Another recipient; may be repeated
    #[arg(long = "to", value_name = "ADDRESS")]
    also_to: Vec<Address>,
    /// The message it answers
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    /// Send each line of a JSONL file, or of stdin for -; schema: poste schema batch
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "subject", "body", "also_to", "reply_to", "MessageArgs"])]
    batch: Option<String>,
    #[command(flatten)]
    message: MessageArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SendAnswer {
    #[serde(flatten)]
    pub sent: Sent,
    pub id: RecordId,
    pub position: Option<Position>,
    /// It was sent before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for SendAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (sent before under this id)" } else { "" };
        match self.sent.deliveries.as_slice() {
            [] => writeln!(out, "#{} delivered to 0{again}", self.sent.number),
            deliveries => writeln!(out, "#{} stored for {}{again}", self.sent.number, recipients_text(deliveries)),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if let Some(source) = &args.batch {
        return batch::run(cx, source, args.message.secret);
    }
    let (Some(to), Some(subject)) = (args.to, args.subject) else {
        return Err(CommandError::usage("TO and SUBJECT are needed"));
    };
    let mut draft = Draft::from_args(cx, args.message, subject, args.body)?;
    draft.to = parse_recipients(&to)?;
    draft.to.extend(args.also_to);
    draft.reply_to = args.reply_to;
    let mut office = cx.open_to_write()?;
    send(cx, &mut office, draft, "message")
}

/// Sends a draft and says what happens next.
pub(crate) fn send(cx: &mut Cx, office: &mut Office, draft: Draft, default_type: &str) -> Result {
    let answer = submit(cx, office, draft, default_type)?;
    cx.ui.answer(&answer)?;
    say_what_next(cx, office, &answer)
}

pub(crate) fn submit(cx: &Cx, office: &mut Office, mut draft: Draft, default_type: &str) -> Result<SendAnswer> {
    let id = draft.id.take();
    let (header, content) = draft.seal(cx, office, default_type)?;
    let proposal = cx.proposal(office, Intent::Send(header), Some(content), id)?;
    let (outcome, effect) = cx.decide(office, &proposal)?;
    let Effect::Sent(sent) = effect else {
        return Err(CommandError::new(Kind::Internal, "the office took the message for something else"));
    };
    Ok(SendAnswer { sent, id: outcome.id, position: outcome.position, repeat: outcome.repeat })
}

fn say_what_next(cx: &Cx, office: &Office, answer: &SendAnswer) -> Result {
    let number = answer.sent.number;
    if answer.sent.deliveries.is_empty() {
        cx.ui.warn("nobody received it: no such agent is active, or nobody subscribed");
        return Ok(());
    }
    if answer.repeat {
        cx.ui.say(format!("see where it is: poste track {number}"));
        return Ok(());
    }
    let Some(message) = views::message(office.store(), number)? else { return Ok(()) };
    let follow = if message.wants_response {
        format!("wait for the answer: poste wait --replies {number}")
    } else {
        format!("follow it: poste track {number}")
    };
    let when = match message.not_before {
        Some(at) => format!("not before {at} ({})", cx.ui.time(at)),
        None => format!("urgency {}", message.urgency),
    };
    cx.ui.say(format!("pending, {when}; {follow}"));
    Ok(())
}
