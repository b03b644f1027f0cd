use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::{Error, backup};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::progress::Bar;
use crate::ui::{self, Answer, Ui, escape};

/// Make a whole, verified copy of the office in a new folder
///
/// Others go on working meanwhile. The copy has everything that was acknowledged before it began: log and tables, large
/// content and attachments, archives, and a list of all files with their digests. It gets its name when it is complete.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste snapshot ~/backup/monday\n  poste restore ~/backup/monday --in ~/elsewhere")]
pub(crate) struct Args {
    /// The folder to make; it must not be there, and cannot be inside the office
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct SnapshotAnswer {
    pub snapshot: String,
    /// The office's id, the same for all its copies.
    pub office: String,
    /// The newest record in it.
    pub position: poste_core::Position,
    pub chain: poste_core::Digest,
    /// The digest of all tables.
    pub tables: poste_core::Digest,
    pub files: usize,
    pub bytes: u64,
}

impl Answer for SnapshotAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let files = ui::count(self.files, "file");
        let path = escape::line(&self.snapshot);
        writeln!(out, "made {path}: {files}, up to record {}", self.position)?;
        writeln!(out, "verified, digest {}", self.tables.short())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let place = cx.place()?;
    let office = place.open()?;
    let mut bar = Bar::new(&cx.ui);
    let taken = backup::take(office.log(), &args.folder, place.clock.as_ref(), &mut |progress| bar.show(progress));
    drop(bar);
    let manifest = taken.map_err(|error| match error {
        error @ Error::Occupied(_) => CommandError::from(error).hint("give a folder that is not there yet"),
        error => error.into(),
    })?;
    cx.note_stored(format!("the snapshot {}", args.folder.display()));
    cx.ui.answer(&SnapshotAnswer {
        snapshot: args.folder.display().to_string(),
        files: manifest.files.len(),
        bytes: manifest.bytes(),
        office: manifest.office,
        position: manifest.position,
        chain: manifest.chain,
        tables: manifest.tables,
    })?;
    cx.ui.say(format!("restore it: poste restore {}", args.folder.display()));
    Ok(())
}
