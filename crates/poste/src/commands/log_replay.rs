use std::io::{self, Write};

use poste_core::log::{MessageNo, Position};
use poste_core::text::Name;
use poste_core::views::PastOffice;
use poste_verbs::log::replay::{self, Past};
use poste_verbs::log::{replay_inbox, replay_message};
use poste_verbs::track;

use super::track::Ladder;
use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Show the office as it was after a record
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Position of the last record to include; otherwise the newest
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    until: Option<Position>,
    /// Show the inbox of this agent at that time
    #[arg(long, value_name = "NAME", conflicts_with = "message")]
    inbox: Option<Name>,
    /// Show the state of this message at that time
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    message: Option<MessageNo>,
}

impl Answer for PastOffice {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let (messages, open) =
            (ui::count(self.messages as usize, "message"), ui::count(self.open as usize, "delivery"));
        writeln!(out, "after record {}, {}: {messages}, {open} open", self.position, self.at)?;
        writeln!(out, "digest {}", self.digest.short())?;
        let rows = self.agents.iter().map(|agent| {
            let more = if agent.pending_at_least { "+" } else { "" };
            vec![
                agent.name.to_string(),
                agent.kind.to_string(),
                if agent.active { "active" } else { "retired" }.to_owned(),
                format!("{}{more} pending", agent.pending),
                format!("{} claimed", agent.claimed),
            ]
        });
        ui.rows(out, &["NAME", "KIND", "STATE", "PENDING", "CLAIMED"], rows.collect())
    }
}

/// Times such as "in 5m" count from that moment.
impl<A: Answer> Answer for Past<A> {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let mut then = ui.clone();
        then.now = self.at;
        self.answer.print(&then, out)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let until = args.until;
    if let Some(inbox) = args.inbox {
        return cx.call(replay_inbox::Input { until, inbox });
    }
    let Some(message) = args.message else { return cx.call(replay::Input { until }) };
    let (mut office, answered) = cx.call_verb_here(replay_message::Input { until, message })?;
    let ladder = |past: Past<track::Answer>| Past { answer: Ladder::past(past.answer.track), at: past.at };
    cx.show(&mut office, answered.map(ladder))
}
