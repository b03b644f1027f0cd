use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::views::DigestDiff;
use poste_verbs::log::diff_digest;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
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
    cx.call(diff_digest::Input { other: args.other, find: args.find })
}
