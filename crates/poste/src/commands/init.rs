use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::store::discover;
use poste_verbs::init;

use crate::Result;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui, escape};

/// Create an office for this project
///
/// The office goes into the top folder of the git repository (of its main worktree, so that all worktrees share it),
/// or into the current folder if there is no repository. Running it again is harmless.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste init\n  poste init --in ~/shop")]
pub(crate) struct Args {
    /// Folder to create the office in
    #[arg(long = "in", value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl Answer for init::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let what = if self.made { "made the office" } else { "there is an office already:" };
        writeln!(out, "{what} {}", escape::line(&self.office))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let place = match (args.folder, cx.explicit_office()) {
        (Some(folder), _) => cx.place_at(folder.join(discover::FOLDER)),
        (None, Some(path)) => cx.place_at(path),
        (None, None) => cx.place_at(discover::place(&cx.cwd()?)),
    };
    let parent = place.path.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(CommandError::not_found(format!("there is no folder {}", parent.display())));
    }
    let hidden = discover::find(&cx.cwd()?).filter(|above| *above != place.path);
    cx.print_answer(init::init(&place, init::Input { hidden })?)
}
