use std::io::{self, Write};

use poste_core::views::{self, ReservationView, Reservations, ReservationsQuery};

use super::reserve::{left, reason};
use crate::Result;
use crate::context::Cx;
use crate::paths::Top;
use crate::ui::{Answer, Ui, escape};

/// Show who has reserved which paths
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste reservations\n  poste reservations --mine --as coder\n  \
                        poste reservations --path src/auth/login.rs\n  poste reservations --all --json")]
pub(crate) struct Args {
    /// Also those that are over, the newest first
    #[arg(long)]
    all: bool,
    /// Only the speaker's own
    #[arg(long)]
    mine: bool,
    /// Only those that cover this path, or something below it; may be repeated
    #[arg(long, value_name = "PATH")]
    path: Vec<String>,
    /// At most so many
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
                if held.shared { "shared" } else { "alone" }.to_owned(),
                when(ui, held),
                escape::line(&reason(held)).into_owned(),
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
    let office = cx.open()?;
    let holder = if args.mine { Some(cx.agent(&office)?.name) } else { None };
    let touching = match args.path.as_slice() {
        [] => Vec::new(),
        paths => {
            let top = Top::find(cx, &office)?;
            paths.iter().map(|path| top.touched(path)).collect::<Result<_>>()?
        }
    };
    let is_search = !args.path.is_empty();
    let query = ReservationsQuery { holder, touching, past: args.all, limit: args.limit.into() };
    let found = views::reservations(office.store(), &query)?;
    if found.reservations.is_empty() {
        cx.ui.say(if is_search { "nobody has reserved it" } else { "nothing is reserved" });
    }
    cx.ui.answer(&found)
}
