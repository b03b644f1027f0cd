//! Takes in what comes from outside. It becomes one message, however often it comes in, under the trust label `outside`.

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
use crate::{Access, Answered, Desk, Error, Recipients, Result, Verb, input, mark, register};

/// Who speaks for what comes in, unless another name is given.
pub const SPEAKER: &str = "ingest";

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// One address or several
    #[serde(deserialize_with = "input::recipients")]
    #[schemars(with = "Recipients")]
    pub to: Vec<Address>,
    /// The message type, for example alert
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Option<Priority>,
    /// What comes in
    pub incoming: Incoming,
    /// Keeps its files in the office; otherwise they are only named.
    #[serde(skip)]
    pub attach: bool,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// Something from outside, read and bounded.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Incoming {
    /// One line
    pub subject: String,
    pub body: String,
    /// Structured data
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    /// Where it comes from, in words of its own: nothing here was proven
    pub metadata: BTreeMap<String, String>,
    /// What it is known by: the same key is the same message
    pub key: Option<String>,
    /// Those that can be kept.
    #[serde(skip)]
    pub attachments: Vec<Attachment>,
    /// Whose keys these are: what comes by one way is never taken for what comes by another.
    #[serde(skip)]
    pub origin: Origin,
    /// The marks of offices that sent it, or that it answers without anybody's doing.
    #[serde(skip)]
    pub echo_of: BTreeSet<String>,
    /// The marks of offices whose mail comes back with it.
    #[serde(skip)]
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

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Answer {
    /// Null: nothing was stored.
    pub number: Option<MessageNo>,
    pub position: Option<Position>,
    pub to: Vec<Address>,
    /// It came in before; there is no second effect.
    pub repeat: bool,
    /// This office sent it, or it answers what this office sent without anybody's doing; nothing was stored.
    pub echo: bool,
    /// What it is known by.
    pub key: Option<String>,
}

impl Verb for Input {
    const NAME: &'static str = "ingest";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(mut self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let (mut header, content) = self.sealed()?;
        // To tell of what this office caused itself would make the next one, for ever.
        if is_named(desk.office, &self.incoming.echo_of)? {
            return Ok(Answered::new(Answer { echo: true, key: self.incoming.key, ..Answer::default() }));
        }
        // Somebody has to know that a mail came back, and no rule for alerts must tell it by mail again.
        if is_named(desk.office, &self.incoming.returned_to)? {
            self.kind = "message".parse()?;
            header.kind = self.kind.clone();
            desk.warn("a mail that a rule of this office sent came back; it is stored as a message, not as an alert");
        }
        let from = source(desk)?;
        let answer = self.store(desk, &from, header, content)?;
        if !answer.repeat && answer.to.is_empty() {
            desk.warn("nobody received it: no such agent is active, or nobody subscribed");
        }
        Ok(Answered::new(answer))
    }
}

/// The name that speaks for what comes in, registered on first use. Only one of kind `outside` may: nobody lends their
/// own trust to what others wrote.
fn source(desk: &mut Desk<'_>) -> Result<Name> {
    let name = match &desk.caller.actor {
        Some(name) => name.clone(),
        None => SPEAKER.parse()?,
    };
    let header = Register { kind: Some(AgentKind::Outside), ..Register::default() };
    register::if_missing(desk.office, &name, header, desk.caller.via)?;
    match desk.office.agent(&name)?.map(|agent| agent.kind) {
        Some(AgentKind::Outside) | None => Ok(name),
        Some(kind) => {
            Err(Error::refused(format!("what comes from outside is not said in the name of a registered {kind}"))
                .code("not_outside")
                .hint(note!("give the source a name of its own: " @Speaker "; without one it is said by ingest")))
        }
    }
}

/// Whether the mark of this office is among these.
fn is_named(office: &Office, marks: &BTreeSet<String>) -> Result<bool> {
    Ok(!marks.is_empty() && marks.contains(&mark::of(&mark::office_id(office)?)))
}

impl Input {
    /// Header and content, without its files: those are kept once it is known to be new.
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

    /// Stores it once: what has the same key, from the same source, for the same recipients, is the same.
    fn store(&self, desk: &mut Desk<'_>, from: &Name, mut header: Send, content: Content) -> Result<Answer> {
        let id = self.record_id(from)?;
        if let Some(before) = self.stored_before(desk.office, id.as_ref())? {
            return Ok(before);
        }
        if self.attach {
            header.artifacts = keep_files(desk.office, &self.incoming.attachments)?;
        }
        // In no session: whoever hands it over is not whoever wrote it.
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
            Verdict::Accepted(_) => Err(Error::odd_effect("it")),
            // Another process may have taken it in at the same moment, with other words around it.
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
        // A Message-ID is anybody's word, so that other words under it are another mail.
        let words = match incoming.origin {
            Origin::Email => Digest::of(format!("{}\n{}", incoming.subject, incoming.body).as_bytes()).to_string(),
            _ => String::new(),
        };
        // As JSON: no part can pass for two.
        let known_by = serde_json::json!([from, incoming.origin.word(), recipients, self.kind, words, key]);
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
