use std::io::{self, Write};
use std::time::Duration;

use poste_core::log::{MessageNo, Position};
use poste_core::store::tables::{REPEAT, Refused};
use poste_core::text::RecordId;
use poste_core::views::{IdAnswer, ReservationView, ReservationWhy, VerifyReport, Why};
use poste_verbs::log::{show, verify, why, why_id, why_reservation};

use super::{log_digest, log_replay, tail};
use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Ui, escape};

/// Inspect the log, which records every change
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste log show\n  poste log why 12\n  poste log verify\n  poste log follow\n  \
                        poste log replay --until 120 --message 12\n  poste log diff-digest")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: LogCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LogCommand {
    /// Show records as they are stored
    #[command(
        after_help = "Examples:\n  poste log show\n  poste log show 42\n  poste log show --after 100 --limit 5 --json"
    )]
    Show(ShowArgs),
    /// Explain the state of a message, a reservation or a write
    #[command(after_help = "Examples:\n  poste log why 12\n  poste log why --reservation 3\n  \
                            poste log why --id 0190b5a2-7c1e-7a3b-9d4e-111111111111")]
    Why(WhyArgs),
    /// Verify chain and content, and the tables against the log
    #[command(after_help = "Example:\n  poste log verify")]
    Verify,
    /// Print each change as a sentence as it happens
    #[command(after_help = "Examples:\n  poste log follow\n  poste log follow --after 0 --for 5s")]
    Follow(FollowArgs),
    /// Show the office as it was after a record
    #[command(
        after_help = "Examples:\n  poste log replay --until 120\n  poste log replay --until 120 --inbox coder\n  \
                            poste log replay --until 120 --message 12"
    )]
    Replay(log_replay::Args),
    /// Compare table digests with the log or another copy
    #[command(after_help = "Examples:\n  poste log diff-digest\n  poste log diff-digest ../copy/.poste --find")]
    DiffDigest(log_digest::Args),
}

#[derive(Debug, clap::Args)]
struct FollowArgs {
    /// Start after this log position; otherwise now
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    after: Option<Position>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = crate::cli::duration)]
    length: Option<Duration>,
}

#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// Position of the only record to show
    #[arg(value_parser = crate::cli::position)]
    position: Option<Position>,
    /// Show records after this position; otherwise the newest
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    after: Option<Position>,
    /// Maximum number of records
    #[arg(long, default_value_t = show::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct WhyArgs {
    /// Message number
    #[arg(value_parser = crate::cli::number, required_unless_present_any = ["id", "reservation"])]
    number: Option<MessageNo>,
    /// Reservation number
    #[arg(long, value_name = "N", conflicts_with = "number")]
    reservation: Option<u64>,
    /// Idempotency key of a write, for example of one whose outcome is unknown
    #[arg(long, conflicts_with_all = ["number", "reservation"])]
    id: Option<RecordId>,
}

impl Answer for show::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for record in &self.records {
            let session = record.session.as_ref().map(|session| format!(" session {session}")).unwrap_or_default();
            let content = record.content_bytes.map(|bytes| format!("  +{bytes} bytes")).unwrap_or_default();
            let outcome = match &record.outcome {
                None => String::new(),
                Some(Refused { code, reason }) if code == REPEAT => format!("  {}", escape::line(reason)),
                Some(Refused { reason, .. }) => format!("  refused: {}", escape::line(reason)),
            };
            writeln!(
                out,
                "{}  {}  {}  {}{session}{}  {}{content}{outcome}",
                record.position,
                ui.time(record.at),
                record.name,
                record.actor,
                record.origin.text(),
                escape::json(record.header.get()),
            )?;
        }
        for malformed in &self.malformed {
            let (position, at, bytes) = (malformed.position, ui.time(malformed.at), malformed.bytes);
            writeln!(out, "{position}  {at}  malformed, {bytes} bytes: {}", escape::line(&malformed.reason))?;
        }
        Ok(())
    }
}

impl Answer for Why {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "#{}  {}", self.number, escape::line(&self.subject))?;
        let rows = self.lines.iter().map(|line| {
            vec![line.position.to_string(), ui.time(line.at), line.by.clone(), escape::line(&line.what).into_owned()]
        });
        ui.rows(out, &["RECORD", "WHEN", "BY", "WHAT"], rows.collect())
    }
}

impl Answer for ReservationWhy {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let ReservationView { number, holder, pattern, .. } = &self.reservation;
        writeln!(out, "reservation {number}  {holder}  {}", escape::line(pattern.as_str()))?;
        let rows = self.lines.iter().map(|line| {
            vec![line.position.to_string(), ui.time(line.at), line.by.clone(), escape::line(&line.what).into_owned()]
        });
        ui.rows(out, &["RECORD", "WHEN", "BY", "WHAT"], rows.collect())
    }
}

impl Answer for IdAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match (self.position, self.number) {
            (Some(position), Some(number)) => writeln!(out, "{} at record {position}, message #{number}", self.state),
            (Some(position), None) => {
                let reason = self.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
                writeln!(out, "{} at record {position}{}", self.state, escape::line(&reason))
            }
            (None, _) => writeln!(out, "absent: nothing is stored under this id, so it is safe to send it again"),
        }
    }
}

impl Answer for VerifyReport {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for problem in &self.problems {
            writeln!(out, "problem: {}", escape::line(&problem.what))?;
        }
        writeln!(out, "{}, chain {}", ui::count(self.records as usize, "record"), self.chain.short())?;
        let sound = if self.problems.is_empty() { "tables equal the folded log" } else { "not sound" };
        writeln!(out, "{sound}, digest {}", self.tables.short())
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        LogCommand::Show(ShowArgs { position, after, limit }) => cx.call(show::Input { position, after, limit }),
        LogCommand::Why(WhyArgs { id: Some(id), .. }) => cx.call(why_id::Input { id }),
        LogCommand::Why(WhyArgs { reservation: Some(reservation), .. }) => {
            cx.call(why_reservation::Input { reservation })
        }
        LogCommand::Why(WhyArgs { number, .. }) => cx.call(why::Input { number: number.unwrap_or_default() }),
        LogCommand::Verify => cx.call(verify::Input {}),
        LogCommand::Follow(args) => tail::follow_log(cx, args.after, args.length),
        LogCommand::Replay(args) => log_replay::run(cx, args),
        LogCommand::DiffDigest(args) => log_digest::run(cx, args),
    }
}
