use std::io::{self, Write};

use poste_connect::paths::Top;
use poste_core::views::{ReservationView, Reservations};
use poste_verbs::reservation::{list, reason};

use super::reserve::left;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// List reserved paths with their holders
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste reservations\n  poste reservations --mine --as coder\n  \
                        poste reservations --path src/auth/login.rs\n  poste reservations --all --json")]
pub(crate) struct Args {
    /// Include reservations that have ended, newest first
    #[arg(long)]
    all: bool,
    /// Only your own reservations
    #[arg(long)]
    mine: bool,
    /// Only reservations that cover this path or anything below it; may be repeated
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// Maximum number of reservations
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: u16,
}

impl Answer for Reservations {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.reservations.iter().map(|held| {
            vec![
                held.number.to_string(),
                escape::line(held.pattern.as_str()).into_owned(),
                held.holder.to_string(),
                if held.shared { "shared" } else { "exclusive" }.to_owned(),
                when(ui, held),
                escape::line(&reason(held).unwrap_or_else(ToOwned::to_owned)).into_owned(),
            ]
        });
        ui.rows(out, &["NO", "PATHS", "HOLDER", "HOW", "WHEN", "WHY"], rows.collect())?;
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

fn when(ui: &Ui, held: &ReservationView) -> String {
    match &held.ended {
        Some(ended) => format!("{} {}", ended.reason, ui.time(ended.at)),
        None => left(ui, held),
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let Args { all, mine, path, limit } = args;
    let paths = match path.as_slice() {
        [] => Vec::new(),
        paths => {
            let top = Top::find(cx.cwd()?, &cx.office()?)?;
            top.paths(paths)?
        }
    };
    cx.call(list::Input { all, mine, paths, limit })
}
