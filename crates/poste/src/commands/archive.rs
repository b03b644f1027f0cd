use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::ProgressBar;
use poste_core::Office;
use poste_core::fold::Code;
use poste_core::limits::RETENTION_MS_DEFAULT;
use poste_core::log::{Intent, MessageNo};
use poste_core::views::{self, ArchiveBatch};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Ui};

/// Move finished conversations out of the database into a file
///
/// Nothing may be pending or claimed in them, and nothing have happened for the retention time (poste.toml, otherwise
/// 72h). They can still be read, tracked and searched; they cannot be changed any more.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste archive --as lead\n  poste archive --older 7d --dry-run")]
pub(crate) struct Args {
    /// Finished for so long, instead of the retention time
    #[arg(long, value_name = "TIME", value_parser = duration)]
    older: Option<Duration>,
    /// Only say what would be archived
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct ArchiveAnswer {
    pub conversations: usize,
    pub messages: usize,
    /// Conversations that are not finished, or not for long enough.
    pub kept: usize,
    pub files: Vec<String>,
    pub dry_run: bool,
}

impl Answer for ArchiveAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let what = if self.dry_run { "would archive" } else { "archived" };
        let conversations = ui::count(self.conversations, "conversation");
        writeln!(out, "{what} {conversations} with {}", ui::count(self.messages, "message"))?;
        for file in &self.files {
            writeln!(out, "  archive/{file}")?;
        }
        if self.kept > 0 {
            writeln!(out, "{} not finished or not for long enough", ui::count(self.kept, "conversation"))?;
        }
        Ok(())
    }
}

/// How often one batch is looked at again because somebody wrote into it meanwhile.
const LOOKS_MAX: usize = 10;

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    office.settle()?;
    if !args.dry_run {
        // Before any file is written: a name nobody has would leave it behind.
        cx.agent(&office)?;
    }
    let retention_ms = match args.older {
        Some(older) => i64::try_from(older.as_millis()).unwrap_or(i64::MAX),
        None => office.store().tables()?.policy()?.settings.retention_ms.unwrap_or(RETENTION_MS_DEFAULT),
    };
    let before = cx.ui.now.plus_ms(-retention_ms);
    let visible = !cx.ui.json && io::stderr().is_terminal();
    let last = office.store().tables()?.cursor.message_last.0;
    let progress = if visible { ProgressBar::new(last) } else { ProgressBar::hidden() };
    let mut answer = ArchiveAnswer { dry_run: args.dry_run, ..ArchiveAnswer::default() };
    let mut from = Some(MessageNo(1));
    let mut looks = 0;
    while let Some(number) = from {
        let batch = views::finished(office.store(), before, number)?;
        if !batch.conversations.is_empty() && !args.dry_run {
            match keep(cx, &mut office, &batch) {
                Ok(file) => answer.files.push(file),
                Err(error) if is_outrun(&error) && looks < LOOKS_MAX => {
                    looks += 1;
                    continue;
                }
                Err(error) => return Err(error),
            }
        }
        looks = 0;
        answer.kept += batch.kept;
        answer.conversations += batch.conversations.len();
        answer.messages += batch.messages;
        from = batch.next;
        progress.set_position(from.map_or(last, |next| next.0));
    }
    progress.finish_and_clear();
    cx.ui.answer(&answer)
}

/// First the file, then the record that names it.
fn keep(cx: &Cx, office: &mut Office, batch: &ArchiveBatch) -> Result<String> {
    let archive = office.write_archive(batch)?;
    let proposal = cx.proposal(office, Intent::Archive(archive.clone()), None, None)?;
    if let Err(error) = cx.decide(office, &proposal) {
        // Refused, or not even tried: no record names the file. With an unknown outcome it must stay.
        if error.code.is_some() || error.kind == Kind::Busy {
            office.discard_archive(&archive)?;
        }
        return Err(error);
    }
    Ok(archive.file)
}

/// Somebody wrote into one of the conversations, or archived it, between looking and asking.
fn is_outrun(error: &CommandError) -> bool {
    [Code::NotFinished, Code::NothingToDo].iter().any(|code| error.code == Some(code.word()))
}
