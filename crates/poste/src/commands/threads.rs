use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Name;
use poste_core::views::{ThreadStatus, ThreadSummary, Threads};
use poste_verbs::threads;

use super::thread::status_text;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// List conversations, most recently active first
///
/// Archived conversations are not listed; thread N shows them. In a long conversation, participants are looked for in
/// the oldest and the newest 200 messages, and messages are counted up to 1000; thread N --summary reads all of them.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste threads\n  poste threads --status open\n  poste threads --agent coder --limit 5"
)]
pub(crate) struct Args {
    /// Only conversations with this status: open, finished or closed
    #[arg(long)]
    status: Option<ThreadStatus>,
    /// Only conversations in which this agent takes part
    #[arg(long, value_name = "NAME")]
    agent: Option<Name>,
    /// Only conversations whose newest message is older than this one
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    before: Option<MessageNo>,
    /// Maximum number of conversations
    #[arg(long, default_value_t = threads::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(threads::LIMIT_MAX)))]
    limit: u16,
}

impl Answer for Threads {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.threads.iter().map(|thread| {
            vec![
                thread.conversation.to_string(),
                ui.time(thread.last_at),
                crate::ui::at_least(thread.messages, "message"),
                status_text(ui, thread),
                participants(thread),
                escape::line(&thread.subject).into_owned(),
            ]
        });
        ui.lines(out, &["CONVERSATION", "LAST", "MESSAGES", "STATUS", "WHO", "SUBJECT"], rows.collect())?;
        if let Some(next) = self.next {
            writeln!(out, "(more: --before {next})")?;
        }
        Ok(())
    }
}

fn participants(thread: &ThreadSummary) -> String {
    let more = if thread.partial { ", …" } else { "" };
    format!("{}{more}", thread.participants.join(", "))
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { status, agent, before, limit } = args;
    cx.call(threads::Input { status, agent, before, limit })
}
