use std::io::{self, Write};

use poste_core::text::Word;
use poste_verbs::agents;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// List registered agents
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste agents\n  poste agents --all --json")]
pub(crate) struct Args {
    /// Include retired agents
    #[arg(long)]
    all: bool,
}

impl Answer for agents::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.agents.iter().map(|entry| {
            let agent = &entry.agent;
            let words: Vec<&str> = agent.capabilities.iter().map(Word::as_str).collect();
            let more = if entry.pending_at_least { "+" } else { "" };
            vec![
                agent.name.to_string(),
                agent.kind.to_string(),
                agent.role.as_ref().map_or("-".to_owned(), ToString::to_string),
                if words.is_empty() { "-".to_owned() } else { words.join(" ") },
                if entry.active { "active" } else { "retired" }.to_owned(),
                format!("{}{more} pending", entry.pending),
                format!("{} claimed", entry.claimed),
                agent.worktree.as_deref().map(|path| escape::line(path).into_owned()).unwrap_or_default(),
            ]
        });
        let header = ["NAME", "KIND", "ROLE", "CAN", "STATE", "PENDING", "CLAIMED", "WORKTREE"];
        ui.rows(out, &header, rows.collect())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(agents::Input { all: args.all })
}
