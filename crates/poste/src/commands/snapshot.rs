use std::io::{self, Write};
use std::path::PathBuf;

use poste_verbs::snapshot;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui, escape};

/// Make a complete, verified copy of the office
///
/// Agents can keep working while it runs. The copy has everything that was acknowledged before it began: log and
/// tables, large content and attachments, archives, and a list of all files with their digests. The folder gets its
/// name when it is complete.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste snapshot ~/backup/monday\n  poste restore ~/backup/monday --in ~/elsewhere")]
pub(crate) struct Args {
    /// Folder to create; it must not exist, nor be inside the office
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl Answer for snapshot::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let files = ui::count(self.files, "file");
        let path = escape::line(&self.snapshot);
        writeln!(out, "made {path}: {files}, up to record {}", self.position)?;
        writeln!(out, "verified, digest {}", self.tables.short())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(snapshot::Input { folder: Some(args.folder) })
}
