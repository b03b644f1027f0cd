//! Turns input from outside into a message with the trust label `outside`, once, however often it arrives.

use std::collections::{BTreeMap, BTreeSet};

use poste_core::fold::{Code, Effect, Verdict};
use poste_core::log::{Artifact, ArtifactState, Author, Content, Intent, MessageNo, Position, Register, Send};
use poste_core::text::{Name, RecordId, TypeName};
use poste_core::vocabulary::{AgentKind, Priority};
use poste_core::{Address, Digest, Office, views};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::draft::{Heading, Message};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Recipients, Result, Touch, Verb, input, mark, register};

/// The default sender of messages from outside.
pub const SPEAKER: &str = "ingest";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The recipients: one address, several separated by commas, or a list
    #[serde(deserialize_with = "input::recipients")]
    #[schemars(with = "Recipients")]
    pub to: Vec<Address>,
    /// The message type, for example alert
    #[serde(rename = "type")]
    pub kind: TypeName,
    /// Importance; default: that of the type
    pub priority: Option<Priority>,
    /// The input from outside
    pub incoming: Incoming,
    /// Store its files in the office; otherwise they are only named.
    #[serde(skip)]
    pub attach: bool,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// Input from outside, parsed and within limits.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Incoming {
    /// Subject, one line
    pub subject: String,
    /// Body, as text
    pub body: String,
    /// Structured data
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    /// Its origin, as the input itself states it: none of it is proven
    pub metadata: BTreeMap<String, String>,
    /// Key of the input: the same key is the same message
    pub key: Option<String>,
    /// Files that can be stored.
    #[serde(skip)]
    pub attachments: Vec<Attachment>,
    /// The namespace of the key: the same key from another origin is another message.
    #[serde(skip)]
    pub origin: Origin,
    /// Marks of offices that sent it, or that it is an automatic reply to.
    #[serde(skip)]
    pub echo_of: BTreeSet<String>,
    /// Marks of offices whose mail it returns as undeliverable.
    #[serde(skip)]
    pub returned_to: BTreeSet<String>,
}

/// How input arrived.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    #[default]
    Text,
    Email,
    Signed,
    /// Unproven: any sender may have chosen the key.
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
    /// A file name without folders.
    pub name: String,
    pub bytes: Vec<u8>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// The message's number; null if nothing was stored.
    pub number: Option<MessageNo>,
    /// Log position of the record.
    pub position: Option<Position>,
    /// The recipients it was delivered to.
    pub to: Vec<Address>,
    /// It arrived before; nothing new was stored.
    pub repeat: bool,
    /// This office sent it, or it is an automatic reply to this office's mail; nothing was stored.
    pub echo: bool,
    /// Key of the input.
    pub key: Option<String>,
}

impl Verb for Input {
    const NAME: &'static str = "ingest";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] = &[("attach", Touch::LiftsCheck)];
    type Answer = Answer;

    fn run(mut self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let (mut header, content) = self.sealed()?;
        // A message about something this office caused would cause the next one, forever.
        if is_named(desk.office, &self.incoming.echo_of)? {
            return Ok(Answered::new(Answer { echo: true, key: self.incoming.key, ..Answer::default() }));
        }
        // A returned mail has to be reported, but no rule for alerts may send it out by mail again.
        if is_named(desk.office, &self.incoming.returned_to)? {
            self.kind = "message".parse()?;
            header.kind = self.kind.clone();
            desk.warn("an email sent by a rule of this office came back; it is stored as a message, not as an alert");
        }
        let from = source(desk)?;
        let answer = self.store(desk, &from, header, content)?;
        if !answer.repeat && answer.to.is_empty() {
            desk.warn("no recipients: no active agent matches, or nobody subscribed");
        }
        Ok(Answered::new(answer))
    }
}

/// The sender of input from outside, registered on first use. It must be of kind `outside`, so that the input does not
/// get the trust of another agent.
fn source(desk: &mut Desk<'_>) -> Result<Name> {
    let name = match &desk.caller.actor {
        Some(name) => name.clone(),
        None => SPEAKER.parse()?,
    };
    let header = Register { kind: Some(AgentKind::Outside), ..Register::default() };
    register::if_missing(desk.office, &name, header, desk.caller.via)?;
    match desk.office.agent(&name)?.map(|agent| agent.kind) {
        Some(AgentKind::Outside) | None => Ok(name),
        Some(kind) => Err(Error::refused(format!("input from outside cannot be sent by an agent of kind {kind}"))
            .code("not_outside")
            .hint(note!("use a separate name for the source: " @Speaker "; the default is ingest"))),
    }
}

/// Whether the mark of this office is among these.
fn is_named(office: &Office, marks: &BTreeSet<String>) -> Result<bool> {
    Ok(!marks.is_empty() && marks.contains(&mark::of(&mark::office_id(office)?)))
}

impl Input {
    /// Header and content, without files: those are stored once the input is known to be new.
    fn sealed(&self) -> Result<(Send, Content)> {
        let Incoming { subject, body, payload, metadata, .. } = &self.incoming;
        let message = Message {
            body: body.as_bytes().to_vec(),
            kind: Some(self.kind.clone()),
            priority: self.priority,
            payload: payload.clone(),
            metadata: metadata.clone(),
            secrets: self.secrets,
            ..Message::default()
        };
        let subject = if subject.is_empty() { "(no subject)".to_owned() } else { subject.clone() };
        message.with_artifacts(Vec::new(), Heading { to: self.to.clone(), subject, ..Heading::default() })
    }

    /// Stores it once: the same key from the same source for the same recipients is the same message.
    fn store(&self, desk: &mut Desk<'_>, from: &Name, mut header: Send, content: Content) -> Result<Answer> {
        let id = self.record_id(from)?;
        if let Some(before) = self.stored_before(desk.office, id.as_ref())? {
            return Ok(before);
        }
        if self.attach {
            header.artifacts = keep_files(desk.office, &self.incoming.attachments)?;
        }
        // Outside the caller's session: the caller did not write it.
        let author = Author::new(from.clone(), desk.caller.via);
        let mut proposal = desk.office.proposal(&author, Intent::Send(header), Some(content));
        proposal.id = id.clone().unwrap_or(proposal.id);
        let outcome = desk.propose(&proposal)?;
        match outcome.verdict {
            Verdict::Accepted(Effect::Sent(sent)) => Ok(Answer {
                number: Some(sent.number),
                position: outcome.position,
                to: sent.deliveries,
                repeat: outcome.repeat,
                echo: false,
                key: self.incoming.key.clone(),
            }),
            Verdict::Accepted(_) => Err(Error::unexpected_effect("the message")),
            // Another process may have stored it at the same time, with other content under the same id.
            Verdict::Rejected(rejection) => match self.stored_before(desk.office, id.as_ref())? {
                Some(before) if rejection.code == Code::IdConflict => Ok(before),
                _ => Err(rejection.into()),
            },
        }
    }

    fn record_id(&self, from: &Name) -> Result<Option<RecordId>> {
        let incoming = &self.incoming;
        let Some(key) = &incoming.key else { return Ok(None) };
        let mut recipients: Vec<String> = self.to.iter().map(ToString::to_string).collect();
        recipients.sort();
        recipients.dedup();
        // A Message-ID is unproven, so different text under the same one is another mail.
        let text_digest = match incoming.origin {
            Origin::Email => Digest::of(format!("{}\n{}", incoming.subject, incoming.body).as_bytes()).to_string(),
            _ => String::new(),
        };
        // As JSON, so that the parts cannot run into each other.
        let known_by = serde_json::json!([from, incoming.origin.word(), recipients, self.kind, text_digest, key]);
        let digest = Digest::of(known_by.to_string().as_bytes()).to_string();
        Ok(Some(format!("ingest-{}", &digest[..40]).parse()?))
    }

    fn stored_before(&self, office: &Office, id: Option<&RecordId>) -> Result<Option<Answer>> {
        let Some(id) = id else { return Ok(None) };
        let Some(number) = views::message_of_id(office.store(), id)? else { return Ok(None) };
        let position = views::written_under(office.store(), id)?.map(|written| written.position);
        let key = self.incoming.key.clone();
        Ok(Some(Answer { number: Some(number), position, repeat: true, key, ..Answer::default() }))
    }
}

fn keep_files(office: &Office, attachments: &[Attachment]) -> Result<Vec<Artifact>> {
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
