//! What comes in from outside: a mail, a webhook, a text. Each becomes one message, however often it comes in, under the
//! trust label `outside`.

mod email;
mod webhook;

use std::collections::{BTreeMap, BTreeSet};

pub use email::email;
pub use webhook::{Request, webhook};

use poste_core::error::Error;
use poste_core::fold::{Code, Effect, Verdict};
use poste_core::log::{Artifact, ArtifactState, Content, Intent, Send, Via};
use poste_core::text::{Name, RecordId, TypeName};
use poste_core::vocabulary::{AgentKind, Priority};
use poste_core::{Address, Digest, MessageNo, Office, Position, limits, views};
use poste_verbs::register;
use serde_json::value::RawValue;

use crate::{mark, speaker};

/// Who speaks for what comes in, unless another name is given.
pub const SPEAKER: &str = "ingest";
/// What is read of a mail or a request.
pub const BYTES_MAX: u64 = 25 * 1024 * 1024;
/// What is kept of its text, and of its structured data.
pub(crate) const TEXT_BYTES_MAX: usize = 256 * 1024;
/// Attachments that are named or kept, and how large they may be together.
pub(crate) const ATTACHMENTS_MAX: usize = 20;
pub(crate) const ATTACHED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Why something from outside is not taken in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("it is no mail: {0}")]
    NoMail(&'static str),
    #[error(transparent)]
    Unsigned(#[from] crate::notify::sign::Unsigned),
    #[error("it is empty")]
    Empty,
    #[error("it has more than {BYTES_MAX} bytes")]
    TooLarge,
}

/// Something from outside, read and bounded.
#[derive(Debug, Default)]
pub struct Incoming {
    pub subject: String,
    pub body: String,
    pub payload: Option<Box<RawValue>>,
    /// Where it comes from, in words of its own: nothing here was proven.
    pub metadata: BTreeMap<String, String>,
    /// Those that can be kept.
    pub attachments: Vec<Attachment>,
    /// What it is known by, if it says so.
    pub key: Option<String>,
    /// Whose keys these are: what comes by one way is never taken for what comes by another.
    pub origin: Origin,
    /// The marks of offices that sent it, or that it answers without anybody's doing.
    pub echo_of: BTreeSet<String>,
    /// The marks of offices whose mail comes back with it.
    pub returned_to: BTreeSet<String>,
}

/// By which way something comes in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Text,
    Email,
    Signed,
    /// Anybody may have made it, with any key.
    Unsigned,
}

impl Origin {
    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Email => "email",
            Self::Signed => "signed",
            Self::Unsigned => "unsigned",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// One name, without any folder.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// A plain text. Its first line is the subject, unless one is given.
pub fn text(bytes: &[u8], subject: Option<&str>) -> Result<Incoming, Unfit> {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() && subject.is_none() {
        return Err(Unfit::Empty);
    }
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let mut incoming =
        Incoming { subject: one_line(subject.unwrap_or(first)), body: bounded(&text), ..Incoming::default() };
    incoming.metadata.insert("source".to_owned(), "stdin".to_owned());
    Ok(incoming)
}

/// Where something from outside goes.
#[derive(Debug, Clone)]
pub struct Delivery {
    pub to: Vec<Address>,
    pub kind: TypeName,
    pub priority: Option<Priority>,
    /// Keeps the files of a mail in the office; otherwise they are only named.
    pub attach: bool,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    pub number: MessageNo,
    pub position: Option<Position>,
    pub to: Vec<Address>,
    /// It came in before, and nothing happened now.
    pub repeat: bool,
}

/// The name that speaks for what comes in, registered on first use. Only one of kind `outside` may: nobody lends their
/// own trust to what others wrote.
pub fn source(office: &mut Office, given: Option<Name>) -> Result<Result<Name, AgentKind>, Error> {
    let name = match given {
        Some(name) => name,
        None => SPEAKER.parse().map_err(|error| Error::Damaged(format!("{error}")))?,
    };
    register::if_missing(office, &name, speaker::of_kind(AgentKind::Outside), Via::Ingest)?;
    match office.agent(&name)?.map(|agent| agent.kind) {
        Some(AgentKind::Outside) | None => Ok(Ok(name)),
        Some(kind) => Ok(Err(kind)),
    }
}

/// Whether this office sent it, or caused it and nobody else did: to tell of it would make the next one, for ever.
pub fn is_echo(office: &Office, incoming: &Incoming) -> Result<bool, Error> {
    names(office, &incoming.echo_of)
}

/// Whether a mail of this office comes back with it: somebody has to know, and no rule for alerts must tell it by mail again.
pub fn is_return(office: &Office, incoming: &Incoming) -> Result<bool, Error> {
    names(office, &incoming.returned_to)
}

fn names(office: &Office, marks: &BTreeSet<String>) -> Result<bool, Error> {
    Ok(!marks.is_empty() && marks.contains(&mark::of(&mark::office_id(office)?)))
}

/// The content of the message, to be looked at before it is stored.
pub fn content(incoming: &Incoming) -> Content {
    Content {
        subject: if incoming.subject.is_empty() { "(no subject)".to_owned() } else { incoming.subject.clone() },
        body: incoming.body.as_str().into(),
        payload: incoming.payload.clone(),
        metadata: incoming.metadata.clone(),
        ..Content::default()
    }
}

/// Stores it once: what has the same key, from the same source, for the same recipients, is the same.
pub fn store(office: &mut Office, from: &Name, to: &Delivery, incoming: &Incoming) -> Result<Stored, Error> {
    let id = incoming.key.as_ref().map(|key| record_id(from, to, incoming, key)).transpose()?;
    if let Some(before) = id.as_ref().map(|id| stored_before(office, id)).transpose()?.flatten() {
        return Ok(before);
    }
    let artifacts = if to.attach { keep_files(office, &incoming.attachments)? } else { Vec::new() };
    let header = Send { priority: to.priority, artifacts, ..Send::plain(to.kind.clone(), to.to.clone()) };
    let mut proposal = speaker::proposal(office, from, Intent::Send(header), Some(content(incoming)));
    proposal.id = id.clone().unwrap_or(proposal.id);
    proposal.via = Via::Ingest;
    let outcome = office.propose(&proposal)?;
    match outcome.verdict {
        Verdict::Accepted(Effect::Sent(sent)) => {
            Ok(Stored { number: sent.number, position: outcome.position, to: sent.deliveries, repeat: outcome.repeat })
        }
        Verdict::Accepted(_) => Err(Error::Damaged("the office took it for something else".to_owned())),
        Verdict::Rejected(rejection) if rejection.code == Code::IdConflict => {
            // Another process took it in at the same moment, with other words around it.
            let before = id.as_ref().map(|id| stored_before(office, id)).transpose()?.flatten();
            before.ok_or_else(|| rejection.into())
        }
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

fn record_id(from: &Name, to: &Delivery, incoming: &Incoming, key: &str) -> Result<RecordId, Error> {
    let mut recipients: Vec<String> = to.to.iter().map(ToString::to_string).collect();
    recipients.sort();
    recipients.dedup();
    // A Message-ID is anybody's word, so that other words under it are another mail.
    let words = match incoming.origin {
        Origin::Email => Digest::of(format!("{}\n{}", incoming.subject, incoming.body).as_bytes()).to_string(),
        _ => String::new(),
    };
    // As JSON: no part can pass for two.
    let known_by = serde_json::json!([from, incoming.origin.word(), recipients, to.kind, words, key]);
    let digest = Digest::of(known_by.to_string().as_bytes()).to_string();
    format!("ingest-{}", &digest[..40]).parse().map_err(|error| Error::Damaged(format!("{error}")))
}

fn stored_before(office: &Office, id: &RecordId) -> Result<Option<Stored>, Error> {
    let Some(number) = views::message_of_id(office.store(), id)? else { return Ok(None) };
    let position = views::written_under(office.store(), id)?.map(|written| written.position);
    Ok(Some(Stored { number, position, to: Vec::new(), repeat: true }))
}

fn keep_files(office: &Office, attachments: &[Attachment]) -> Result<Vec<Artifact>, Error> {
    let Some(blobs) = office.store().blobs() else { return Ok(Vec::new()) };
    let mut artifacts: Vec<Artifact> = Vec::new();
    for Attachment { name, bytes } in attachments {
        let path = match artifacts.iter().any(|other| other.path == *name) {
            true => format!("{}-{name}", artifacts.len() + 1),
            false => name.clone(),
        };
        let stored = blobs.put(bytes)?;
        artifacts.push(Artifact {
            path,
            worktree: None,
            state: ArtifactState::Attached,
            size: Some(stored.size),
            digest: Some(stored.digest),
        });
    }
    Ok(artifacts)
}

/// A subject of one line, as long as one may be.
pub(crate) fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ").replace(char::is_control, "\u{fffd}");
    cut(&line, limits::SUBJECT_BYTES_MAX)
}

pub(crate) fn bounded(text: &str) -> String {
    let text = text.replace("\r\n", "\n");
    match text.len() > TEXT_BYTES_MAX {
        true => format!("{}\n[… {} bytes in all]\n", cut(&text, TEXT_BYTES_MAX), text.len()),
        false => text,
    }
}

fn cut(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text[..end].to_owned()
}

/// One name of a file, whatever path it came with.
pub(crate) fn file_name(name: &str, ordinal: usize) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let plain: String =
        last.chars().map(|sign| if sign.is_alphanumeric() || "._- ".contains(sign) { sign } else { '_' }).collect();
    let plain = cut(plain.trim().trim_start_matches('.'), 120);
    if plain.is_empty() { format!("attachment-{ordinal}") } else { plain }
}
