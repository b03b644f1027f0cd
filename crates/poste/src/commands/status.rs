use std::io::{self, Write};

use poste_core::text;
use poste_core::views;
use poste_verbs::status;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Show the office at a glance
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste status\n  poste status --json | jq .pending.count")]
pub(crate) struct Args {}

impl Answer for status::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let status = &self.status;
        let plus = |count: views::Count| format!("{}{}", count.count, if count.at_least { "+" } else { "" });
        let calm = |count: views::Count, paint| match count.count {
            0 => "0".to_owned(),
            _ => ui.paint(paint, &plus(count)),
        };
        writeln!(out, "{}", ui.paint(Paint::Strong, &escape::line(&self.office)))?;
        let mut field = |name: &str, value: String| writeln!(out, "{name:<13} {value}");
        let retired = if status.retired > 0 { format!(", {} retired", status.retired) } else { String::new() };
        field("agents", format!("{} and {}{retired}", tally(status.agents, "agent"), tally(status.people, "human")))?;
        field(
            "messages",
            format!("{}, {} records, the last {}", status.messages, status.position, ui.time(status.at)),
        )?;
        let oldest = match (status.oldest_pending, status.oldest_pending_at) {
            (Some(number), Some(at)) => format!(", oldest #{number} {}", ui.since(at)),
            _ => String::new(),
        };
        field("pending", format!("{}{oldest}", plus(status.pending)))?;
        field("claimed", plus(status.claimed))?;
        field("overdue", calm(status.overdue, Paint::Attention))?;
        field("dead letters", calm(status.dead, Paint::Bad))?;
        if let Some(at) = status.next_due {
            field("next due", ui.time(at))?;
        }
        field("size", text::size(status.database_bytes))?;
        let busiest = self.busiest.iter().map(|entry| {
            let more = if entry.pending_at_least { "+" } else { "" };
            let name = entry.agent.name.to_string();
            vec![name, format!("{}{more} pending", entry.pending), format!("{} claimed", entry.claimed)]
        });
        writeln!(out)?;
        ui.lines(out, &["AGENT", "PENDING", "CLAIMED"], busiest.collect())
    }
}

fn tally(count: u64, noun: &str) -> String {
    ui::count(usize::try_from(count).unwrap_or(usize::MAX), noun)
}

pub(crate) fn run(cx: &mut Cx, _: Args) -> Result {
    cx.call(status::Input {})
}
