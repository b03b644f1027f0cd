use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Name;
use poste_verbs::report::page::{Page, Report};
use poste_verbs::{Verb, report};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Report on a broadcast, blocker, conversation, agent or day
///
/// Reports are Markdown, to keep or to pass on, or JSON with --json. Times are UTC. Reporting marks nothing as shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste report broadcast 1\n  poste report blocker 12 --mermaid\n  \
                        poste report conversation login > login.md\n  poste report agent coder --since 7d\n  \
                        poste report day yesterday")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: ReportCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ReportCommand {
    /// Report which recipients have taken note of a message
    #[command(after_help = "Examples:\n  poste report broadcast 1\n  poste report broadcast 1 --json")]
    Broadcast(BroadcastArgs),
    /// Report what was done about a blocker and how long it took
    #[command(after_help = "Examples:\n  poste report blocker 12\n  poste report blocker 12 --mermaid > blocker.mmd")]
    Blocker(ConversationArgs),
    /// Report participants, duration and outcome of a conversation
    #[command(after_help = "Examples:\n  poste report conversation 12\n  poste report conversation login --mermaid")]
    Conversation(ConversationArgs),
    /// Report what an agent sent, received, did and has pending
    #[command(after_help = "Examples:\n  poste report agent coder\n  poste report agent coder --since 7d --json")]
    Agent(AgentArgs),
    /// Report a day: messages, conversations, failures, agents
    #[command(after_help = "Examples:\n  poste report day today\n  poste report day yesterday\n  \
                            poste report day 2026-01-31 --json")]
    Day(DayArgs),
}

#[derive(Debug, clap::Args)]
struct BroadcastArgs {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct ConversationArgs {
    /// Number of any message of the conversation, or its name
    #[arg(value_name = "NUMBER|NAME")]
    conversation: String,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// Agent to report on
    name: Name,
    /// How far back: 24h, 7d, or a time
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: String,
}

#[derive(Debug, clap::Args)]
struct DayArgs {
    /// today, yesterday or a date like 2026-01-31; from midnight to midnight UTC
    #[arg(value_name = "DAY")]
    day: String,
}

#[derive(Debug, clap::Args)]
struct Form {
    /// Print a Mermaid sequence diagram of what happened
    #[arg(long)]
    mermaid: bool,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        ReportCommand::Broadcast(args) => args.form.report(cx, report::broadcast::Input { number: args.number }),
        ReportCommand::Blocker(args) => {
            args.form.report(cx, report::blocker::Input { conversation: args.conversation })
        }
        ReportCommand::Conversation(args) => {
            args.form.report(cx, report::conversation::Input { conversation: args.conversation })
        }
        ReportCommand::Agent(args) => cx.call_as(report::agent::Input { name: args.name, since: args.since }, Written),
        ReportCommand::Day(args) => cx.call_as(report::day::Input { day: args.day }, Written),
    }
}

/// A report as a page.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
struct Written<R>(R);

impl<R: Report + Serialize + JsonSchema> Answer for Written<R> {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        self.0.write(&page(ui), out)
    }
}

fn page(ui: &Ui) -> Page {
    Page { moments: ui.time_style.into(), now: ui.now }
}

impl Form {
    /// Prints the report, or what happened as a diagram.
    fn report<V: Verb<Answer: Report>>(&self, cx: &mut Cx, verb: V) -> Result {
        if !self.mermaid {
            return cx.call_as(verb, Written);
        }
        if cx.ui.json {
            return Err(CommandError::usage("--mermaid and --json cannot be combined").hint("leave one of them out"));
        }
        let (mut office, answered) = cx.call_verb_here(verb)?;
        cx.show_as(&mut office, answered, |report| cx.ui.text(&page(&cx.ui).diagram(report)))
    }
}
