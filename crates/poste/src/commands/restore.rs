use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::office::Place;
use poste_core::store::discover;
use poste_verbs::restore;

use crate::Result;
use crate::context::Cx;
use crate::ui::progress::Bar;
use crate::ui::{Answer, Ui, escape};

/// Restore an office from a snapshot
///
/// Checks every file against its digest, and the tables against the log, before it puts anything in place. An existing
/// office stays unless you pass --replace, which keeps it next to the new one. The office goes where commands run here
/// find one, or else where `poste init` would create one.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste restore ~/backup/monday\n  poste restore ~/backup/monday --replace\n  \
                  poste restore ~/backup/monday --in ~/elsewhere")]
pub(crate) struct Args {
    /// Folder that `poste snapshot` made
    #[arg(value_name = "SNAPSHOT")]
    snapshot: PathBuf,
    /// Folder to restore into; the office is .poste in it
    #[arg(long = "in", visible_alias = "to", value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Replace an existing office, which is kept as .poste.before-restore-TIME
    #[arg(long)]
    replace: bool,
}

impl Answer for restore::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "restored {}, up to record {}", escape::line(&self.path), self.position)?;
        if let Some(kept) = &self.kept {
            writeln!(out, "the previous office is kept: {}", escape::line(kept))?;
        }
        Ok(())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let place = place(cx, args.folder)?;
    let input = restore::Input { snapshot: args.snapshot, replace: args.replace };
    let mut bar = Bar::new(&cx.ui);
    let restored = restore::restore(&place, &input, &mut |progress| bar.show(progress));
    drop(bar);
    cx.print_answer(restored?)
}

/// Where the office goes: the given folder, else where one is found from here, else where a new one would be created.
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
