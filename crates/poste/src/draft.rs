//! Builds a message from command-line arguments.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use poste_core::Address;
use poste_core::limits;
use poste_core::text::{Label, RecordId, TypeName};
use poste_core::time::{When, parse_when};
use poste_core::vocabulary::Priority;
use poste_verbs::Recipients;
use poste_verbs::draft::{Message, parse_json};
use serde_json::value::RawValue;

use crate::Result;
use crate::commands::SecretArgs;
use crate::context::Cx;
use crate::error::CommandError;

/// Arguments of every command that sends a message.
#[derive(Debug, Args)]
pub(crate) struct MessageArgs {
    /// Message type; see `poste types`
    #[arg(long = "type", value_name = "TYPE")]
    pub kind: Option<TypeName>,
    /// Priority: low, normal, high or urgent; otherwise that of the type
    #[arg(long)]
    pub priority: Option<Priority>,
    /// Payload: JSON, or @FILE
    #[arg(long, value_name = "JSON|@FILE")]
    pub payload: Option<String>,
    /// File to reference; it must exist, its size and digest are recorded
    #[arg(long, value_name = "PATH")]
    pub artifact: Vec<PathBuf>,
    /// File to copy into the office
    #[arg(long, value_name = "PATH")]
    pub attach: Vec<PathBuf>,
    /// File to reference that may not exist yet; it is not checked
    #[arg(long, value_name = "PATH")]
    pub artifact_later: Vec<PathBuf>,
    /// Conversation to join; otherwise that of the answered message, or a new one
    #[arg(long, value_name = "LABEL")]
    pub conversation: Option<Label>,
    /// Ask for a response
    #[arg(long)]
    pub wants_response: bool,
    /// Deadline for the response: 30m, 2h, or a timestamp
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub respond_by: Option<When>,
    /// When the message expires unless it is taken: 30m, 2h, or a timestamp
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub expires: Option<When>,
    /// When to deliver the message: 30m, 2h, or a timestamp
    #[arg(long, value_name = "WHEN", value_parser = parse_when)]
    pub not_before: Option<When>,
    /// Workflow the message belongs to
    #[arg(long, value_name = "LABEL")]
    pub workflow: Option<Label>,
    /// Step of the workflow
    #[arg(long, value_name = "LABEL")]
    pub step: Option<Label>,
    /// Brief context for the request
    #[arg(long, value_name = "TEXT")]
    pub context: Option<String>,
    /// Expected output
    #[arg(long, value_name = "TEXT")]
    pub expect: Option<String>,
    /// Reference to a message number, a path or an address; may be repeated
    #[arg(long = "ref", value_name = "TEXT")]
    pub reference: Vec<String>,
    /// Metadata entry; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub meta: Vec<(String, String)>,
    #[command(flatten)]
    pub id: IdArgs,
    #[command(flatten)]
    pub secret: SecretArgs,
}

/// Separate from [`MessageArgs`], because `send --batch` takes it too.
#[derive(Debug, Args)]
pub(crate) struct IdArgs {
    /// Idempotency key: repeating the command with it is safe
    #[arg(long, value_name = "ID")]
    pub id: Option<RecordId>,
}

fn key_value(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

impl MessageArgs {
    /// Builds the message, reading the body from stdin and the payload from a file if asked to.
    pub(crate) fn into_message(self, cx: &Cx, body: Option<String>) -> Result<Message> {
        let mut metadata = BTreeMap::new();
        for (key, value) in self.meta {
            if metadata.insert(key.clone(), value).is_some() {
                return Err(CommandError::usage(format!("--meta {key} is given twice")));
            }
        }
        Ok(Message {
            body: read_body(body)?,
            kind: self.kind,
            priority: self.priority,
            payload: self.payload.as_deref().map(read_payload).transpose()?,
            artifacts: cx.paths(self.artifact),
            attach: cx.paths(self.attach),
            artifact_later: cx.paths(self.artifact_later),
            conversation: self.conversation,
            wants_response: self.wants_response.then_some(true),
            respond_by: self.respond_by,
            expires: self.expires,
            not_before: self.not_before,
            workflow: self.workflow,
            step: self.step,
            context: self.context,
            expect: self.expect,
            references: self.reference,
            metadata,
            id: self.id.id,
            secrets: self.secret.secrets(cx)?,
        })
    }
}

/// A body from the arguments, or from stdin for `-`.
pub(crate) fn read_body(body: Option<String>) -> Result<Vec<u8>> {
    match body.as_deref() {
        None => Ok(Vec::new()),
        Some("-") => read_limited(&mut std::io::stdin().lock(), "stdin"),
        Some(text) => Ok(text.as_bytes().to_vec()),
    }
}

/// Like [`read_body`], but the body must be UTF-8.
pub(crate) fn read_text(text: String, what: &str) -> Result<String> {
    String::from_utf8(read_body(Some(text))?).map_err(|_| CommandError::usage(format!("{what} is not valid UTF-8")))
}

/// Reads at most what a message may hold; anything larger is refused without loading it.
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
    read_json("payload", text)
}

/// JSON as it was typed, or from the file that `@FILE` names. Errors call it `what`.
pub(crate) fn read_json(what: &str, text: &str) -> Result<Box<RawValue>> {
    let json = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(path) => {
            let mut file = std::fs::File::open(Path::new(path))
                .map_err(|error| CommandError::not_found(format!("{path}: {error}")))?;
            String::from_utf8(read_limited(&mut file, path)?)
                .map_err(|_| CommandError::usage(format!("{path} is not valid UTF-8")))?
        }
    };
    Ok(parse_json(what, json)?)
}

/// Parses one or several recipients, separated by commas.
pub(crate) fn parse_recipients(text: &str) -> Result<Vec<Address>> {
    Ok(Recipients::parse(text)?)
}
