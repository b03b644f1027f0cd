use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::office::Place;
use poste_core::store::discover;
use poste_core::{Error, backup};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::progress::Bar;
use crate::ui::{self, Answer, Ui, escape};

/// Make an office from a snapshot
///
/// Every file is checked against its digest, and the tables against the log, before anything is put in place. An office that
/// is there stays, unless --replace is given: then it is kept beside the new one. It is put where commands look for an
/// office from here, else where `poste init` would make one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste restore ~/backup/monday\n  poste restore ~/backup/monday --replace\n  \
                  poste restore ~/backup/monday --in ~/elsewhere")]
pub(crate) struct Args {
    /// A folder that `poste snapshot` made
    #[arg(value_name = "SNAPSHOT")]
    snapshot: PathBuf,
    /// The folder to put the office in, as .poste
    #[arg(long = "in", visible_alias = "to", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Replace the office that is there; it is kept as .poste.before-restore-TIME
    #[arg(long)]
    replace: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RestoreAnswer {
    pub path: String,
    /// The office's id: the same as before.
    pub office: String,
    /// The newest record in it.
    pub position: poste_core::Position,
    pub chain: poste_core::Digest,
    /// The digest of all tables, unless they were brought to a newer schema.
    pub tables: Option<poste_core::Digest>,
    /// Where the office is that was there before.
    pub kept: Option<String>,
    /// The newest record of the one that was there before, if it was a copy of the same office.
    pub kept_position: Option<poste_core::Position>,
}

impl Answer for RestoreAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "restored {}, up to record {}", escape::line(&self.path), self.position)?;
        if let Some(kept) = &self.kept {
            writeln!(out, "the office that was there is kept: {}", escape::line(kept))?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let place = place(cx, args.folder)?;
    let mut bar = Bar::new(&cx.ui);
    let restored = backup::restore(&args.snapshot, &place, args.replace, &mut |progress| bar.show(progress));
    drop(bar);
    let restored = restored.map_err(|error| match error {
        error @ Error::Occupied(_) => CommandError::from(error)
            .hint("to put the snapshot in its place, and keep what is there beside it: --replace"),
        error => error.into(),
    })?;
    let manifest = restored.manifest;
    let kept = restored.kept.as_ref().map(|path| format!(", with what was there kept in {}", path.display()));
    cx.note_stored(format!("the restored office {}{}", place.path.display(), kept.unwrap_or_default()));
    cx.ui.answer(&RestoreAnswer {
        path: place.path.display().to_string(),
        office: manifest.office,
        position: manifest.position,
        chain: manifest.chain,
        tables: Some(manifest.tables).filter(|_| !restored.migrated),
        kept: restored.kept.map(|path| path.display().to_string()),
        kept_position: restored.kept_position,
    })?;
    if let Some(last) = restored.kept_position.filter(|last| *last > manifest.position) {
        let lost = ui::count(usize::try_from(last.0 - manifest.position.0).unwrap_or(usize::MAX), "record");
        cx.ui.warn(format!("{lost} that the office had after the snapshot was taken: only in the one that is kept"));
    }
    if restored.kept_position.is_none() {
        let taken_at = manifest.taken_at;
        cx.ui.warn(format!(
            "this is a copy, as of {taken_at}; if the office it was made of is still used, the two go apart"
        ));
    }
    Ok(())
}

/// Where the office goes: where it was told to, else where one is found from here, else where a new one would be made.
fn place(cx: &Cx, folder: Option<PathBuf>) -> Result<Place> {
    if let Some(folder) = folder {
        return Ok(cx.place_at(folder.join(discover::FOLDER)));
    }
    if let Some(office) = cx.explicit_office() {
        return Ok(cx.place_at(office));
    }
    let cwd = cx.cwd()?;
    Ok(cx.place_at(discover::find(&cwd).unwrap_or_else(|| discover::place(&cwd))))
}
