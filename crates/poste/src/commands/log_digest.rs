use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::views::DigestDiff;
use poste_verbs::log::diff_digest;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui};

/// Compare table digests with the log or another copy
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Office folder or copy of a database to compare with; otherwise the log of this office
    other: Option<PathBuf>,
    /// With OTHER: find the first record at which the two logs differ
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
            (ours, theirs) if ours > theirs => format!("; this office has {} more", ours - theirs),
            (ours, theirs) if ours < theirs => format!("; the other one has {} more", theirs - ours),
            _ => String::new(),
        };
        writeln!(out, "{verdict} at record {}{ahead}", self.position)?;
        match self.parted_at {
            Some(position) => writeln!(out, "the logs differ from record {position} on"),
            None => Ok(()),
        }
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    if let Some(other) = args.other.as_ref().filter(|other| !other.exists()) {
        return Err(CommandError::not_found(format!("there is no folder or file {}", other.display())));
    }
    cx.call(diff_digest::Input { other: args.other, find: args.find })
}
