use std::io::{self, Write};
use std::time::Duration;

use poste_core::Timestamp;
use poste_core::views::{LateDelivery, Overdue};
use poste_verbs::model::sender;
use poste_verbs::overdue;

use super::reserve::ms;
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape};

/// List late responses, leases, unclaimed work, silent agents
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste overdue\n  poste overdue --older 15m --within 5m\n  poste overdue --json")]
pub(crate) struct Args {
    /// List work that has been unclaimed for this long
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    older: Duration,
    /// List leases that end within this time
    #[arg(long, value_name = "TIME", default_value = "2m", value_parser = duration)]
    within: Duration,
}

impl Answer for Overdue {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let when = |at: Option<Timestamp>| at.map(|at| ui.time(at)).unwrap_or_default();
        section(ui, out, "missing responses", &self.responses, |late| {
            let told = if late.reminded_at.is_some() { ", reminder sent" } else { "" };
            format!("due {}, {}{told}", when(late.due_at), state(late))
        })?;
        section(ui, out, "leases about to end", &self.leases, |late| {
            format!("{} holds it, lease ends {}", late.holder.as_deref().unwrap_or("nobody"), when(late.due_at))
        })?;
        section(ui, out, "unclaimed work", &self.unclaimed, |late| {
            let shown = if late.shown_at.is_some() { "shown" } else { "not shown" };
            format!("stored {}, {shown}", ui.time(late.stored_at))
        })?;
        if !self.silent.is_empty() {
            writeln!(out, "{}", ui.paint(Paint::Attention, "silent agents"))?;
        }
        for agent in &self.silent {
            let heard =
                agent.heard_at.map_or("not active lately".to_owned(), |at| format!("last active {}", ui.time(at)));
            writeln!(out, "  {}: {heard}; #{} pending {}", agent.name, agent.oldest, ui.since(agent.waits_since))?;
        }
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

fn state(late: &LateDelivery) -> String {
    match &late.holder {
        Some(holder) => format!("{} by {holder}", late.state),
        None => late.state.to_string(),
    }
}

fn section(
    ui: &Ui,
    out: &mut dyn Write,
    title: &str,
    found: &[LateDelivery],
    detail: impl Fn(&LateDelivery) -> String,
) -> io::Result<()> {
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "{}", ui.paint(Paint::Attention, title))?;
    for late in found {
        let subject = escape::line(&late.subject);
        writeln!(
            out,
            "  #{} {} → {}: {subject} ({})",
            late.number,
            sender::named(&late.from, late.trust),
            late.recipient,
            detail(late)
        )?;
    }
    Ok(())
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(overdue::Input { older_ms: Some(ms(args.older)), within_ms: Some(ms(args.within)) })
}
