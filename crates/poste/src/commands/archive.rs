use std::io::{self, Write};
use std::time::Duration;

use poste_verbs::archive;

use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui};

/// Move finished conversations out of the database into a file
///
/// A conversation is finished if nothing in it is pending or claimed and nothing has happened in it for the retention
/// time (poste.toml, otherwise 72h). Archived messages can be read, tracked and searched, but not changed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste archive --as lead\n  poste archive --older 7d --dry-run")]
pub(crate) struct Args {
    /// Time since a conversation finished, instead of the retention time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    older: Option<Duration>,
    /// Only show what would be archived
    #[arg(long)]
    dry_run: bool,
}

impl Answer for archive::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let what = if self.dry_run { "would archive" } else { "archived" };
        let conversations = ui::count(self.conversations, "conversation");
        writeln!(out, "{what} {conversations} with {}", ui::count(self.messages, "message"))?;
        for file in &self.files {
            writeln!(out, "  archive/{file}")?;
        }
        if self.kept > 0 {
            writeln!(out, "{} unfinished or too recent", ui::count(self.kept, "conversation"))?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let older_ms = args.older.map(|older| i64::try_from(older.as_millis()).unwrap_or(i64::MAX));
    cx.call(archive::Input { older_ms, dry_run: args.dry_run })
}
