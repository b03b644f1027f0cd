use std::io::{self, Write};
use std::time::Duration;

use poste_core::log::MessageNo;
use poste_core::store::tables::ApprovalState;
use poste_core::text::Word;
use poste_core::views::{ApprovalView, Approvals};
use poste_verbs::model::sender;
use poste_verbs::{approval, approvals};

use super::ask::wait_on;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape, fence};

/// List approvals, or show one
///
/// Without options: the approvals that this agent has to decide, and those that it asked for. Decide with poste approve
/// or poste deny; poste reply only discusses the question.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste approvals --as lead\n  poste approvals --mine --as lead\n  poste approvals --asked --as coder\n  \
                        poste approvals --all\n  poste approvals 12\n  poste approvals 12 --wait --timeout 10m"
)]
pub(crate) struct Args {
    /// Number of the approval to show
    #[arg(value_parser = crate::cli::number, conflicts_with_all = ["mine", "asked", "all"])]
    number: Option<MessageNo>,
    /// Only approvals that this agent has to decide
    #[arg(long, conflicts_with_all = ["asked", "all"])]
    mine: bool,
    /// Only open approvals that this agent asked for
    #[arg(long, conflicts_with = "all")]
    asked: bool,
    /// All approvals of all agents, newest first
    #[arg(long)]
    all: bool,
    /// Block until the approval is decided and print the choice; exit codes are those of ask --wait
    #[arg(long, requires = "number")]
    wait: bool,
    /// With --wait: give up after this time; the question stays open
    #[arg(long, value_name = "TIME", value_parser = duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Maximum number of approvals
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

impl Answer for Approvals {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.approvals.iter().map(|approval| {
            let to: Vec<&str> = approval.to.iter().map(|asked| asked.recipient.as_str()).collect();
            vec![
                format!("#{}", approval.number),
                ui.paint(paint(approval), approval.state.word()),
                format!("{} → {}", sender::named(approval.from.as_str(), approval.trust), to.join(", ")),
                escape::line(&approval.subject).into_owned(),
                standing(ui, approval),
            ]
        });
        ui.lines(out, &["#", "STATE", "FROM → TO", "QUESTION", "DECISION"], rows.collect())?;
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

impl Answer for ApprovalView {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_approval(ui, self, out)
    }
}

fn paint(approval: &ApprovalView) -> Paint {
    match approval.state {
        ApprovalState::Open => Paint::Attention,
        ApprovalState::Answered => Paint::Good,
        _ => Paint::Bad,
    }
}

/// One approval for a person.
pub(crate) fn print_approval(ui: &Ui, approval: &ApprovalView, out: &mut dyn Write) -> io::Result<()> {
    let title = format!("#{}  {}", approval.number, escape::line(&approval.subject));
    writeln!(out, "{}", ui.paint(Paint::Strong, &title))?;
    let mut field = |name: &str, value: String| writeln!(out, "{name:<13} {value}");
    field("from", sender::named(approval.from.as_str(), approval.trust))?;
    let to: Vec<String> = approval.to.iter().map(|asked| format!("{} ({})", asked.recipient, asked.state)).collect();
    field("to", if to.is_empty() { "(unreadable)".to_owned() } else { to.join(", ") })?;
    field("asked", ui.time(approval.at))?;
    field("choices", fence::choices(approval))?;
    field("state", ui.paint(paint(approval), approval.state.word()))?;
    field("decision", standing(ui, approval))?;
    if let Some(note) = &approval.note {
        writeln!(out, "\n{}", escape::block(note.trim_end_matches('\n')))?;
    }
    Ok(())
}

/// The status of an approval, in one line.
pub(crate) fn standing(ui: &Ui, approval: &ApprovalView) -> String {
    if approval.state != ApprovalState::Open {
        let when = approval.ended_at.map(|at| format!(" ({})", ui.time(at))).unwrap_or_default();
        return format!("{}{when}", decision(approval));
    }
    let otherwise = approval.default.as_ref().map(|default| format!(", else {default}")).unwrap_or_default();
    let until = match approval.deadline {
        Some(at) if approval.unconfirmed => format!("the deadline passed {}{otherwise}", ui.time(at)),
        Some(at) => format!("due {}{otherwise}", ui.time(at)),
        None => "no deadline".to_owned(),
    };
    let no_recipient = if approval.nobody_left { "; no recipient is left to answer" } else { "" };
    format!("{until}{no_recipient}")
}

/// What was decided and by which agent, or why nothing was.
pub(crate) fn decision(approval: &ApprovalView) -> String {
    let choice = approval.choice.as_ref().map(Word::as_str).unwrap_or_default();
    match (approval.state, &approval.decided_by) {
        (ApprovalState::Answered, Some(by)) => format!("{choice}, by {by}"),
        (ApprovalState::Answered, None) => choice.to_owned(),
        (ApprovalState::Defaulted, _) => format!("{choice}, the default: no answer in time"),
        (ApprovalState::Unanswered, _) => "no answer in time, and no default".to_owned(),
        (ApprovalState::Closed, _) => "its conversation was closed".to_owned(),
        (ApprovalState::Withdrawn, _) => format!("{} retired", approval.from),
        (ApprovalState::Open, _) if approval.nobody_left => "no recipient is left to answer".to_owned(),
        (ApprovalState::Open, _) => "open".to_owned(),
    }
}

/// Blocks until the approval is decided. Prints only the choice, for scripts.
fn wait(cx: &mut Cx, number: MessageNo, timeout: Option<Duration>) -> Result {
    let mut office = cx.open_to_write()?;
    let (approval, ended) = wait_on(cx, &mut office, number, timeout)?;
    match &approval.choice {
        _ if cx.ui.json => cx.ui.answer(&approval)?,
        Some(choice) => writeln!(cx.ui.out(), "{choice}")?,
        None => {}
    }
    ended
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { number, mine, asked, all, limit, .. } = args;
    match number {
        Some(number) if args.wait => wait(cx, number, args.timeout),
        Some(number) => cx.call(approval::Input { number }),
        None => cx.call(approvals::Input { mine, asked, all, limit }),
    }
}
