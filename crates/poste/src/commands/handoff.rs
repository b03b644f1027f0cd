use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::handoff::documents;
use poste_core::log::MessageNo;
use poste_core::store::tables::HandoffState;
use poste_core::views::{HandoffView, Handoffs};
use poste_verbs::handoff::accept::{All, Check};
use poste_verbs::handoff::export::Folder;
use poste_verbs::handoff::{Decided, accept, export, list, reject, show, withdraw};

use super::{ClaimArgs, SecretArgs, WriteArgs, handoff_create};
use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Hand over work with its files, checks and commands
///
/// A handoff is a message with a package. Its files are copied when it is created and verified when it is accepted.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
                        poste handoff create builder --task 'Implement the JWT service' --artifact docs/jwt.md --check 'Design understood'\n  \
                        poste handoff accept 12 --check 1 --as builder\n  poste handoff export 12 ./package")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: HandoffCommand,
}

#[derive(Debug, clap::Subcommand)]
enum HandoffCommand {
    /// Offer a package of work to an agent, a role or a capability
    #[command(after_help = "Examples:\n  \
                      poste handoff create builder --task 'Implement the JWT service' --completed 'The design' --artifact docs --as architect\n  \
                      poste handoff create role:builder --task 'Fix the login' --check 'All tests pass' --verify 'cargo test'")]
    Create(Box<handoff_create::Args>),
    /// Show a handoff and its state
    #[command(after_help = "Examples:\n  poste handoff show 12\n  poste handoff show 12 --json")]
    Show(NumberArgs),
    /// List handoffs, newest first
    #[command(
        after_help = "Examples:\n  poste handoff list --state pending\n  poste handoff list --to me --as builder"
    )]
    List(ListArgs),
    /// Accept a handoff once everything is checked
    #[command(after_help = "Examples:\n  poste handoff accept 12 --check 1,2 --verify --as builder\n  \
                      poste handoff accept 12 --check all --override 'No network here; I run them tonight' --as builder")]
    Accept(AcceptArgs),
    /// Reject a handoff with a reason
    #[command(after_help = "Example:\n  poste handoff reject 12 --reason 'The tests fail on main' --as builder")]
    Reject(RejectArgs),
    /// Withdraw your own handoff
    #[command(after_help = "Example:\n  poste handoff withdraw 12 --reason 'I finish it myself' --as architect")]
    Withdraw(WithdrawArgs),
    /// Write the package into a new folder
    ///
    /// The folder has HANDOFF.md, artifacts/, metadata.json and more.
    #[command(after_help = "Example:\n  poste handoff export 12 ./package")]
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
struct NumberArgs {
    /// Number of the handoff, which is that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only handoffs offered to this agent or one of its groups, or decided by it; me: yourself
    #[arg(long, value_name = "NAME|me")]
    to: Option<String>,
    /// Only handoffs offered by this agent; me: yourself
    #[arg(long, value_name = "NAME|me")]
    from: Option<String>,
    /// State: pending, accepted, rejected, withdrawn, failed, dead, expired or returned
    #[arg(long)]
    state: Option<HandoffState>,
    /// Maximum number of handoffs
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct RejectArgs {
    /// Number of the handoff, which is that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Reason for the sender
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
struct WithdrawArgs {
    /// Number of the handoff, which is that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Reason for the recipient
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// Number of the handoff, which is that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Folder to create; it must not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Debug, clap::Args)]
struct AcceptArgs {
    /// Number of the handoff, which is that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Number of a check you have made; several separated by commas, or all
    #[arg(long = "check", value_name = "N|all", value_delimiter = ',', value_parser = check)]
    checks: Vec<Check>,
    /// Run the commands of the handoff in your worktree; another agent wrote them
    #[arg(long)]
    verify: bool,
    /// Accept despite missing or failed checks, commands or gates; the reason is recorded
    #[arg(long = "override", value_name = "REASON")]
    reason: Option<String>,
    /// Refuse to accept if a file has changed since, even if its copy is intact
    #[arg(long)]
    strict: bool,
    /// Notes to the sender
    #[arg(long, value_name = "TEXT")]
    notes: Option<String>,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

fn check(text: &str) -> std::result::Result<Check, String> {
    match text.trim() {
        "all" => Ok(Check::All(All::All)),
        number => {
            number.parse().map(Check::One).map_err(|_| "expected the number of a check, such as 1, or all".to_owned())
        }
    }
}

impl Answer for HandoffView {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for (_, text) in documents(self).iter().filter(|(name, _)| *name == "HANDOFF.md") {
            write!(out, "{}", escape::block(text))?;
        }
        Ok(())
    }
}

impl Answer for Handoffs {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.handoffs.iter().map(|line| {
            let paint = match line.state {
                HandoffState::Accepted => Paint::Good,
                HandoffState::Pending => Paint::Attention,
                _ => Paint::Bad,
            };
            let by = line.decided_by.as_ref().map(|by| format!("by {by} ")).unwrap_or_default();
            let when = line.decided_at.unwrap_or(line.at);
            let overridden = if line.overridden { " (overridden)" } else { "" };
            vec![
                format!("#{}", line.number),
                format!("{}{overridden}", ui.paint(paint, line.state.word())),
                format!("{by}{}", ui.time(when)),
                format!("{} → {}", line.from, line.to),
                escape::line(&line.subject).into_owned(),
            ]
        });
        ui.lines(out, &["#", "STATE", "SINCE", "FROM → TO", "SUBJECT"], rows.collect())?;
        if self.more {
            writeln!(out, "(more not shown)")?;
        }
        Ok(())
    }
}

impl Answer for Decided {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let notified = self.message.map(|message| format!(", notified with #{message}")).unwrap_or_default();
        let again = if self.repeat { " (already done under this id)" } else { "" };
        writeln!(out, "#{} {}{notified}{again}", self.number, self.state)
    }
}

impl Answer for export::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let files = ui::count(self.artifacts, "artifact");
        let size = poste_core::text::size(self.bytes);
        writeln!(out, "created {}: {files}, {size}", escape::line(&self.folder))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        HandoffCommand::Create(args) => handoff_create::run(cx, *args),
        HandoffCommand::Show(args) => cx.call(show::Input { number: args.number }),
        HandoffCommand::List(ListArgs { to, from, state, limit }) => cx.call(list::Input { to, from, state, limit }),
        HandoffCommand::Accept(args) => {
            if args.reason.is_some() {
                let number = args.number.to_string();
                cx.confirm(&format!("accept handoff {number} without its checks"), &number)?;
            }
            cx.call(accept::Input {
                number: args.number,
                checks: args.checks,
                strict: args.strict,
                notes: args.notes,
                token: args.claim.token,
                id: args.claim.id,
                verify: args.verify,
                overridden: args.reason,
                secrets: args.secret.secrets(cx)?,
            })
        }
        HandoffCommand::Reject(args) => cx.call(reject::Input {
            number: args.number,
            reason: args.reason,
            token: args.claim.token,
            id: args.claim.id,
            secrets: args.secret.secrets(cx)?,
        }),
        HandoffCommand::Withdraw(args) => cx.call(withdraw::Input {
            number: args.number,
            reason: args.reason,
            id: args.write.id,
            secrets: args.write.secret.secrets(cx)?,
        }),
        HandoffCommand::Export(args) => {
            let folder = Folder { path: cx.cwd()?.join(&args.folder), name: args.folder.display().to_string() };
            cx.call(export::Input { number: args.number, folder: Some(folder) })
        }
    }
}
