//! `poste handoff create`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use poste_core::Address;
use poste_core::fold::Effect;
use poste_core::handoff::{ContextLink, Package, VerifyCommand};
use poste_core::limits;
use poste_core::log::{Artifact, HandoffCreate, Intent, MessageNo, Position, Send};
use poste_core::office::Office;
use poste_core::store::artifact::Worktree;
use poste_core::text::{ContextName, Label, RecordId};
use poste_core::time::{When, parse_when};
use poste_core::vocabulary::Priority;
use schemars::JsonSchema;
use serde::Serialize;

use super::reply::prefixed;
use super::{SecretArgs, said};
use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::draft::read_body;
use crate::error::{CommandError, Kind};
use crate::ui::progress::Bar;
use crate::ui::{self, Answer, Ui};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Who it is for: a name, role:ROLE or can:CAPABILITY
    to: Address,
    /// What is to be done; - for stdin
    #[arg(long, value_name = "TEXT")]
    task: String,
    /// Something that is done already; may be repeated, as those below
    #[arg(long, value_name = "TEXT")]
    completed: Vec<String>,
    /// What the receiver should know
    #[arg(long, value_name = "TEXT")]
    background: Option<String>,
    /// A file to hand over, or a folder with all files below it: copied into the office
    #[arg(long, value_name = "PATH")]
    artifact: Vec<PathBuf>,
    /// A shared context to read
    #[arg(long, value_name = "NAME")]
    context: Vec<String>,
    /// A next step
    #[arg(long, value_name = "TEXT")]
    next: Vec<String>,
    /// Something that is known to be wrong
    #[arg(long, value_name = "TEXT")]
    issue: Vec<String>,
    /// A question
    #[arg(long, value_name = "TEXT")]
    question: Vec<String>,
    /// Something the receiver has to check before it can accept
    #[arg(long, value_name = "TEXT")]
    check: Vec<String>,
    /// A command that has to succeed in the receiver's worktree; words as in a shell, and no shell
    #[arg(long, value_name = "CMD")]
    verify: Vec<String>,
    /// As --verify, for a shell
    #[arg(long, value_name = "LINE")]
    verify_shell: Vec<String>,
    /// How long each command may take
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    verify_timeout: Duration,
    /// Take empty files along
    #[arg(long)]
    allow_empty: bool,
    /// Until when an answer is wanted: 30m, 2h, or a moment
    #[arg(long, value_name = "WHEN", default_value = "24h", value_parser = parse_when)]
    respond_by: When,
    /// Expires if nobody took it until then
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    expires: Option<When>,
    /// low, normal, high or urgent; otherwise the type's
    #[arg(long)]
    priority: Option<Priority>,
    /// The conversation to join; otherwise the answered one, or a new one
    #[arg(long, value_name = "LABEL")]
    conversation: Option<Label>,
    /// The message it answers
    #[arg(long, value_name = "N", value_parser = crate::cli::number)]
    reply_to: Option<MessageNo>,
    /// An id of your own: doing it again has no second effect
    #[arg(long, value_name = "ID")]
    id: Option<RecordId>,
    #[command(flatten)]
    secret: SecretArgs,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CreateAnswer {
    pub number: MessageNo,
    pub to: String,
    /// The folder the paths of the files are of.
    pub worktree: Option<String>,
    pub artifacts: Vec<Artifact>,
    pub bytes: u64,
    pub id: RecordId,
    pub position: Option<Position>,
    /// It was made before under this id; there is no second effect.
    pub repeat: bool,
}

impl Answer for CreateAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let again = if self.repeat { " (before, under this id)" } else { "" };
        let files = match self.artifacts.len() {
            0 => String::new(),
            count => format!(" with {}, {}", ui::count(count, "file"), poste_core::text::size(self.bytes)),
        };
        writeln!(out, "#{} offered to {}{files}{again}", self.number, self.to)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open_to_write()?;
    if let Some(before) = before(cx, &office, &args)? {
        return cx.ui.answer(&before);
    }
    let package = package(cx, &args, &office)?;
    let subject = prefixed("Handoff: ", &package.title());
    let content = package.content(subject);
    content.check().map_err(CommandError::usage)?;
    args.secret.check_as(&content, "handoff")?;
    let (worktree, artifacts) = gather(cx, &office, &args)?;
    let mail = Send {
        priority: args.priority,
        reply_to: args.reply_to,
        conversation: args.conversation.clone(),
        wants_response: Some(true),
        respond_by: Some(args.respond_by),
        expires: args.expires,
        artifacts: artifacts.clone(),
        ..Send::plain("handoff_request".parse()?, vec![args.to.clone()])
    };
    let header = HandoffCreate {
        mail,
        worktree: worktree.clone(),
        checks: count(package.checks.len()),
        verifies: count(package.verify.len()),
    };
    let proposal = cx.proposal(&office, Intent::HandoffCreate(header), Some(content), args.id)?;
    let (outcome, effect) = cx.decide(&mut office, &proposal).map_err(explain_size)?;
    let Effect::Sent(sent) = effect else {
        return Err(CommandError::new(Kind::Internal, "the office took the handoff for something else"));
    };
    cx.ui.answer(&CreateAnswer {
        number: sent.number,
        to: args.to.to_string(),
        worktree,
        bytes: artifacts.iter().filter_map(|artifact| artifact.size).sum(),
        artifacts,
        id: outcome.id,
        position: outcome.position,
        repeat: outcome.repeat,
    })?;
    cx.ui.say(format!("see what became of it: poste handoff show {}", sent.number));
    Ok(())
}

fn count(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// Paths and digests of a thousand files may be more than one record holds.
fn explain_size(error: CommandError) -> CommandError {
    match error.message.starts_with("the envelope has") {
        true => error.hint("the names of so many files do not fit into one record: hand over an archive of them"),
        false => error,
    }
}

/// What was made under this id already. The files may have changed since; what was handed over has not.
fn before(cx: &Cx, office: &Office, args: &Args) -> Result<Option<CreateAnswer>> {
    let Some(id) = &args.id else { return Ok(None) };
    let Some((position, Intent::HandoffCreate(create))) = super::recorded(cx, office, id)? else { return Ok(None) };
    let tables = office.store().tables()?;
    let Some(number) = tables.id(id)?.and_then(|row| row.message) else { return Ok(None) };
    let task = read_task(cx, &args.task)?;
    let is_same = create.mail.to == [args.to.clone()]
        && super::handoff::find(office, number)?.package.is_none_or(|package| package.task == task);
    Ok(is_same.then(|| CreateAnswer {
        number,
        to: args.to.to_string(),
        worktree: create.worktree,
        bytes: create.mail.artifacts.iter().filter_map(|artifact| artifact.size).sum(),
        artifacts: create.mail.artifacts,
        id: id.clone(),
        position: Some(position),
        repeat: true,
    }))
}

fn read_task(cx: &Cx, task: &str) -> Result<String> {
    let bytes = read_body(cx, Some(task.to_owned()))?;
    String::from_utf8(bytes).map_err(|_| CommandError::usage("the task is no UTF-8"))
}

fn package(cx: &Cx, args: &Args, office: &Office) -> Result<Package> {
    let task = read_task(cx, &args.task)?;
    said("--task", &task)?;
    let texts = [
        ("--completed", &args.completed),
        ("--next", &args.next),
        ("--issue", &args.issue),
        ("--question", &args.question),
        ("--check", &args.check),
        ("--context", &args.context),
    ];
    for (option, texts) in texts {
        for text in texts {
            said(option, text)?;
        }
    }
    let max = limits::HANDOFF_CHECKS_MAX as usize;
    if args.check.len() > max {
        return Err(CommandError::usage(format!("more than {max} checks")));
    }
    Ok(Package {
        task,
        completed: args.completed.clone(),
        background: args.background.clone(),
        contexts: args.context.iter().map(|name| context_link(office, name)).collect::<Result<_>>()?,
        next: args.next.clone(),
        issues: args.issue.clone(),
        questions: args.question.clone(),
        checks: args.check.clone(),
        verify: commands(args)?,
    })
}

/// The version a context has now: what the receiver may have to compare with.
fn context_link(office: &Office, name: &str) -> Result<ContextLink> {
    let known: ContextName = name.parse()?;
    match office.store().tables()?.context(&known)? {
        Some(context) => Ok(ContextLink { name: name.to_owned(), version: Some(context.version) }),
        None => Err(super::context::unknown(office, &known)?),
    }
}

fn commands(args: &Args) -> Result<Vec<VerifyCommand>> {
    let max = limits::HANDOFF_VERIFIES_MAX as usize;
    if args.verify.len() + args.verify_shell.len() > max {
        return Err(CommandError::usage(format!("more than {max} commands")));
    }
    let timeout_ms = u64::try_from(args.verify_timeout.as_millis()).unwrap_or(u64::MAX);
    let mut commands = Vec::new();
    for line in &args.verify {
        let argv = poste_run::words(line).ok_or_else(|| {
            CommandError::usage(format!(
                "--verify {}: no words, or a quote that is not closed",
                poste_core::text::quoted(line)
            ))
        })?;
        commands.push(VerifyCommand { argv, shell: false, timeout_ms });
    }
    for line in &args.verify_shell {
        said("--verify-shell", line)?;
        commands.push(VerifyCommand { argv: vec![line.clone()], shell: true, timeout_ms });
    }
    Ok(commands)
}

/// Looks at all files before the first one is copied.
fn gather(cx: &Cx, office: &Office, args: &Args) -> Result<(Option<String>, Vec<Artifact>)> {
    if args.artifact.is_empty() {
        return Ok((None, Vec::new()));
    }
    let blobs = office.store().blobs().ok_or_else(|| CommandError::usage("this office keeps no blobs"))?;
    let tree: Worktree = cx.worktree(office, &cx.speaker()?)?;
    let listed = tree.list(&cx.cwd()?, &args.artifact, args.allow_empty).map_err(suggest_empty)?;
    for (folder, files) in &listed.folders {
        cx.ui.say(format!("{folder}: {}", ui::count(*files, "file")));
    }
    if listed.is_empty() {
        return Err(CommandError::new(Kind::Refused, "there is no file in what --artifact names"));
    }
    let mut bar = Bar::new(&cx.ui);
    let copied = tree.copy(&listed, blobs, &mut |progress| bar.show(progress));
    drop(bar);
    Ok((Some(tree.root().display().to_string()), copied?))
}

fn suggest_empty(error: poste_core::Error) -> CommandError {
    let is_empty = match &error {
        poste_core::Error::Artifacts(problems) => problems.iter().any(|problem| problem.what == "it is empty"),
        _ => false,
    };
    let error = CommandError::from(error);
    if is_empty { error.hint("if empty files belong to it: --allow-empty") } else { error }
}
