//! A message on its way from arguments or a line of JSON to a proposal.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use poste_core::Address;
use poste_core::limits;
use poste_core::log::{Artifact, Body, Content, Ends, MessageNo, Send};
use poste_core::office::Office;
use poste_core::text::{Label, Name, RecordId, TypeName};
use poste_core::time::{When, parse_when};
use poste_core::vocabulary::Priority;
use poste_dispatch::notify::{RULE_KEY, RULE_VARIABLE};
use serde_json::value::RawValue;

use crate::Result;
use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::error::CommandError;

/// What every command that sends a message takes.
#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// The message type; see `poste types`
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<TypeName>,
    /// low, normal, high or urgent; otherwise the type's
    #[arg(long)]
    pub priority: Option<Priority>,
    /// Structured data: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub payload: Option<String>,
    /// A file this speaks of: must exist; size and digest are recorded
    #[arg(long, value_name = "PATH")]
    pub artifact: Vec<PathBuf>,
    /// A file to copy into the office
    #[arg(long, value_name = "PATH")]
    pub attach: Vec<PathBuf>,
    /// A file that will come; nothing is checked
    #[arg(long, value_name = "PATH")]
    pub artifact_later: Vec<PathBuf>,
    /// The conversation to join; otherwise the answered one, or a new one
    #[arg(long, value_name = "LABEL")]
    pub conversation: Option<Label>,
    /// Ask for a response
    #[arg(long)]
    pub wants_response: bool,
    /// Until when: 30m, 2h, or a moment
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub respond_by: Option<When>,
    /// Expires if nobody took it until then
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub expires: Option<When>,
    /// Not to be delivered before
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub not_before: Option<When>,
    /// The workflow it belongs to
    #[arg(long, value_name = "LABEL")]
    pub workflow: Option<Label>,
    /// The step of the workflow
    #[arg(long, value_name = "LABEL")]
    pub step: Option<Label>,
    /// A brief context for the request
    #[arg(long, value_name = "TEXT")]
    pub context: Option<String>,
    /// The expected output
    #[arg(long, value_name = "TEXT")]
    pub expect: Option<String>,
    /// Something it refers to: a number, a path, an address
    #[arg(long = "ref", value_name = "TEXT")]
    pub reference: Vec<String>,
    /// Metadata
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub meta: Vec<(String, String)>,
    /// An id of your own: sending it again has no second effect
    #[arg(long, value_name = "ID")]
    pub id: Option<RecordId>,
    #[command(flatten)]
    pub secret: SecretArgs,
}

fn key_value(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("write it as key=value".to_owned()),
    }
}

/// A message that has everything but a speaker's name on it.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub to: Vec<Address>,
    pub kind: Option<TypeName>,
    pub priority: Option<Priority>,
    pub subject: String,
    pub body: Vec<u8>,
    pub payload: Option<Box<RawValue>>,
    pub present: Vec<PathBuf>,
    pub attached: Vec<PathBuf>,
    pub later: Vec<PathBuf>,
    /// Recorded before, in the message this one passes on.
    pub carried: Vec<Artifact>,
    pub reply_to: Option<MessageNo>,
    pub conversation: Option<Label>,
    pub wants_response: Option<bool>,
    pub respond_by: Option<When>,
    pub expires: Option<When>,
    pub not_before: Option<When>,
    pub workflow: Option<Label>,
    pub step: Option<Label>,
    pub context: Option<String>,
    pub expect: Option<String>,
    pub references: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    pub ends: Option<Ends>,
    pub id: Option<RecordId>,
    pub secret: SecretArgs,
}

/// What the command of a rule sends says so, and does not start that rule again.
pub(crate) fn note_rule(metadata: &mut BTreeMap<String, String>) {
    if let Some(rule) = std::env::var(RULE_VARIABLE).ok().filter(|rule| rule.parse::<Label>().is_ok()) {
        metadata.insert(RULE_KEY.to_owned(), rule);
    }
}

impl Draft {
    pub(crate) fn from_args(cx: &Cx, args: MessageArgs, subject: String, body: Option<String>) -> Result<Self> {
        let mut metadata = BTreeMap::new();
        for (key, value) in args.meta {
            if metadata.insert(key.clone(), value).is_some() {
                return Err(CommandError::usage(format!("--meta {key} is given twice")));
            }
        }
        note_rule(&mut metadata);
        Ok(Self {
            kind: args.kind,
            priority: args.priority,
            subject,
            body: read_body(cx, body)?,
            payload: args.payload.as_deref().map(read_payload).transpose()?,
            present: args.artifact,
            attached: args.attach,
            later: args.artifact_later,
            conversation: args.conversation,
            wants_response: args.wants_response.then_some(true),
            respond_by: args.respond_by,
            expires: args.expires,
            not_before: args.not_before,
            workflow: args.workflow,
            step: args.step,
            context: args.context,
            expect: args.expect,
            references: args.reference,
            metadata,
            id: args.id,
            secret: args.secret,
            ..Self::default()
        })
    }

    /// Looks at the files and makes header and content.
    pub(crate) fn seal(mut self, cx: &Cx, office: &Office, default_type: &str) -> Result<(Send, Content)> {
        let speaker = cx.speaker()?;
        let mut artifacts = std::mem::take(&mut self.carried);
        let named = named_artifacts(cx, office, &speaker, &self.present, &self.attached, &self.later);
        artifacts.extend(named.map_err(suggest_later)?);
        self.with_artifacts(artifacts, default_type)
    }

    /// Header and content, once its files were looked at.
    pub(crate) fn with_artifacts(self, artifacts: Vec<Artifact>, default_type: &str) -> Result<(Send, Content)> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => default_type.parse()?,
        };
        let header = Send {
            to: self.to,
            kind,
            priority: self.priority,
            reply_to: self.reply_to,
            conversation: self.conversation,
            wants_response: self.wants_response,
            respond_by: self.respond_by,
            expires: self.expires,
            not_before: self.not_before,
            workflow: self.workflow,
            step: self.step,
            artifacts,
            ends: self.ends,
        };
        let content = Content {
            subject: self.subject,
            body: Body(self.body),
            payload: self.payload,
            context: self.context,
            expect: self.expect,
            references: self.references,
            metadata: self.metadata,
            ..Content::default()
        };
        content.check_message().map_err(CommandError::usage)?;
        self.secret.check(&content)?;
        Ok((header, content))
    }
}

/// Records files as they are now.
pub(crate) fn named_artifacts(
    cx: &Cx,
    office: &Office,
    speaker: &Name,
    present: &[PathBuf],
    attached: &[PathBuf],
    later: &[PathBuf],
) -> Result<Vec<Artifact>> {
    if present.is_empty() && attached.is_empty() && later.is_empty() {
        return Ok(Vec::new());
    }
    // The fold refuses too many as well, but only after each was read and the attached ones were copied.
    if present.len() + attached.len() + later.len() > limits::ARTIFACTS_MAX {
        return Err(CommandError::new(
            crate::error::Kind::Refused,
            format!("more than {} artifacts", limits::ARTIFACTS_MAX),
        )
        .code(poste_core::fold::Code::TooLarge.word()));
    }
    let tree = cx.worktree(office, speaker)?;
    let cwd = cx.cwd()?;
    let mut artifacts = Vec::new();
    for path in present {
        artifacts.push(tree.present(&cwd, path)?);
    }
    for path in attached {
        let blobs = office.store().blobs().ok_or_else(|| CommandError::usage("this office keeps no blobs"))?;
        artifacts.push(tree.attach(&cwd, path, blobs)?);
    }
    for path in later {
        artifacts.push(tree.later(&cwd, path)?);
    }
    Ok(artifacts)
}

/// A file that is not there, or empty, may be one that is still being written.
fn suggest_later(error: CommandError) -> CommandError {
    if error.message.ends_with("no such file") || error.message.ends_with("it is empty") {
        return error.hint("if it is still being written, say so: --artifact-later PATH");
    }
    error
}

/// A body from the arguments, or from stdin for `-`.
pub(crate) fn read_body(cx: &Cx, body: Option<String>) -> Result<Vec<u8>> {
    match body.as_deref() {
        None => Ok(Vec::new()),
        Some("-") => read_limited(&mut cx.stdin()?.lock(), "stdin"),
        Some(text) => Ok(text.as_bytes().to_vec()),
    }
}

/// Reads no more than a message may hold: a larger one is refused, not loaded.
fn read_limited(source: &mut dyn Read, what: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let max = limits::CONTENT_BYTES_MAX as u64;
    source
        .take(max + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| CommandError::new(crate::error::Kind::Internal, format!("{what}: {error}")))?;
    if bytes.len() as u64 > max {
        return Err(CommandError::new(
            crate::error::Kind::Refused,
            format!("{what} has more than the {max} bytes a message may hold"),
        )
        .hint("send large things as files: --attach PATH"));
    }
    Ok(bytes)
}

pub(crate) fn read_payload(text: &str) -> Result<Box<RawValue>> {
    let json = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) => {
            let mut file = std::fs::File::open(Path::new(path))
                .map_err(|error| CommandError::not_found(format!("{path}: {error}")))?;
            String::from_utf8(read_limited(&mut file, path)?)
                .map_err(|_| CommandError::usage(format!("{path} is no UTF-8")))?
        }
    };
    parse_payload(json)
}

/// Keeps JSON as it is given.
pub(crate) fn parse_payload(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|error| CommandError::usage(format!("the payload is no JSON: {error}")))
}

/// Recipients as they are typed: one or several, with commas between.
pub(crate) fn parse_recipients(text: &str) -> Result<Vec<Address>> {
    text.split(',').map(|part| part.trim().parse().map_err(CommandError::from)).collect()
}
