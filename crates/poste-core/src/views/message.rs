//! One message in full.

use std::collections::BTreeMap;

use base64::Engine as _;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::approvals::{self, ApprovalView};
use super::rows::{MessageRows, rows, subject};
use super::track::whole_text;
use super::{Found, content, envelope};
use crate::error::Error;
use crate::fold;
use crate::log::{Artifact, Body, Intent, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Agent, Context, Message, Notice, Tables, TextPart, Version};
use crate::text::{ContextName, Label, Name, Topic, TypeName};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::{Priority, TrustLabel, Urgency};

/// A message as its readers see it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MessageView {
    pub number: MessageNo,
    /// Its position in the log.
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub from: String,
    /// Its origin, as the log knows it: human, agent, outside or poste.
    pub trust: TrustLabel,
    pub to: Vec<String>,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub priority: Priority,
    pub urgency: Urgency,
    /// It asks for work, so an ack alone does not end it.
    pub asks_work: bool,
    pub conversation: Label,
    pub reply_to: Option<MessageNo>,
    pub forward_of: Option<MessageNo>,
    pub wants_response: bool,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    /// It is not delivered before this time.
    #[serde(serialize_with = "rfc3339_option")]
    pub not_before: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub expires_at: Option<Timestamp>,
    pub workflow: Option<Label>,
    pub step: Option<Label>,
    pub topic: Option<Topic>,
    /// For a notice of the office: what happened.
    pub notice: Option<Notice>,
    pub subject: String,
    pub body: String,
    /// The body byte for byte, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_base64: Option<String>,
    #[serde(skip)]
    pub body_bytes: Vec<u8>,
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    pub context: Option<String>,
    pub expect: Option<String>,
    pub references: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    pub artifacts: Vec<Artifact>,
    /// The content is missing.
    pub content_gone: bool,
    /// The redaction that erased it, if that is why.
    pub redacted: Option<Redaction>,
    /// Its archive file, if its conversation is archived.
    pub archive: Option<String>,
    /// The decision it asks for, if any.
    pub approval: Option<ApprovalView>,
}

impl MessageView {
    /// An empty message without sender, to show something that is not a message of an office.
    pub fn blank(kind: TypeName, at: Timestamp) -> Self {
        Self {
            number: MessageNo(0),
            position: Position(0),
            at,
            from: "poste".to_owned(),
            trust: TrustLabel::Poste,
            to: Vec::new(),
            kind,
            priority: Priority::Normal,
            urgency: Urgency::Later,
            asks_work: false,
            conversation: Label::of_number(MessageNo(0)),
            reply_to: None,
            forward_of: None,
            wants_response: false,
            respond_by: None,
            not_before: None,
            expires_at: None,
            workflow: None,
            step: None,
            topic: None,
            notice: None,
            subject: String::new(),
            body: String::new(),
            body_base64: None,
            body_bytes: Vec::new(),
            payload: None,
            context: None,
            expect: None,
            references: Vec::new(),
            metadata: BTreeMap::new(),
            artifacts: Vec::new(),
            content_gone: false,
            redacted: None,
            archive: None,
            approval: None,
        }
    }
}

/// The message with this number, if there is one.
pub fn message(store: &Store, number: MessageNo) -> Result<Option<MessageView>, Error> {
    store.view(|tables| rows(store, tables, number)?.map(|found| view_rows(store, tables, found)).transpose())
}

/// A live message.
pub(super) fn view(store: &Store, tables: &Tables<'_>, row: Message) -> Result<MessageView, Error> {
    let deliveries = tables.deliveries_of(row.number)?;
    view_rows(store, tables, MessageRows { message: row, deliveries, events: Vec::new(), archive: None })
}

fn view_rows(store: &Store, tables: &Tables<'_>, found: MessageRows) -> Result<MessageView, Error> {
    let MessageRows { message: row, deliveries, archive, .. } = found;
    let mut view = MessageView {
        number: row.number,
        position: row.position,
        from: row.sender.to_string(),
        trust: row.label,
        to: deliveries.iter().map(|delivery| delivery.address.to_string()).collect(),
        priority: row.priority,
        urgency: row.urgency,
        asks_work: row.work,
        conversation: row.conversation.clone(),
        reply_to: row.reply_to,
        forward_of: row.forward_of,
        wants_response: row.wants_response,
        respond_by: row.respond_by,
        not_before: row.ready_at,
        expires_at: row.expires_at,
        workflow: row.workflow.clone(),
        step: row.step.clone(),
        topic: row.topic.clone(),
        notice: row.notice,
        archive: archive.map(|archive| archive.file),
        ..MessageView::blank(row.kind.clone(), row.at)
    };
    if row.notice.is_some() {
        let (subject, body) = notice_text(store, tables, &row)?;
        view.subject = subject;
        view.body = body;
        return Ok(view);
    }
    if let Some(found) = tables.approval(row.number)? {
        view.approval = Some(approvals::view(store, tables, found, tables.cursor.head.at)?);
    }
    match content(store, row.position)? {
        Found::Content(content) => {
            view.body_base64 = base64_of(&content.body);
            view.body = content.body.text().into_owned();
            view.body_bytes = content.body.0;
            view.subject = content.subject;
            view.payload = content.payload;
            view.context = content.context;
            view.expect = content.expect;
            view.references = content.references;
            view.metadata = content.metadata;
        }
        Found::Never => {}
        Found::Gone => {
            view.subject = subject(store, tables, &row)?;
            view.content_gone = true;
        }
        Found::Redacted(by) => {
            view.subject = subject(store, tables, &row)?;
            view.content_gone = true;
            view.redacted = redaction(store, by)?;
        }
    }
    if let Some(record) = envelope(store, row.position)?
        && let Ok(Some(intent)) = record.sealed.intent()
        && let Some(mail) = intent.mail()
    {
        view.artifacts = mail.artifacts.clone();
        // A handoff names the folder of its files once; its message names it with each file.
        if let Intent::HandoffCreate(create) = &intent {
            view.artifacts.iter_mut().for_each(|artifact| artifact.worktree.clone_from(&create.worktree));
        }
    }
    Ok(view)
}

/// The sender of a message, without reading its content.
pub fn sender(store: &Store, number: MessageNo) -> Result<Option<Name>, Error> {
    Ok(store.tables()?.message(number)?.map(|message| message.sender))
}

/// An erasure of content, with its reason.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Redaction {
    pub by: String,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// The record of the redaction.
    pub position: Position,
    pub reason: String,
}

pub(super) fn redaction(store: &Store, position: Position) -> Result<Option<Redaction>, Error> {
    let Some(record) = envelope(store, position)? else { return Ok(None) };
    let reason = whole_text(store, position)?.unwrap_or_default();
    Ok(Some(Redaction { by: record.sealed.envelope.actor.to_string(), at: record.at, position, reason }))
}

/// Whether a record was written in a run, so that there may be output.
fn is_of_run(tables: &Tables<'_>, position: Position) -> Result<bool, Error> {
    let session = tables.record(position)?.and_then(|record| record.sealed.envelope.session);
    Ok(session.map(|session| tables.run(&session)).transpose()?.flatten().is_some())
}

/// For bodies that text cannot carry.
pub(super) fn base64_of(body: &Body) -> Option<String> {
    (!body.is_text()).then(|| base64::engine::general_purpose::STANDARD.encode(&body.0))
}

/// The text of a notice, from what happened at its position. Text of an agent is quoted as that agent's: the office
/// vouches for what happened, never for what an agent wrote.
fn notice_text(store: &Store, tables: &Tables<'_>, row: &Message) -> Result<(String, String), Error> {
    let subject = subject(store, tables, row)?;
    let said = match content(store, row.position)? {
        Found::Content(content) => {
            let body = content.body.text().into_owned();
            content.summary.filter(|summary| !summary.is_empty()).unwrap_or(body)
        }
        Found::Never | Found::Gone | Found::Redacted(_) => String::new(),
    };
    let about = row.reply_to.unwrap_or_default();
    // The notice is about the same record that stored the message, so its text need not be repeated to the sender.
    let is_own = tables.message(about)?.is_some_and(|message| message.position == row.position);
    let said = if is_own { String::new() } else { said };
    let next = match row.notice {
        Some(Notice::Late) => format!("The result is kept as late: poste track {about}"),
        Some(Notice::Closed) => format!("Stop working on it; a result would be kept as late: poste track {about}"),
        Some(Notice::Defaulted) => format!("It is decided, and no answer can change that: poste approvals {about}"),
        Some(Notice::Settled) => format!("Nothing is left to do: poste approvals {about}"),
        Some(Notice::Unanswered) => format!("If you still need a decision, ask again: poste approvals {about}"),
        Some(Notice::Orphaned) => format!("See its progress: poste thread {about}"),
        Some(Notice::StepOver) => format!("Stop working on it; a result would be kept as late: poste track {about}"),
        Some(Notice::Withdrawn) => format!("Stop working on it. See it: poste handoff show {about}"),
        Some(Notice::Stopped) => {
            format!("It stays pending until its recipient is resumed: poste team up. See it: poste track {about}")
        }
        Some(Notice::Overdue) => format!("See who has it: poste track {about}. What else is late: poste overdue"),
        _ => match super::workflow_of(store, about)? {
            Some(workflow) => format!("Follow its workflow: poste workflow show {workflow}"),
            None => format!(
                "See what happened: poste track {about}.{printed} Retry it: poste retry {about}",
                printed = match is_of_run(tables, row.position)? {
                    true => format!(" Its output: poste dispatch logs {about}."),
                    false => String::new(),
                }
            ),
        },
    };
    let envelope = tables.record(row.position)?.map(|record| record.sealed.envelope);
    let (Some(envelope), false) = (envelope, said.is_empty()) else { return Ok((subject, next)) };
    let speaker = envelope.actor;
    let trust = match tables.agent(speaker.as_str())? {
        Some(agent) => TrustLabel::of(agent.kind, envelope.proof),
        None => TrustLabel::Poste,
    };
    let quoted: String = said.lines().map(|line| format!("> {line}\n")).collect();
    Ok((subject, format!("{speaker} (trust: {trust}) wrote:\n{quoted}\n{next}")))
}

/// Whether a message is an agent's own: addressed to it, or held by it.
pub fn is_addressed_to(store: &Store, agent: &Agent, number: MessageNo) -> Result<bool, Error> {
    store.view(|tables| match tables.message(number)? {
        Some(message) => fold::is_own(tables, agent, &message),
        None => Ok(false),
    })
}

/// The token of the claim by which an agent holds a message now.
pub fn held_token(store: &Store, agent: &Name, number: Option<MessageNo>) -> Result<Option<Position>, Error> {
    let Some(number) = number else { return Ok(None) };
    store.view(|tables| Ok(tables.held_of(number, agent)?.and_then(|held| held.token)))
}

/// Whether a message passed its gates under a claim of an agent.
pub fn passed_gates(store: &Store, agent: &Name, number: MessageNo, token: Position) -> Result<bool, Error> {
    store.view(|tables| match tables.won_by(number, agent, token)? {
        Some(won) => tables.gate_passed(&won, token),
        None => Ok(false),
    })
}

/// The records that contain a message's content, and what recipients wrote about it.
#[derive(Debug, Clone, Default)]
pub struct SaidOf {
    pub own: Vec<Position>,
    pub by_recipients: Vec<Position>,
    /// Messages that repeat its content: forwards, and replies under its subject.
    pub repeated_in: Vec<MessageNo>,
}

pub fn said_of(store: &Store, number: MessageNo) -> Result<Option<SaidOf>, Error> {
    store.view(|tables| {
        let Some(found) = rows(store, tables, number)? else { return Ok(None) };
        let mut by_recipients: Vec<Position> =
            found.events.iter().filter(|event| event.says_something()).map(|event| event.position).collect();
        by_recipients.sort_unstable();
        by_recipients.dedup();
        // A message with damaged content can still be redacted.
        let own_subject = match subject(store, tables, &found.message) {
            Err(Error::Damaged(_)) => None,
            read => Some(read?),
        };
        let mut repeated_in = Vec::new();
        for candidate in follow_ups(tables, number)? {
            if repeats(store, tables, candidate, number, own_subject.as_deref())? {
                repeated_in.push(candidate);
            }
        }
        Ok(Some(SaidOf { own: vec![found.message.position], by_recipients, repeated_in }))
    })
}

/// A version of a shared context that repeats the content of another record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RepeatingVersion {
    pub context: ContextName,
    pub version: u64,
    /// Redacting this message redacts it.
    pub message: MessageNo,
}

/// The versions of shared contexts that may repeat the content of a record: later whole texts and data include what was
/// there before. A section contains only itself. Redacted versions are left out.
pub fn repeating_versions(store: &Store, position: Position) -> Result<Vec<RepeatingVersion>, Error> {
    store.view(|tables| {
        let mut found = Vec::new();
        let mut add = |context: &Context, row: &Version| {
            if tables.redaction(row.position)?.is_none() {
                let (context, version, message) = (context.name.clone(), row.version, row.message);
                found.push(RepeatingVersion { context, version, message });
            }
            Ok::<_, Error>(())
        };
        if let Some(own) = tables.version_at(position)?
            && let Some(context) = tables.context_by_number(own.context)?
        {
            for row in tables.versions(context.number, own.version + 1, context.version)? {
                if (own.text != TextPart::None && row.text == TextPart::Whole) || (own.data && row.data) {
                    add(&context, &row)?;
                }
            }
        }
        // An agreed proposal was written down, and all later data may include it.
        let known = tables.record(position)?.map(|record| tables.id(&record.sealed.envelope.id)).transpose()?.flatten();
        if let Some(proposal) = known.filter(|known| known.position == position).and_then(|known| known.message) {
            for (name, version) in tables.written_down(proposal)? {
                let Some(context) = tables.context(&name)? else { continue };
                for row in tables.versions(context.number, version, context.version)?.iter().filter(|row| row.data) {
                    add(&context, row)?;
                }
            }
        }
        Ok(found)
    })
}

/// Forwards of a message and replies to it, live or archived. Reads every header: redactions are rare.
fn follow_ups(tables: &Tables<'_>, number: MessageNo) -> Result<Vec<MessageNo>, Error> {
    tables.column(
        "SELECT number FROM messages WHERE forward_of = ?1 OR (reply_to = ?1 AND notice IS NULL)
         UNION
         SELECT number FROM
           (SELECT number, CAST(envelope AS TEXT) AS envelope FROM archived_messages JOIN log USING (position))
         WHERE envelope ->> '$.header.ends.message' = ?1 OR envelope ->> '$.header.reply_to' = ?1
            OR envelope ->> '$.header.mail.reply_to' = ?1",
        [number],
    )
}

/// Whether it repeats the content, at least the subject. An unreadable message may.
fn repeats(
    store: &Store,
    tables: &Tables<'_>,
    candidate: MessageNo,
    of: MessageNo,
    own_subject: Option<&str>,
) -> Result<bool, Error> {
    let asked = rows(store, tables, candidate).and_then(|found| match found {
        None => Ok(false),
        Some(found) if found.message.notice.is_some() => Ok(false),
        Some(found) if found.message.forward_of == Some(of) => Ok(true),
        Some(found) => match own_subject {
            None => Ok(true),
            Some("") => Ok(false),
            Some(own) => Ok(subject(store, tables, &found.message)?.contains(own)),
        },
    });
    match asked {
        Err(Error::Damaged(_)) => Ok(true),
        asked => asked,
    }
}

/// How a message is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndsBy {
    /// A handoff, by accepting or rejecting it.
    Accepting,
    /// A question, by deciding it.
    Deciding,
    /// A proposal, by agreeing on it.
    Agreeing,
    Finishing,
}

/// How the holder of a message ends it.
pub fn ends_by(store: &Store, message: &MessageView) -> Result<EndsBy, Error> {
    let tables = store.tables()?;
    Ok(if tables.handoff(message.number)?.is_some() {
        EndsBy::Accepting
    } else if tables.approval(message.number)?.is_some_and(|approval| approval.is_open()) {
        EndsBy::Deciding
    } else if message.kind.as_str() == "interface_contract" {
        EndsBy::Agreeing
    } else {
        EndsBy::Finishing
    })
}
