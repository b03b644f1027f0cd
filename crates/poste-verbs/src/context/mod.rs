//! Shared contexts: one file per verb, and what they have in common.

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

/// What every change of a context takes beside the change.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// What subscribers and the history are told, in one line
    pub summary: Option<String>,
    pub id: Option<RecordId>,
    pub secrets: Secrets,
}

/// The answer of verbs that make a version.
#[derive(Debug, Serialize, JsonSchema)]
pub struct VersionAnswer {
    #[serde(flatten)]
    pub made: Versioned,
    /// Lines of text; null when it was stored before.
    pub added: Option<u32>,
    pub removed: Option<u32>,
    /// Others had changed it, and both changes were put together.
    pub merged: bool,
    pub id: RecordId,
    pub position: Option<Position>,
    /// It was stored before under this id; there is no second effect.
    pub repeat: bool,
}

/// A text that was left as it was is not stored.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum EditAnswer {
    Saved(VersionAnswer),
    Unchanged {
        context: ContextName,
        /// Still the newest one.
        version: u64,
        unchanged: bool,
    },
}

/// A context at a version, or what helps to find one.
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

/// "No such context", with the nearest names.
pub fn unknown(office: &Office, name: &ContextName) -> Result<Error> {
    let error = Error::not_found(format!("there is no context {name}")).code(Code::UnknownContext.word());
    Ok(match views::nearest_contexts(office.store(), name.as_str())?.as_slice() {
        [] => error.hint(note!("make it: " [context create, name = name] "; or see what is there: " [context list])),
        near => error.hint(format!("did you mean {}?", near.join(" or "))),
    })
}

/// Whoever made the newest version may have died before it wrote the mirror: whoever looks at a context brings it up to the log.
/// Who makes a version leaves that to the actions of its record. Trouble with the file is told and no more: the log is what
/// counts.
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

/// A repeat makes no version, so no action asks for the mirror; whoever made the version may have died before it wrote it.
fn follow_repeat(desk: &mut Desk<'_>, answer: &VersionAnswer) {
    if answer.repeat {
        follow_mirror(desk, &answer.made.context);
    }
}

/// What is said of a mirror that somebody edited, and what to do about it.
pub fn edited(name: &ContextName, path: &str) -> (Note, [Note; 2]) {
    let warning = format!("{path} was edited by hand, and does not follow the log any more");
    (warning.into(), [take_over(name, path), drop_edit(name)])
}

fn take_over(name: &ContextName, path: &str) -> Note {
    note!("take it over: " [context replace, name = name, file = path, merge = true])
}

fn drop_edit(name: &ContextName) -> Note {
    note!("drop the edit: " [context mirror, name = name, force = true])
}

/// What marks a version as seen by its reader, if that is news.
fn read_mark(desk: &Desk<'_>, reader: Option<&Name>, name: &ContextName, version: u64) -> Result<Option<Mark>> {
    let Some(reader) = reader else { return Ok(None) };
    let seen = views::version_seen(desk.office.store(), reader, name)?;
    Ok(seen.is_none_or(|seen| seen < version).then(|| Mark::ContextRead(name.clone(), version)))
}

/// Who changed what, for whoever made a change from an older version.
pub fn version_line(version: &VersionView) -> String {
    let VersionView { version: number, by, what, added, removed, .. } = version;
    format!("version {number}, {what} by {by} (+{added} −{removed}): {}", summary(version))
}

/// What is told of a version.
pub fn summary(version: &VersionView) -> String {
    let said = if version.redacted { "(redacted)" } else { version.summary.as_str() };
    match version.agreement {
        Some(number) => format!("{said} (agreed in #{number})"),
        None => said.to_owned(),
    }
}

/// Proposes a version.
fn propose(desk: &mut Desk<'_>, proposal: &Proposal, lines: Lines) -> Result<VersionAnswer> {
    let (outcome, effect) = desk.decide(proposal)?;
    let Effect::Versioned(made) = effect else { return Err(Error::odd_effect("the change")) };
    let Outcome { id, position, repeat, .. } = outcome;
    let (added, removed) = (Some(lines.added), Some(lines.removed));
    Ok(VersionAnswer { made, added, removed, merged: false, id, position, repeat })
}

/// Refuses what somebody else's lock stops before it is proposed: on a log that keeps refusals the id would be used up,
/// and whoever waits for the lock proposes under the same id again.
fn check_lock(desk: &Desk<'_>, name: &ContextName, proposal: &Proposal) -> Result {
    let Some(refused) = views::context_lock_against(desk.office.store(), name, proposal)? else { return Ok(()) };
    match desk.is_known(Some(&proposal.id))? {
        true => Ok(()), // it was stored before, whoever has a lock by now
        false => Err(explain(desk.office, proposal, refused.into())?),
    }
}

/// The text of a version, and the short mail that tells of it.
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

/// One line that is not longer than a subject may be.
fn subject(name: &ContextName, summary: &str) -> String {
    let line: String = summary.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    prefixed(&format!("{name}: "), line.trim())
}
