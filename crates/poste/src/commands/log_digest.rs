use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::fold::Refusals;
use poste_core::office::head;
use poste_core::store::Store;
use poste_core::views::{self, DigestDiff};

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{Answer, Ui};

/// Compare the digests of tables
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Another office folder, or a copy of an office's database; otherwise the refolded log of this one
    other: Option<PathBuf>,
    /// With OTHER: find the first record at which the two logs part
    #[arg(long, requires = "other")]
    find: bool,
}

impl Answer for DigestDiff {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let short = |digest: Option<poste_core::Digest>| digest.map_or_else(|| "-".to_owned(), |digest| digest.short());
        let rows = self.tables.iter().map(|table| {
            let same = if table.equal { "equal" } else { "different" };
            vec![table.table.clone(), short(table.ours), short(table.theirs), same.to_owned()]
        });
        ui.rows(out, &["TABLE", "HERE", "THERE", ""], rows.collect())?;
        let verdict = if self.equal { "equal" } else { "not equal" };
        let ahead = match (self.ours.0, self.theirs.0) {
            (ours, theirs) if ours > theirs => format!("; this office goes on for {} more", ours - theirs),
            (ours, theirs) if ours < theirs => format!("; the other one goes on for {} more", theirs - ours),
            _ => String::new(),
        };
        writeln!(out, "{verdict} at record {}{ahead}", self.position)?;
        match self.parted_at {
            Some(position) => writeln!(out, "the logs part at record {position}"),
            None => Ok(()),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if let Some(other) = args.other.as_ref().filter(|other| !other.exists()) {
        return Err(CommandError::not_found(format!("there is no folder or file {}", other.display())));
    }
    let office = cx.open()?;
    let progress = super::log::progress(cx, head(office.store())?);
    let advance = |position: poste_core::Position| progress.set_position(position.0);
    let diff = match &args.other {
        None => views::diff_with_fold(office.store(), Refusals::Dropped, advance),
        Some(path) => Store::open_other(path).and_then(|other| {
            let mut diff = views::diff_with_other(office.store(), &other, Refusals::Dropped, advance)?;
            if args.find {
                diff.parted_at = views::first_difference(office.store(), &other, advance)?;
            }
            Ok(diff)
        }),
    };
    progress.finish_and_clear();
    let diff = diff?;
    cx.ui.answer(&diff)?;
    if diff.equal && diff.parted_at.is_none() {
        return Ok(());
    }
    Err(match args.other {
        None => CommandError::new(Kind::Internal, "the tables are not what the log folds to")
            .hint("look closer: poste log verify"),
        Some(_) if args.find => CommandError::new(Kind::Conflict, "the two are not the same office any more"),
        Some(_) => CommandError::new(Kind::Conflict, "the two are not the same office any more")
            .hint("see where they part: --find"),
    })
}
