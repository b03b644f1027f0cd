//! Shared contexts: their text at any version, who wrote it, and who has not seen it yet. All of it is from the log.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::{Found, content};
use crate::document::ended;
use crate::error::Error;
use crate::fold::{self, Code, Rejection, Versioned};
use crate::log::{Document, MessageNo, Position, Proposal};
use crate::store::Store;
use crate::store::tables::{Context, Lock, Tables, TextPart, Version, content_row};
use crate::text::{ContextName, Name, RecordId, Topic, Word, nearest};
use crate::time::{Timestamp, rfc3339};

/// A context as its readers see it, at one version.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ContextView {
    pub name: ContextName,
    pub kind: Word,
    /// The version shown here.
    pub version: u64,
    /// The newest version.
    pub newest: u64,
    #[serde(serialize_with = "rfc3339")]
    pub created_at: Timestamp,
    pub created_by: Name,
    #[serde(serialize_with = "rfc3339")]
    pub updated_at: Timestamp,
    pub updated_by: Name,
    /// Agents that wrote it, up to this version.
    pub contributors: Vec<Name>,
    /// Where its changes are published.
    pub topic: Topic,
    pub lock: Option<LockView>,
    /// Markdown: the last whole text, and all sections appended since.
    pub text: String,
    /// The structured part.
    #[schemars(with = "Option<serde_json::Value>")]
    pub data: Option<Box<RawValue>>,
    /// The JSON Schema of the data.
    #[schemars(with = "Option<serde_json::Value>")]
    pub schema: Option<Box<RawValue>>,
    /// The newest versions up to this one, newest first.
    pub history: Vec<VersionView>,
    /// There are older versions.
    pub more: bool,
    /// Versions that were redacted: they are missing in the text.
    pub redacted: Vec<u64>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LockView {
    pub holder: Name,
    pub session: Option<String>,
    pub token: Position,
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
}

impl From<&Lock> for LockView {
    fn from(lock: &Lock) -> Self {
        let session = lock.session.as_ref().map(ToString::to_string);
        Self { holder: lock.holder.clone(), session, token: lock.token, until: lock.until }
    }
}

/// One version, without its content.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct VersionView {
    pub version: u64,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    pub by: Name,
    /// created, appended, replaced, or data: only the structured part changed.
    pub what: &'static str,
    /// Lines of text.
    pub added: u32,
    pub removed: u32,
    pub summary: String,
    /// The message that subscribers got.
    pub message: MessageNo,
    /// The agreed proposal that it writes down.
    pub agreement: Option<MessageNo>,
    /// Agents that had agreed.
    pub agreed_by: Vec<Name>,
    /// It was redacted.
    pub redacted: bool,
}

/// One line of the list of contexts.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ContextLine {
    pub name: ContextName,
    pub kind: Word,
    pub version: u64,
    #[serde(serialize_with = "rfc3339")]
    pub updated_at: Timestamp,
    pub updated_by: Name,
    pub lock: Option<LockView>,
    /// The newest version that the asking agent has seen; null if none.
    pub seen: Option<u64>,
    /// The asking agent has seen only an older version.
    pub stale: bool,
}

/// A context that an agent has seen only in an older version.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct StaleContext {
    pub name: ContextName,
    pub seen: u64,
    pub version: u64,
    pub updated_by: Name,
    #[serde(serialize_with = "rfc3339")]
    pub updated_at: Timestamp,
}

/// Versions listed in a view. The history lists all.
const HISTORY_MAX: usize = 20;

/// A context at a version, or at the newest one. `None`: there is no such context.
pub fn context(store: &Store, name: &ContextName, at: Option<u64>) -> Result<Option<ContextView>, Error> {
    store.view(|tables| {
        let Some(context) = tables.context(name)? else { return Ok(None) };
        let version = version_or_newest(tables, &context, at)?;
        let text = text_at(store, tables, &context, version.version)?;
        let (data, data_redacted) = data_at(store, tables, &context, version.version)?;
        let mut redacted = text.redacted;
        redacted.extend(data_redacted);
        redacted.sort_unstable();
        redacted.dedup();
        let (history, more) = history_up_to(store, tables, &context, version.version, HISTORY_MAX)?;
        Ok(Some(ContextView {
            kind: context.kind.clone(),
            version: version.version,
            newest: context.version,
            created_at: context.created_at,
            created_by: context.created_by.clone(),
            updated_at: version.at,
            updated_by: version.agent,
            contributors: tables.contributors_up_to(&context, version.version)?,
            topic: crate::log::context_topic(&context.name),
            lock: context.lock.as_ref().map(LockView::from),
            text: text.text,
            data,
            schema: schema(store, &context)?,
            history,
            more,
            redacted,
            name: context.name,
        }))
    })
}

/// The versions of a context after one, newest first, and whether there are more.
pub fn context_history(
    store: &Store,
    name: &ContextName,
    after: u64,
    limit: usize,
) -> Result<Option<(Vec<VersionView>, bool)>, Error> {
    store.view(|tables| {
        let Some(context) = tables.context(name)? else { return Ok(None) };
        let since = context.version.saturating_sub(after);
        let limit = limit.min(usize::try_from(since).unwrap_or(usize::MAX));
        let (history, _) = history_up_to(store, tables, &context, context.version, limit)?;
        let more = (history.len() as u64) < since;
        Ok(Some((history, more)))
    })
}

/// Every context, by name.
pub fn contexts(store: &Store, agent: Option<&Name>) -> Result<Vec<ContextLine>, Error> {
    store.view(|tables| {
        let mut lines = Vec::new();
        for context in tables.contexts()? {
            let seen = agent.map(|agent| tables.version_read(agent, context.number)).transpose()?.flatten();
            lines.push(ContextLine {
                stale: seen.is_some_and(|seen| seen < context.version),
                seen,
                lock: context.lock.as_ref().map(LockView::from),
                name: context.name,
                kind: context.kind,
                version: context.version,
                updated_at: context.updated_at,
                updated_by: context.updated_by,
            });
        }
        Ok(lines)
    })
}

/// The contexts an agent has locked.
pub fn locked_by(store: &Store, holder: &Name) -> Result<Vec<ContextName>, Error> {
    Ok(store.tables()?.locked_contexts(Some(holder))?.into_iter().map(|context| context.name).collect())
}

/// The newest version of a context, if there is such a context.
pub fn newest_version(store: &Store, name: &ContextName) -> Result<Option<u64>, Error> {
    Ok(store.tables()?.context(name)?.map(|context| context.version))
}

/// The newest version an agent has seen of a context.
pub fn version_seen(store: &Store, agent: &Name, name: &ContextName) -> Result<Option<u64>, Error> {
    let tables = store.tables()?;
    match tables.context(name)? {
        Some(context) => tables.version_read(agent, context.number),
        None => Ok(None),
    }
}

/// The version of a context that an agent made under an id, and its record.
pub fn version_of_id(
    store: &Store,
    name: &ContextName,
    agent: &Name,
    id: &RecordId,
) -> Result<Option<(Versioned, Position)>, Error> {
    let tables = store.tables()?;
    let Some(known) = tables.id(id)? else { return Ok(None) };
    let (Some(context), Some(version)) = (tables.context(name)?, tables.version_at(known.position)?) else {
        return Ok(None);
    };
    if version.context != context.number || version.agent != *agent {
        return Ok(None);
    }
    let subscribers = tables.deliveries_of(version.message)?.len();
    let made = Versioned { context: context.name, version: version.version, message: version.message, subscribers };
    Ok(Some((made, known.position)))
}

/// The lock of a context, if there is one.
pub fn context_lock(store: &Store, name: &ContextName) -> Result<Option<LockView>, Error> {
    Ok(store.tables()?.context(name)?.and_then(|context| context.lock.as_ref().map(LockView::from)))
}

/// Names of contexts similar to one that does not exist.
pub fn nearest_contexts(store: &Store, name: &str) -> Result<Vec<String>, Error> {
    let names: Vec<ContextName> = store.tables()?.contexts()?.into_iter().map(|context| context.name).collect();
    Ok(nearest(name, names.iter().map(ContextName::as_str)))
}

/// Contexts that an agent should read again, and whether there are more.
pub(super) fn stale_contexts(
    tables: &Tables<'_>,
    agent: &Name,
    limit: usize,
) -> Result<(Vec<StaleContext>, bool), Error> {
    let mut found = tables.stale_contexts(agent, limit + 1)?;
    let more = found.len() > limit;
    found.truncate(limit);
    let stale = found.into_iter().map(|(context, seen)| StaleContext {
        name: context.name,
        seen,
        version: context.version,
        updated_by: context.updated_by,
        updated_at: context.updated_at,
    });
    Ok((stale.collect(), more))
}

fn version_or_newest(tables: &Tables<'_>, context: &Context, at: Option<u64>) -> Result<Version, Error> {
    let wanted = at.unwrap_or(context.version);
    tables.version(context.number, wanted)?.ok_or_else(|| {
        let (name, newest) = (&context.name, context.version);
        let reason = format!("context {name} has no version {wanted}; its newest is {newest}");
        Rejection { code: Code::UnknownVersion, reason }.into()
    })
}

struct TextAt {
    text: String,
    redacted: Vec<u64>,
}

/// The last whole text up to a version, and the sections after it.
fn text_at(store: &Store, tables: &Tables<'_>, context: &Context, version: u64) -> Result<TextAt, Error> {
    let first = tables.whole_text_up_to(context.number, version)?.unwrap_or(1);
    let mut found = TextAt { text: String::new(), redacted: Vec::new() };
    for row in tables.versions(context.number, first, version)? {
        if row.text == TextPart::None {
            continue;
        }
        let document = match document(store, row.position)? {
            Some(document) => document,
            None => {
                found.redacted.push(row.version);
                let text = Some(format!("*(version {} was redacted)*\n", row.version));
                Document { text, ..Document::default() }
            }
        };
        let text = document.text.unwrap_or_default();
        match row.text {
            TextPart::Section => add_section(&mut found.text, &row, document.title.as_deref(), &text),
            _ => found.text = text,
        }
    }
    Ok(found)
}

/// A dated section by its contributor.
fn add_section(text: &mut String, row: &Version, title: Option<&str>, section: &str) {
    if !text.is_empty() {
        text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
    }
    let (at, by) = (row.at, &row.agent);
    let _ = match title {
        Some(title) => write!(text, "## {title}\n\n*{at}, {by}*\n\n"),
        None => write!(text, "## Update: {at} by {by}\n\n"),
    };
    text.push_str(&ended(section.trim_end_matches('\n')));
}

/// The data in force at a version, and the version it is from if that was redacted.
fn data_at(
    store: &Store,
    tables: &Tables<'_>,
    context: &Context,
    version: u64,
) -> Result<(Option<Box<RawValue>>, Option<u64>), Error> {
    let Some(brought) = tables.data_up_to(context.number, version)? else { return Ok((None, None)) };
    let Some(row) = tables.version(context.number, brought)? else { return Ok((None, None)) };
    Ok(match document(store, row.position)? {
        Some(document) => (document.data, None),
        None => (None, Some(brought)),
    })
}

/// The schema a context was created with. `None`: it has none, or it was redacted.
pub(crate) fn schema(store: &Store, context: &Context) -> Result<Option<Box<RawValue>>, Error> {
    match context.has_schema {
        true => Ok(document(store, context.number)?.and_then(|document| document.schema)),
        false => Ok(None),
    }
}

/// The content of a version. `None`: it was redacted, or is missing.
fn document(store: &Store, position: Position) -> Result<Option<Document>, Error> {
    Ok(match content(store, position)? {
        Found::Content(content) => Some(content.document.unwrap_or_default()),
        Found::Never => Some(Document::default()),
        Found::Redacted(_) | Found::Gone => None,
    })
}

/// The newest versions up to one, newest first, and whether there are older ones.
fn history_up_to(
    store: &Store,
    tables: &Tables<'_>,
    context: &Context,
    version: u64,
    limit: usize,
) -> Result<(Vec<VersionView>, bool), Error> {
    let first = version.saturating_sub(limit as u64) + 1;
    let mut rows = tables.versions(context.number, first, version)?;
    rows.reverse();
    let views = rows.into_iter().map(|row| {
        let listed = content_row(store.conn(), row.position)?;
        let redacted = listed.is_none() && tables.redaction(row.position)?.is_some();
        Ok(VersionView {
            version: row.version,
            at: row.at,
            by: row.agent,
            what: match (row.version, row.text) {
                (1, _) => "created",
                (_, TextPart::Whole) => "replaced",
                (_, TextPart::Section) => "appended",
                (_, TextPart::None) => "data",
            },
            added: row.lines.added,
            removed: row.lines.removed,
            summary: listed.map(|listed| summary(&context.name, listed.subject)).unwrap_or_default(),
            message: row.message,
            agreement: row.agreement,
            agreed_by: agreed_by(tables, row.agreement)?,
            redacted,
        })
    });
    Ok((views.collect::<Result<_, Error>>()?, first > 1))
}

fn agreed_by(tables: &Tables<'_>, proposal: Option<MessageNo>) -> Result<Vec<Name>, Error> {
    let Some(proposal) = proposal else { return Ok(Vec::new()) };
    Ok(tables.parties(proposal)?.into_iter().filter_map(|party| Some(party.agreed?.agent)).collect())
}

/// The subject of its message without the name of the context, which it begins with.
fn summary(name: &ContextName, subject: String) -> String {
    match subject.strip_prefix(name.as_str()).and_then(|rest| rest.strip_prefix(": ")) {
        Some(rest) => rest.to_owned(),
        None => subject,
    }
}

/// The first line of every rendered context, with its name and version.
const TITLE: &str = "<!-- poste context ";
const TEXT_BEGINS: &str = "<!-- text -->\n";
const TEXT_ENDS: &str = "<!-- end of text -->\n";

/// The whole context as one Markdown document: header, text, data and update history.
pub fn context_markdown(view: &ContextView) -> String {
    let mut out = format!("{TITLE}{}, version {} -->\n", view.name, view.version);
    let _ = write!(out, "# {}\n\n", view.name);
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(out, "- **{name}**: {value}");
    };
    field("Kind", view.kind.as_str());
    field("Created", &format!("{} by {}", view.created_at, view.created_by));
    field("Last updated", &format!("{} by {}", view.updated_at, view.updated_by));
    field("Version", &view.version.to_string());
    field("Contributors", &view.contributors.iter().map(Name::as_str).collect::<Vec<_>>().join(", "));
    let _ = write!(out, "\n{TEXT_BEGINS}{}{TEXT_ENDS}", ended(&view.text));
    if let Some(data) = &view.data {
        let _ = write!(out, "\n## Data\n\n```json\n{}\n```\n", data.get().trim());
    }
    out.push_str("\n## Update history\n\n");
    for version in &view.history {
        let _ = writeln!(out, "- {}", history_line(version));
    }
    if view.more {
        let _ = writeln!(out, "- older versions: `poste context history {}`", view.name);
    }
    out
}

fn history_line(version: &VersionView) -> String {
    let mut line = format!("**{}** {} by {}: ", version.version, version.at, version.by);
    line.push_str(match (version.redacted, version.summary.as_str()) {
        (true, _) => "(redacted)",
        (false, "") => version.what,
        (false, summary) => summary,
    });
    let _ = write!(line, " (+{} −{})", version.added, version.removed);
    if let Some(agreement) = version.agreement {
        let agreed_by: Vec<&str> = version.agreed_by.iter().map(Name::as_str).collect();
        let _ = write!(line, ", as agreed in #{agreement} by {}", agreed_by.join(", "));
    }
    line
}

/// The parts of a rendered context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkdownParts<'a> {
    pub version: u64,
    /// The parts around the text are generated from the log.
    pub before: &'a str,
    pub text: &'a str,
    pub after: &'a str,
}

/// Splits a rendered context of this name. `None`: it is not such a document.
pub fn markdown_parts<'a>(name: &ContextName, markdown: &'a str) -> Option<MarkdownParts<'a>> {
    let rest = markdown.strip_prefix(TITLE)?.strip_prefix(name.as_str())?.strip_prefix(", version ")?;
    let version = rest.split_once(" -->\n")?.0.parse().ok()?;
    let (before, rest) = markdown.split_at(markdown.find(TEXT_BEGINS)? + TEXT_BEGINS.len());
    let (text, after) = rest.split_at(rest.rfind(TEXT_ENDS)?);
    Some(MarkdownParts { version, before, text, after })
}

/// The refusal of a proposal because of a context's lock, as the fold would make it.
pub fn context_lock_against(
    store: &Store,
    name: &ContextName,
    proposal: &Proposal,
) -> Result<Option<Rejection>, Error> {
    let tables = store.tables()?;
    let Some(context) = tables.context(name)? else { return Ok(None) };
    Ok(fold::context_lock_against(&context, &proposal.actor, proposal.session.as_ref()))
}
