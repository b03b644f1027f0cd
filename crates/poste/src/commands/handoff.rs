use std::io::{self, Write};
use std::path::PathBuf;

use poste_core::fold::Effect;
use poste_core::handoff::{HandoffAnswer, documents};
use poste_core::log::{Ends, EndsHow, HandoffWithdraw, Intent, MessageNo, Position, Send};
use poste_core::office::Office;
use poste_core::store::tables::HandoffState;
use poste_core::text::{Name, RecordId};
use poste_core::views::{self, HandoffQuery, HandoffView, Handoffs};
use poste_core::{Error, store};
use schemars::JsonSchema;
use serde::Serialize;

use super::reply::prefixed;
use super::{ClaimArgs, SecretArgs, handoff_accept, handoff_create, said};
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::{no_message, unknown_agent};
use crate::ui::progress::Bar;
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Hand work over with everything it needs: files, checks, commands that must succeed
///
/// A handoff is a message with a package. Its files are copied when it is made and checked again when it is accepted.
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
    /// Show one, with what became of it
    #[command(after_help = "Examples:\n  poste handoff show 12\n  poste handoff show 12 --json")]
    Show(NumberArgs),
    /// List handoffs, the newest first
    #[command(
        after_help = "Examples:\n  poste handoff list --state pending\n  poste handoff list --to me --as builder"
    )]
    List(ListArgs),
    /// Take the work over, once everything is checked
    #[command(after_help = "Examples:\n  poste handoff accept 12 --check 1,2 --verify --as builder\n  \
                      poste handoff accept 12 --check all --override 'No network here; I run them tonight' --as builder")]
    Accept(handoff_accept::Args),
    /// Do not take it, and say why
    #[command(after_help = "Example:\n  poste handoff reject 12 --reason 'The tests fail on main' --as builder")]
    Reject(RejectArgs),
    /// Take your own offer back
    #[command(after_help = "Example:\n  poste handoff withdraw 12 --reason 'I finish it myself' --as architect")]
    Withdraw(WithdrawArgs),
    /// Write the package into a new folder: HANDOFF.md, artifacts/, metadata.json and more
    #[command(after_help = "Example:\n  poste handoff export 12 ./package")]
    Export(ExportArgs),
}

#[derive(Debug, clap::Args)]
struct NumberArgs {
    /// The handoff's number: that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Only those offered to this agent or a group of it, or decided by it; me: the speaker
    #[arg(long, value_name = "NAME|me")]
    to: Option<String>,
    /// Only those offered by this agent; me: the speaker
    #[arg(long, value_name = "NAME|me")]
    from: Option<String>,
    /// pending, accepted, rejected, withdrawn, failed, dead, expired or returned
    #[arg(long)]
    state: Option<HandoffState>,
    /// At most so many
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
struct RejectArgs {
    /// The handoff's number: that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Why; its sender reads it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    #[command(flatten)]
    claim: ClaimArgs,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
struct WithdrawArgs {
    /// The handoff's number: that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// Why; its receiver reads it
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, clap::Args)]
struct ExportArgs {
    /// The handoff's number: that of its message
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
    /// The folder to make; it must not be there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
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

/// The answer of commands that decide about a handoff.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct DecisionAnswer {
    pub number: MessageNo,
    pub state: HandoffState,
    /// The message that tells the sender; null of a withdrawal, of which the office tells the receiver.
    pub message: Option<MessageNo>,
    pub position: Option<Position>,
    /// It was decided before, under the same id.
    pub repeat: bool,
}

impl Answer for DecisionAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let told = self.message.map(|message| format!(", told with #{message}")).unwrap_or_default();
        let again = if self.repeat { " (before, under this id)" } else { "" };
        writeln!(out, "#{} {}{told}{again}", self.number, self.state)
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ExportAnswer {
    pub number: MessageNo,
    pub folder: String,
    /// Files in artifacts/.
    pub artifacts: usize,
    pub bytes: u64,
}

impl Answer for ExportAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let files = ui::count(self.artifacts, "artifact");
        let size = poste_core::text::size(self.bytes);
        writeln!(out, "made {}: {files}, {size}", escape::line(&self.folder))
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        HandoffCommand::Create(args) => handoff_create::run(cx, *args),
        HandoffCommand::Show(args) => show(cx, &args),
        HandoffCommand::List(args) => list(cx, args),
        HandoffCommand::Accept(args) => handoff_accept::run(cx, args),
        HandoffCommand::Reject(args) => reject(cx, args),
        HandoffCommand::Withdraw(args) => withdraw(cx, args),
        HandoffCommand::Export(args) => export(cx, args),
    }
}

/// The handoff of a number, or what is wrong with the number.
pub(crate) fn find(office: &Office, number: MessageNo) -> Result<HandoffView> {
    if let Some(view) = views::handoff(office.store(), number)? {
        return Ok(view);
    }
    if views::message(office.store(), number)?.is_none() {
        return Err(no_message(number));
    }
    let error = CommandError::not_found(format!("message {number} is no handoff")).code("no_handoff");
    Err(error.hint(format!("read it: poste read {number}; see the handoffs: poste handoff list")))
}

fn show(cx: &mut Cx, args: &NumberArgs) -> Result {
    let mut office = cx.open()?;
    let view = find(&office, args.number)?;
    cx.ui.answer(&view)?;
    // Whoever it is for has read it now; anybody else only looked.
    if cx.optional_speaker().is_some() {
        let reader = cx.agent(&office)?;
        if views::is_addressed_to(office.store(), &reader, args.number)? {
            cx.mark_shown(&mut office, vec![args.number])?;
        }
    }
    Ok(())
}

fn list(cx: &mut Cx, args: ListArgs) -> Result {
    let office = cx.open()?;
    let named = |name: Option<String>| -> Result<Option<Name>> {
        match name.as_deref() {
            None => Ok(None),
            Some("me") => cx.speaker().map(Some),
            Some(name) => Ok(Some(name.parse()?)),
        }
    };
    let from = named(args.from)?;
    let to = named(args.to)?;
    for name in from.iter().chain(&to) {
        if office.agent(name)?.is_none() {
            return Err(unknown_agent(&office, name)?);
        }
    }
    let to = to.map(|name| office.agent(&name)).transpose()?.flatten();
    let query = HandoffQuery { from, to, state: args.state, limit: args.limit.into() };
    let page = views::handoffs(office.store(), &query)?;
    if page.handoffs.is_empty() {
        cx.ui.say("no such handoff");
    }
    cx.ui.answer(&page)
}

/// The mail that answers a handoff: to its sender, and it ends the request.
pub(crate) fn answer_mail(number: MessageNo, token: Option<Position>, kind: &str) -> Result<Send> {
    let ends = Ends { message: number, how: EndsHow::Replied, token };
    Ok(Send { reply_to: Some(number), ends: Some(ends), ..Send::plain(kind.parse()?, Vec::new()) })
}

fn reject(cx: &mut Cx, args: RejectArgs) -> Result {
    let mut office = cx.open_to_write()?;
    let view = find(&office, args.number)?;
    let reason = said("--reason", &args.reason)?.to_owned();
    let answer = HandoffAnswer {
        handoff: args.number,
        notes: Some(reason),
        checked: Vec::new(),
        verified: Vec::new(),
        gates: Vec::new(),
        changed: Vec::new(),
        overridden: None,
    };
    let mail = answer_mail(args.number, args.claim.token, "handoff_rejected")?;
    let (header, content) = answer.reject(mail, prefixed("Rejected: ", &view.subject));
    args.secret.check_as(&content, "reason")?;
    let proposal = cx.proposal(&office, Intent::HandoffReject(header), Some(content), args.claim.id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal)?;
    cx.ui.answer(&DecisionAnswer {
        number: args.number,
        state: HandoffState::Rejected,
        message: effect.message(),
        position: outcome.position,
        repeat: outcome.repeat,
    })
}

fn withdraw(cx: &mut Cx, args: WithdrawArgs) -> Result {
    let mut office = cx.open_to_write()?;
    let content = match &args.reason {
        Some(reason) => Some(args.secret.text("reason", said("--reason", reason)?)?),
        None => None,
    };
    let intent = Intent::HandoffWithdraw(HandoffWithdraw { message: args.number });
    let proposal = cx.proposal(&office, intent, content, args.id)?;
    let (outcome, _): (_, Effect) = cx.decide(&mut office, &proposal)?;
    cx.ui.answer(&DecisionAnswer {
        number: args.number,
        state: HandoffState::Withdrawn,
        message: None,
        position: outcome.position,
        repeat: outcome.repeat,
    })
}

fn export(cx: &mut Cx, args: ExportArgs) -> Result {
    let office = cx.open()?;
    let view = find(&office, args.number)?;
    if let Some(redaction) = view.redacted.as_ref().filter(|_| !view.artifacts.is_empty()) {
        let message = format!("handoff {} was redacted by {}, and its copies with it", args.number, redaction.by);
        return Err(CommandError::new(Kind::Refused, message));
    }
    let blobs = office.store().blobs().ok_or_else(|| CommandError::usage("this office keeps no blobs"))?;
    let folder = cx.cwd()?.join(&args.folder);
    let mut bar = Bar::new(&cx.ui);
    let texts = documents(&view);
    let exported = store::package::export(&folder, office.path()?, &texts, &view.artifacts, blobs, &mut |progress| {
        bar.show(progress);
    });
    drop(bar);
    exported.map_err(|error| match error {
        error @ Error::Occupied(_) => CommandError::from(error).hint("give a folder that is not there yet"),
        error => error.into(),
    })?;
    cx.note_stored(format!("the package {}", folder.display()));
    cx.ui.answer(&ExportAnswer {
        number: args.number,
        folder: args.folder.display().to_string(),
        artifacts: view.artifacts.len(),
        bytes: view.artifacts.iter().filter_map(|artifact| artifact.size).sum(),
    })
}
