mod agent;
mod blocker;
mod broadcast;
mod conversation;
mod day;
mod timeline;

use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Name;
use poste_core::time::parse_day;
use poste_core::views::{self, Happening};

use super::thread::{named, tell_damage};
use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::explain::{no_message, unknown_agent};
use crate::ui::{Answer, Ui};

/// Report what became of a broadcast, a blocker, a conversation, an agent's mail, a day
///
/// In Markdown, to keep or to pass on; with --json for programs. Times are UTC. Reporting is not showing: nothing is
/// marked.
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
    /// Who has taken note of a broadcast, a publication or any message, when, and who has not
    #[command(after_help = "Examples:\n  poste report broadcast 1\n  poste report broadcast 1 --json")]
    Broadcast(BroadcastArgs),
    /// What was done about a blocker, and how long it took
    #[command(after_help = "Examples:\n  poste report blocker 12\n  poste report blocker 12 --mermaid > blocker.mmd")]
    Blocker(ConversationArgs),
    /// Who took part in a conversation, how long it took, how it stands and what came of it
    #[command(after_help = "Examples:\n  poste report conversation 12\n  poste report conversation login --mermaid")]
    Conversation(ConversationArgs),
    /// What an agent sent, got, did and answered, and what waits for it now
    #[command(after_help = "Examples:\n  poste report agent coder\n  poste report agent coder --since 7d --json")]
    Agent(AgentArgs),
    /// A day of the office: messages, conversations, broadcasts, blockers, failures, agents
    #[command(after_help = "Examples:\n  poste report day today\n  poste report day yesterday\n  \
                            poste report day 2026-01-31 --json")]
    Day(DayArgs),
}

#[derive(Debug, clap::Args)]
struct BroadcastArgs {
    /// The message's number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct ConversationArgs {
    /// Any message of the conversation, or its name
    #[arg(value_name = "NUMBER|NAME")]
    conversation: String,
    #[command(flatten)]
    form: Form,
}

#[derive(Debug, clap::Args)]
struct AgentArgs {
    /// The agent
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
    /// What happened, as a sequence diagram in the language of Mermaid
    #[arg(long)]
    mermaid: bool,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        ReportCommand::Broadcast(args) => broadcast(cx, args),
        ReportCommand::Blocker(args) => blocker(cx, args),
        ReportCommand::Conversation(args) => conversation(cx, args),
        ReportCommand::Agent(args) => agent(cx, args),
        ReportCommand::Day(args) => day(cx, args),
    }
}

fn broadcast(cx: &mut Cx, args: BroadcastArgs) -> Result {
    args.form.check(&cx.ui)?;
    let office = cx.open()?;
    let report = views::broadcast_report(office.store(), args.number)?.ok_or_else(|| no_message(args.number))?;
    args.form.answer(&cx.ui, &report, &report.timeline, &report.damage)
}

fn blocker(cx: &mut Cx, args: ConversationArgs) -> Result {
    args.form.check(&cx.ui)?;
    let office = cx.open()?;
    let conversation = named(&office, &args.conversation)?;
    let report = views::blocker_report(office.store(), &conversation, cx.ui.now)?.ok_or_else(|| {
        CommandError::not_found(format!("nobody reported a blocker in conversation {conversation}"))
            .hint("a blocker is reported by a message of type blocker_notification")
            .hint(format!("what happened in it: poste report conversation {}", args.conversation))
    })?;
    args.form.answer(&cx.ui, &report, &report.timeline, &report.damage)
}

fn conversation(cx: &mut Cx, args: ConversationArgs) -> Result {
    args.form.check(&cx.ui)?;
    let office = cx.open()?;
    let conversation = named(&office, &args.conversation)?;
    let report = views::conversation_report(office.store(), &conversation)?;
    args.form.answer(&cx.ui, &report, &report.timeline, &report.damage)
}

fn agent(cx: &mut Cx, args: AgentArgs) -> Result {
    let office = cx.open()?;
    let now = cx.ui.now;
    let since = super::since(&args.since, now)?;
    let Some(agent) = office.agent(&args.name)? else { return Err(unknown_agent(&office, &args.name)?) };
    let report = views::agent_report(office.store(), &agent, since, now)?;
    cx.ui.answer(&report)?;
    tell_damage(&cx.ui, &report.damage)
}

fn day(cx: &mut Cx, args: DayArgs) -> Result {
    let office = cx.open()?;
    let (begins, ends) = parse_day(&args.day, cx.ui.now).map_err(CommandError::usage)?;
    let report = views::day_report(office.store(), begins, ends, cx.ui.now)?;
    cx.ui.answer(&report)?;
    tell_damage(&cx.ui, &report.damage)
}

impl Form {
    fn check(&self, ui: &Ui) -> Result {
        match self.mermaid && ui.json {
            true => Err(CommandError::usage("--mermaid is no JSON").hint("leave --json or --mermaid out")),
            false => Ok(()),
        }
    }

    /// The report, or what happened as a diagram.
    fn answer(&self, ui: &Ui, report: &impl Answer, timeline: &[Happening], damage: &[String]) -> Result {
        if self.mermaid {
            let mut out = ui.out();
            write!(out, "{}", timeline::diagram(ui, timeline))?;
            out.flush()?;
        } else {
            ui.answer(report)?;
        }
        tell_damage(ui, damage)
    }
}

/// A line of facts at the top of a report. The value is Markdown already.
fn fact(out: &mut dyn Write, name: &str, value: impl AsRef<str>) -> io::Result<()> {
    writeln!(out, "- {name}: {}", value.as_ref())
}

/// Said below whatever was cut, so that nobody takes it for the whole.
fn tell_more(out: &mut dyn Write, more: bool) -> io::Result<()> {
    if more { writeln!(out, "\nThere is more than this report tells.") } else { Ok(()) }
}
