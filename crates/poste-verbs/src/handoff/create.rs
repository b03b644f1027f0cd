//! Offers a package of work to an agent, a role or a capability.

use std::path::PathBuf;

use poste_core::Address;
use poste_core::fold::Effect;
use poste_core::handoff::{ContextLink, Package, VerifyCommand};
use poste_core::limits::{self, HOUR_MS};
use poste_core::log::{Artifact, HandoffCreate, Intent, MessageNo, Position, Send};
use poste_core::text::{ContextName, Label, RecordId, count, quoted};
use poste_core::time::When;
use poste_core::views;
use poste_core::vocabulary::Priority;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::find;
use crate::draft::{prefixed, said};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Kind, Result, Verb, context, input};

/// When an answer is wanted unless a time is given.
const RESPOND_BY_DEFAULT: When = When::InMs(24 * HOUR_MS);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A name, role:ROLE or can:CAPABILITY
    pub to: Address,
    /// What is to be done
    pub task: String,
    /// What is done already
    #[serde(default)]
    pub completed: Vec<String>,
    /// What the receiver should know
    pub background: Option<String>,
    /// Files to hand over, or folders with all files below them: copied into the office
    #[serde(default)]
    pub artifacts: Vec<PathBuf>,
    /// Shared contexts to read
    #[serde(default)]
    pub contexts: Vec<String>,
    /// Next steps
    #[serde(default)]
    pub next: Vec<String>,
    /// What is known to be wrong
    #[serde(default)]
    pub issues: Vec<String>,
    #[serde(default)]
    pub questions: Vec<String>,
    /// What the receiver has to check before it can accept
    #[serde(default)]
    pub checks: Vec<String>,
    /// Take empty files along
    #[serde(default)]
    pub allow_empty: bool,
    /// Until when an answer is wanted: 30m, 2h, or a moment; otherwise 24h
    #[serde(default, deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub respond_by: Option<When>,
    /// Expires if nobody took it until then
    #[serde(default, deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<When>,
    pub priority: Option<Priority>,
    pub conversation: Option<Label>,
    /// The message it answers
    pub reply_to: Option<MessageNo>,
    pub id: Option<RecordId>,
    /// What has to succeed in the receiver's worktree. Others run it, so only a command line may ask for it.
    #[serde(skip)]
    pub verify: Commands,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// Commands for the receiver to run.
#[derive(Debug, Default)]
pub struct Commands {
    /// Words as in a shell, and no shell.
    pub words: Vec<String>,
    /// Lines for a shell.
    pub shell: Vec<String>,
    /// How long each may take.
    pub timeout_ms: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
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

impl Verb for Input {
    const NAME: &'static str = "handoff create";
    const ACCESS: Access = Access::Writes;
    const BY_HAND: &'static [&'static str] = &["verify", "verify_shell"];
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
        let Effect::Sent(sent) = effect else { return Err(Error::odd_effect("the handoff")) };
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
        Ok(Answered::new(answer).next(note!("see what became of it: " [handoff show, number = number])))
    }
}

fn counted(items: usize) -> u32 {
    u32::try_from(items).unwrap_or(u32::MAX)
}

/// Paths and digests of a thousand files may be more than one record holds.
fn explain_size(error: Error) -> Error {
    match error.message.starts_with("the envelope has") {
        true => error.hint("the names of so many files do not fit into one record: hand over an archive of them"),
        false => error,
    }
}

/// What was made under this id already. The files may have changed since; what was handed over has not.
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

/// The version a context has now: what the receiver may have to compare with.
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
            Error::worded(Kind::Usage, note!({verify} " {quoted}: no words, or a quote that is not closed"))
        })?;
        commands.push(VerifyCommand { argv, shell: false, timeout_ms });
    }
    for line in &asked.shell {
        said("verify_shell", line)?;
        commands.push(VerifyCommand { argv: vec![line.clone()], shell: true, timeout_ms });
    }
    Ok(commands)
}

/// Looks at all files before the first one is copied.
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
        return Err(Error::worded(Kind::Refused, note!("there is no file in what " {artifacts} " names")));
    }
    let (office, mut watched) = desk.watched_office();
    let blobs = office.store().blobs().ok_or_else(|| Error::usage("this office keeps no blobs"))?;
    let copied = tree.copy(&listed, blobs, &mut watched)?;
    Ok((Some(tree.root().display().to_string()), copied))
}

fn suggest_empty(error: poste_core::Error) -> Error {
    let is_empty = match &error {
        poste_core::Error::Artifacts(problems) => problems.iter().any(|problem| problem.what == "it is empty"),
        _ => false,
    };
    let error = Error::from(error);
    if is_empty { error.hint(note!("if empty files belong to it: " {allow_empty = true})) } else { error }
}
