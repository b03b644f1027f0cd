use std::io::{self, Write};

use poste_core::Address;
use poste_core::log::MessageNo;
use poste_core::store::tables::State;
use poste_core::text::Name;
use poste_core::views::DeadLetters;
use poste_verbs::dead::{drop, list};
use poste_verbs::model::sender;

use super::{WriteArgs, retry, track};
use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// List, retry or drop dead letters
///
/// A dead letter is a message that failed, died, expired or was returned.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste dead list\n  poste dead show 12\n  poste dead retry 12 --as lead\n  \
                        poste dead drop 12 --reason 'Superseded by #15' --as lead")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: DeadCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DeadCommand {
    /// List dead letters, newest first
    #[command(
        after_help = "Examples:\n  poste dead list\n  poste dead list --state expired --from lead\n  poste dead list --dropped"
    )]
    List(ListArgs),
    /// Show a dead letter with its history of attempts
    #[command(after_help = "Example:\n  poste dead show 12")]
    Show {
        /// Message number
        #[arg(value_parser = crate::cli::number)]
        number: MessageNo,
    },
    /// Retry a dead letter; same as `poste retry`
    #[command(after_help = "Examples:\n  poste dead retry 12 --as lead\n  poste dead retry 12 --to coder --as anna")]
    Retry(retry::Args),
    /// Drop a dead letter
    ///
    /// It is no longer listed, but stays in the log and can still be retried.
    #[command(after_help = "Example:\n  poste dead drop 12 --reason 'Superseded by #15' --as lead")]
    Drop(DropArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only dead letters in this state: failed, dead, expired or returned
    #[arg(long)]
    state: Option<State>,
    /// Only messages sent by this agent
    #[arg(long, value_name = "NAME")]
    from: Option<Name>,
    /// List dropped dead letters instead
    #[arg(long)]
    dropped: bool,
    /// Maximum number of dead letters
    #[arg(long, default_value_t = list::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(list::LIMIT_MAX)))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct DropArgs {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Only for this recipient
    #[arg(long, value_name = "ADDRESS")]
    to: Option<Address>,
    /// Reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

impl Answer for DeadLetters {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.letters.iter().map(|letter| {
            let why = match (&letter.said, letter.state) {
                (Some(said), _) => escape::line(said).into_owned(),
                (None, State::Dead) => format!("{} of {} attempts failed", letter.attempts, letter.max_attempts),
                (None, _) => letter.reason.map(|reason| reason.to_string().replace('_', " ")).unwrap_or_default(),
            };
            vec![
                format!("#{}", letter.number),
                ui.paint(Paint::Bad, letter.state.word()),
                ui.time(letter.ended_at),
                format!("{} → {}", sender::named(&letter.from, letter.trust), letter.recipient),
                escape::line(&letter.subject).into_owned(),
                why,
            ]
        });
        ui.lines(out, &["#", "STATE", "ENDED", "FROM → TO", "SUBJECT", "WHY"], rows.collect())?;
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

impl Answer for drop::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "#{}: {} dropped", self.number, ui::count(self.deliveries, "delivery"))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        DeadCommand::List(args) => {
            let ListArgs { state, from, dropped, limit } = args;
            cx.call(list::Input { state, from, dropped, limit })
        }
        DeadCommand::Show { number } => track::run(cx, track::Args::with_history(number)),
        DeadCommand::Retry(args) => retry::run(cx, args),
        DeadCommand::Drop(args) => {
            let secrets = args.write.secret.secrets(cx)?;
            cx.call(drop::Input { number: args.number, to: args.to, reason: args.reason, id: args.write.id, secrets })
        }
    }
}
