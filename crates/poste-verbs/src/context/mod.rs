//! Shared contexts: one file per verb, and shared code.

pub mod append;
pub mod create;
pub mod diff;
pub mod history;
pub mod list;
pub mod lock;
pub mod mirror;
pub mod replace;
pub mod set;
pub mod show;
pub mod since;
mod store;
pub mod unlock;

use poste_core::Foreign;
use poste_core::fold::{Code, Effect, Outcome, Versioned};
use poste_core::log::{Content, Document, Lines, Position, Proposal};
use poste_core::office::Office;
use poste_core::store::mirror::Mirror;
use poste_core::text::{ContextName, Name, RecordId};
use poste_core::views::{self, ContextView, VersionView};
use schemars::JsonSchema;
use serde::Serialize;

pub use store::{MARKED, Replacement, store};

use crate::draft::{prefixed, said};
use crate::explain::explain;
use crate::secret::Secrets;
use crate::{Desk, Error, Mark, Note, Result};

/// The fields that every change of a context takes.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// One-line summary for subscribers and the history
    pub summary: Option<String>,
    pub id: Option<RecordId>,
    pub secrets: Secrets,
}

/// The answer of verbs that create a version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VersionAnswer {
    #[serde(flatten)]
    pub made: Versioned,
    /// Number of added lines of text; null for a repeat.
    pub added: Option<u32>,
    /// Number of removed lines of text; null for a repeat.
    pub removed: Option<u32>,
    /// The change was merged with those of other agents.
    pub merged: bool,
    /// Idempotency key of this write.
    pub id: RecordId,
    /// Log position of the record.
    pub position: Option<Position>,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
}

/// An unchanged text is not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EditAnswer {
    Saved(VersionAnswer),
    Unchanged {
        /// The context's name.
        context: ContextName,
        /// Still the newest version.
        version: u64,
        /// Always true.
        unchanged: bool,
    },
}

/// A context at a version, or an error that helps to find it.
pub fn view(office: &Office, name: &ContextName, at: Option<u64>) -> Result<ContextView> {
    match views::context(office.store(), name, at) {
        Ok(Some(view)) => Ok(view),
        Ok(None) => Err(unknown(office, name)?),
        Err(error @ poste_core::Error::Rejected(_)) => {
            Err(Error::from(error).hint(note!("see the versions: " [context history, name = name])))
        }
        Err(error) => Err(error.into()),
    }
}

/// The error for an unknown context, with the nearest names.
pub fn unknown(office: &Office, name: &ContextName) -> Result<Error> {
    let error = Error::not_found(format!("there is no context {name}")).code(Code::UnknownContext.word());
    Ok(match views::nearest_contexts(office.store(), name.as_str())?.as_slice() {
        [] => error.hint(note!("create it: " [context create, name = name] "; or list contexts: " [context list])),
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// Updates the mirror when a context is read, since the process that made the newest version may have died before it
/// wrote the mirror. Verbs that make a version leave that to the record's actions. Problems with the file are only
/// reported: the log counts.
fn follow_mirror(desk: &mut Desk<'_>, name: &ContextName) {
    match desk.office.mirror(name, false) {
        Ok(Some(Mirror::Edited(path))) => {
            let (warning, next) = edited(name, &path.display().to_string());
            desk.warn(warning);
            next.into_iter().for_each(|note| desk.say(note));
        }
        Ok(_) => {}
        Err(error) => desk.warn(format!("the file of context {name} was not written: {error}")),
    }
}

/// Updates the mirror after a repeat, which makes no version and so has no action for the mirror.
fn follow_repeat(desk: &mut Desk<'_>, answer: &VersionAnswer) {
    if answer.repeat {
        follow_mirror(desk, &answer.made.context);
    }
}

/// The warning for a mirror that was edited by hand, and what to do about it.
pub fn edited(name: &ContextName, path: &str) -> (Note, [Note; 2]) {
    let warning = format!("{} was edited by hand and no longer follows the log", Foreign::name(path));
    (warning.into(), [take_over(name, path), drop_edit(name)])
}

fn take_over(name: &ContextName, path: &str) -> Note {
    note!("store the edit: " [context replace, name = name, file = path, merge = true])
}

fn drop_edit(name: &ContextName) -> Note {
    note!("discard the edit: " [context mirror, name = name, force = true])
}

/// The mark that shows a version to its reader, unless it has seen it.
fn read_mark(desk: &Desk<'_>, reader: Option<&Name>, name: &ContextName, version: u64) -> Result<Option<Mark>> {
    let Some(reader) = reader else { return Ok(None) };
    let seen = views::version_seen(desk.office.store(), reader, name)?;
    Ok(seen.is_none_or(|seen| seen < version).then(|| Mark::ContextRead(name.clone(), version)))
}

/// A line about a version, for an agent whose change is based on an older one.
pub fn version_line(version: &VersionView) -> String {
    let VersionView { version: number, by, what, added, removed, .. } = version;
    let summary = summary_as(version, |words| Foreign::words(words).to_string());
    format!("version {number}, {what} by {by} (+{added} −{removed}): {summary}")
}

/// The summary of a version, for a table.
pub fn summary(version: &VersionView) -> String {
    summary_as(version, ToOwned::to_owned)
}

fn summary_as(version: &VersionView, written: impl Fn(&str) -> String) -> String {
    let text = if version.redacted { "(redacted)".to_owned() } else { written(&version.summary) };
    match version.agreement {
        Some(number) => format!("{text} (agreed in #{number})"),
        None => text,
    }
}

/// Proposes a version.
fn propose(desk: &mut Desk<'_>, proposal: &Proposal, lines: Lines) -> Result<VersionAnswer> {
    let (outcome, effect) = desk.decide(proposal)?;
    let Effect::Versioned(made) = effect else { return Err(Error::unexpected_effect("the change")) };
    let Outcome { id, position, repeat, .. } = outcome;
    let (added, removed) = (Some(lines.added), Some(lines.removed));
    Ok(VersionAnswer { made, added, removed, merged: false, id, position, repeat })
}

/// Refuses a change of a locked context before it is proposed. On a log that keeps refusals a proposal would use up the
/// id, and a command that waits for the lock tries again with the same id.
fn check_lock(desk: &Desk<'_>, name: &ContextName, proposal: &Proposal) -> Result {
    let Some(refused) = views::context_lock_against(desk.office.store(), name, proposal)? else { return Ok(()) };
    match desk.is_known(Some(&proposal.id))? {
        true => Ok(()), // a repeat: the lock does not matter
        false => Err(explain(desk.office, proposal, refused.into())?),
    }
}

/// The content of a version, and of the short mail that announces it.
fn content(
    desk: &Desk<'_>,
    name: &ContextName,
    did: &str,
    lines: Lines,
    summary: &str,
    document: Document,
    secrets: Secrets,
) -> Result<Content> {
    let summary = said("summary", summary)?;
    let body = format!(
        "{} {did} context {name}: +{} −{} lines.\nSee what changed: poste context since {name}\n",
        desk.speaker()?,
        lines.added,
        lines.removed
    );
    let content = Content {
        subject: subject(name, summary),
        body: body.as_str().into(),
        document: Some(document),
        ..Content::default()
    };
    secrets.check(&content)?;
    Ok(content)
}

/// The subject: one line within the length limit.
fn subject(name: &ContextName, summary: &str) -> String {
    let line: String = summary.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    prefixed(&format!("{name}: "), line.trim())
}
