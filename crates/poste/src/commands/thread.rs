use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::time::length;
use poste_core::views::{Thread, ThreadLine, ThreadOutcome, ThreadStatus, ThreadSummary};
use poste_verbs::model::sender;
use poste_verbs::thread::{self, close};

use super::WriteArgs;
use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Show the messages of a conversation
///
/// Listing a message does not mark it as shown; reading it does.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  poste thread 12\n  poste thread login --summary\n  \
                  poste thread close 12 --outcome 'Shipped in 1.4' --as lead"
)]
pub(crate) struct Args {
    /// Number of any message of the conversation, or its name
    #[arg(value_name = "NUMBER|NAME", required = true)]
    conversation: Option<String>,
    /// Show participants, messages, duration, status and outcome instead; reads all of it
    #[arg(long, conflicts_with_all = ["after", "limit"])]
    summary: bool,
    /// Only messages after this number
    #[arg(long, value_name = "N", value_parser = crate::cli::number, default_value = "0")]
    after: MessageNo,
    /// Maximum number of messages
    #[arg(long, default_value_t = thread::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(thread::LIMIT_MAX)))]
    limit: u16,
    #[command(subcommand)]
    command: Option<ThreadCommand>,
}

#[derive(Debug, clap::Subcommand)]
enum ThreadCommand {
    /// Close a conversation and return its open deliveries
    #[command(after_help = "Example:\n  poste thread close 12 --outcome 'Shipped in 1.4' --as lead")]
    Close(CloseArgs),
}

#[derive(Debug, clap::Args)]
struct CloseArgs {
    /// Number of any message of the conversation
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Outcome of the conversation
    #[arg(long, value_name = "TEXT")]
    outcome: String,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for thread::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Messages(thread) => print_thread(ui, thread, out),
            Self::Summary(summary) => print_summary(ui, summary, out),
        }
    }
}

fn print_thread(ui: &Ui, thread: &Thread, out: &mut dyn Write) -> io::Result<()> {
    let rows = thread.messages.iter().map(|line| row(ui, line)).collect();
    ui.lines(out, &["#", "SENT", "FROM", "TO", "TYPE", "SUBJECT"], rows)?;
    if let Some(next) = thread.next {
        writeln!(out, "(more: --after {next})")?;
    }
    print_outcome(ui, thread.outcome.as_ref(), out)
}

fn row(ui: &Ui, line: &ThreadLine) -> Vec<String> {
    let mut subject = escape::line(&line.subject).into_owned();
    if let Some(number) = line.forward_of {
        subject.push_str(&format!(" (forwards #{number})"));
    }
    if let Some(number) = line.reply_to {
        subject.push_str(&format!(" (re #{number})"));
    }
    vec![
        format!("#{}", line.number),
        ui.time(line.at),
        sender::named(&line.from, line.trust),
        recipients(line),
        line.kind.to_string(),
        subject,
    ]
}

/// The recipients with their states; for many recipients, only a count per state.
fn recipients(line: &ThreadLine) -> String {
    const SHOWN_MAX: usize = 4;
    if line.recipients.is_empty() {
        return "nobody".to_owned();
    }
    if line.recipients.len() <= SHOWN_MAX {
        let each = line.recipients.iter().map(|to| format!("{} ({})", to.recipient, to.state));
        return each.collect::<Vec<_>>().join(", ");
    }
    let mut states = std::collections::BTreeMap::new();
    for to in &line.recipients {
        *states.entry(to.state).or_insert(0) += 1;
    }
    let states: Vec<String> = states.into_iter().map(|(state, count)| format!("{count} {state}")).collect();
    format!("{} recipients ({})", line.recipients.len(), states.join(", "))
}

fn print_outcome(ui: &Ui, outcome: Option<&ThreadOutcome>, out: &mut dyn Write) -> io::Result<()> {
    let Some(outcome) = outcome else { return Ok(()) };
    writeln!(out, "closed by {} {}: {}", outcome.by, ui.time(outcome.at), escape::line(&outcome.text))
}

fn print_summary(ui: &Ui, summary: &ThreadSummary, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("conversation {}  {}", summary.conversation, escape::line(&summary.subject));
    writeln!(out, "{}", ui.paint(Paint::Strong, &title))?;
    let mut field = |name: &str, value: String| writeln!(out, "{name:<13} {value}");
    field("participants", summary.participants.join(", "))?;
    field("messages", summary.messages.count.to_string())?;
    field("began", ui.time(summary.began_at))?;
    field("duration", length(summary.last_at.since_ms(summary.began_at)))?;
    field("status", status_text(ui, summary))?;
    print_outcome(ui, summary.outcome.as_ref(), out)
}

pub(super) fn status_text(ui: &Ui, summary: &ThreadSummary) -> String {
    match summary.status {
        // A listing of a long conversation may not have looked at its open deliveries.
        ThreadStatus::Open if summary.open.count == 0 => ui.paint(Paint::Attention, "open"),
        ThreadStatus::Open => ui.paint(Paint::Attention, &format!("open, {}", ui::at_least(summary.open, "delivery"))),
        other => other.to_string(),
    }
}

impl Answer for close::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let returned = match self.returned {
            0 => String::new(),
            open => format!(", {} returned", ui::count(open, "open delivery")),
        };
        writeln!(out, "conversation {} closed{returned}", self.conversation)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if let Some(ThreadCommand::Close(args)) = args.command {
        let secrets = args.write.secret.secrets(cx)?;
        return cx.call(close::Input { number: args.number, outcome: args.outcome, id: args.write.id, secrets });
    }
    let conversation = args.conversation.unwrap_or_default();
    cx.call(thread::Input { conversation, summary: args.summary, after: args.after, limit: args.limit })
}
