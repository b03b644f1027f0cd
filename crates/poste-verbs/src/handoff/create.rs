//! Offers a package of work to an agent, a role or a capability.

use std::path::PathBuf;

use poste_core::Address;
use poste_core::fold::Effect;
use poste_core::handoff::{ContextLink, Package, VerifyCommand};
use poste_core::limits::{self, HOUR_MS};
use poste_core::log::{Artifact, HandoffCreate, Intent, MessageNo, Position, Send};
use poste_core::store::artifact::FileFault;
use poste_core::text::{ContextName, Label, RecordId, count, quoted};
use poste_core::time::When;
use poste_core::views;
use poste_core::vocabulary::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find;
use crate::draft::{prefixed, said};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Kind, Result, Touch, Verb, context, input};

/// The default deadline for an answer.
const RESPOND_BY_DEFAULT: When = When::InMs(24 * HOUR_MS);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A name, role:ROLE or can:CAPABILITY
    pub to: Address,
    /// What to do
    pub task: String,
    /// What is already done
    #[serde(default)]
    pub completed: Vec<String>,
    /// What the recipient should know
    pub background: Option<String>,
    /// Files or folders to hand over, copied into the office
    #[serde(default)]
    pub artifacts: Vec<PathBuf>,
    /// Shared contexts to read
    #[serde(default)]
    pub contexts: Vec<String>,
    /// Next steps
    #[serde(default)]
    pub next: Vec<String>,
    /// Known issues
    #[serde(default)]
    pub issues: Vec<String>,
    /// Open questions
    #[serde(default)]
    pub questions: Vec<String>,
    /// What the recipient must check before accepting
    #[serde(default)]
    pub checks: Vec<String>,
    /// Allow empty files
    #[serde(default)]
    pub allow_empty: bool,
    /// Deadline for an answer: 30m, 2h, or a timestamp; default: 24h
    #[serde(default, deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub respond_by: Option<When>,
    /// When it expires unless it was taken: 30m, 2h, or a timestamp
    #[serde(default, deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<When>,
    /// Importance; default: that of the type
    pub priority: Option<Priority>,
    /// The conversation to join; default: that of the answered message, or a new one
    pub conversation: Option<Label>,
    /// The message it answers
    pub reply_to: Option<MessageNo>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    /// Commands that must succeed in the recipient's worktree. Only the command line can set this.
    #[serde(skip)]
    pub verify: Commands,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// Commands for the recipient to run.
#[derive(Debug, Default)]
pub struct Commands {
    /// Words as in a shell, run without one.
    pub words: Vec<String>,
    /// Lines for a shell.
    pub shell: Vec<String>,
    /// Timeout of each command.
    pub timeout_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    /// The handoff's number.
    pub number: MessageNo,
    /// The recipient.
    pub to: String,
    /// The folder that the paths of the files are relative to.
    pub worktree: Option<String>,
    /// The files that were handed over.
    pub artifacts: Vec<Artifact>,
    /// Their total size in bytes.
    pub bytes: u64,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// Log position of the record.
    pub position: Option<Position>,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

impl Verb for Input {
    const NAME: &'static str = "handoff create";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[
        ("artifacts", Touch::ReadsWorktree),
        ("allow_empty", Touch::Nothing),
        ("verify", Touch::RunsCommand),
        ("verify_shell", Touch::RunsCommand),
    ];
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        if let Some(before) = before(desk, &self)? {
            return Ok(Answered::new(before));
        }
        let package = package(desk, &self)?;
        let content = package.content(prefixed("Handoff: ", &package.title()));
        content.check().map_err(Error::usage)?;
        self.secrets.check_as(&content, "handoff")?;
        let (worktree, artifacts) = gather(desk, &self)?;
        let mail = Send {
            priority: self.priority,
            reply_to: self.reply_to,
            conversation: self.conversation,
            wants_response: Some(true),
            respond_by: Some(self.respond_by.unwrap_or(RESPOND_BY_DEFAULT)),
            expires: self.expires,
            artifacts: artifacts.clone(),
            ..Send::plain("handoff_request".parse()?, vec![self.to.clone()])
        };
        let header = HandoffCreate {
            mail,
            worktree: worktree.clone(),
            checks: counted(package.checks.len()),
            verifies: counted(package.verify.len()),
        };
        let proposal = desk.proposal(Intent::HandoffCreate(header), Some(content), self.id)?;
        let (outcome, effect) = desk.decide(&proposal).map_err(explain_size)?;
        let Effect::Sent(sent) = effect else { return Err(Error::unexpected_effect("the handoff")) };
        let number = sent.number;
        let answer = Answer {
            number,
            to: self.to.to_string(),
            worktree,
            bytes: artifacts.iter().filter_map(|artifact| artifact.size).sum(),
            artifacts,
            id: outcome.id,
            position: outcome.position,
            repeat: outcome.repeat,
        };
        Ok(Answered::new(answer).next(note!("see the outcome: " [handoff show, number = number])))
    }
}

fn counted(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// Adds a hint if the paths and digests of the files do not fit into one record.
fn explain_size(error: Error) -> Error {
    match error.message.starts_with("the envelope has") {
        true => error.hint("too many file names for one record: hand over an archive of the files"),
        false => error,
    }
}

/// The handoff that was made with this id, if any. The files may have changed since, but the copies have not.
fn before(desk: &Desk<'_>, input: &Input) -> Result<Option<Answer>> {
    let Some(id) = &input.id else { return Ok(None) };
    let Some((position, Intent::HandoffCreate(create))) = desk.recorded(id)? else { return Ok(None) };
    let Some(number) = views::message_of_id(desk.office.store(), id)? else { return Ok(None) };
    let is_same = create.mail.to == [input.to.clone()]
        && find(desk.office, number)?.package.is_none_or(|package| package.task == input.task);
    Ok(is_same.then(|| Answer {
        number,
        to: input.to.to_string(),
        worktree: create.worktree,
        bytes: create.mail.artifacts.iter().filter_map(|artifact| artifact.size).sum(),
        artifacts: create.mail.artifacts,
        id: id.clone(),
        position: Some(position),
        repeat: true,
    }))
}

fn package(desk: &Desk<'_>, input: &Input) -> Result<Package> {
    said("task", &input.task)?;
    let texts = [
        ("completed", &input.completed),
        ("next", &input.next),
        ("issues", &input.issues),
        ("questions", &input.questions),
        ("checks", &input.checks),
        ("contexts", &input.contexts),
    ];
    for (option, texts) in texts {
        for text in texts {
            said(option, text)?;
        }
    }
    let max = limits::HANDOFF_CHECKS_MAX as usize;
    if input.checks.len() > max {
        return Err(Error::usage(format!("more than {max} checks")));
    }
    Ok(Package {
        task: input.task.clone(),
        completed: input.completed.clone(),
        background: input.background.clone(),
        contexts: input.contexts.iter().map(|name| context_link(desk, name)).collect::<Result<_>>()?,
        next: input.next.clone(),
        issues: input.issues.clone(),
        questions: input.questions.clone(),
        checks: input.checks.clone(),
        verify: commands(&input.verify)?,
    })
}

/// A link to the current version of a context, so that the recipient can see later changes.
fn context_link(desk: &Desk<'_>, name: &str) -> Result<ContextLink> {
    let known: ContextName = name.parse()?;
    match views::newest_version(desk.office.store(), &known)? {
        Some(version) => Ok(ContextLink { name: name.to_owned(), version: Some(version) }),
        None => Err(context::unknown(desk.office, &known)?),
    }
}

fn commands(asked: &Commands) -> Result<Vec<VerifyCommand>> {
    let max = limits::HANDOFF_VERIFIES_MAX as usize;
    if asked.words.len() + asked.shell.len() > max {
        return Err(Error::usage(format!("more than {max} commands")));
    }
    let timeout_ms = asked.timeout_ms;
    let mut commands = Vec::new();
    for line in &asked.words {
        let argv = poste_run::words(line).ok_or_else(|| {
            let quoted = quoted(line);
            Error::worded(Kind::Usage, note!({verify} " {quoted}: empty, or a quote is not closed"))
        })?;
        commands.push(VerifyCommand { argv, shell: false, timeout_ms });
    }
    for line in &asked.shell {
        said("verify_shell", line)?;
        commands.push(VerifyCommand { argv: vec![line.clone()], shell: true, timeout_ms });
    }
    Ok(commands)
}

/// Checks all files before it copies the first one.
fn gather(desk: &mut Desk<'_>, input: &Input) -> Result<(Option<String>, Vec<Artifact>)> {
    if input.artifacts.is_empty() {
        return Ok((None, Vec::new()));
    }
    let tree = desk.worktree()?;
    let listed = tree.list(tree.root(), &input.artifacts, input.allow_empty).map_err(suggest_empty)?;
    for (folder, files) in &listed.folders {
        desk.say(format!("{folder}: {}", count(*files, "file")));
    }
    if listed.is_empty() {
        return Err(Error::worded(Kind::Refused, note!("no files in the folders that " {artifacts} " names")));
    }
    let (office, mut watched) = desk.watched_office();
    let blobs = office.store().blobs().ok_or_else(|| Error::usage("this office does not store blobs"))?;
    let copied = tree.copy(&listed, blobs, input.secrets.are_allowed(), &mut watched)?;
    Ok((Some(tree.root().display().to_string()), copied))
}

fn suggest_empty(error: poste_core::Error) -> Error {
    let is_empty = match &error {
        poste_core::Error::Artifacts(problems) => problems.iter().any(|problem| problem.what == FileFault::Empty),
        _ => false,
    };
    let error = Error::from(error);
    if is_empty { error.hint(note!("to include empty files: " {allow_empty = true})) } else { error }
}
