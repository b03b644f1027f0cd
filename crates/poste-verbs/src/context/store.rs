//! Replaces the content of a context. A change based on an old version is refused, or merged and retried.

use poste_core::Foreign;
use poste_core::document;
use poste_core::fold::Code;
use poste_core::log::{ContextReplace, Document, Intent, Lines, MessageNo, context_mail};
use poste_core::office::Office;
use poste_core::text::{ContextName, RecordId};
use poste_core::views::{self, ContextView};
use serde_json::json;
use serde_json::value::RawValue;

use super::{Change, VersionAnswer, check_lock, content, propose, version_line, view};
use crate::{Desk, Error, Result};

/// New content for a context.
#[derive(Debug, Clone, Default)]
pub struct Replacement {
    pub text: Option<String>,
    pub data: Option<Box<RawValue>>,
    pub merge: bool,
    /// The agreed proposal that it writes down.
    pub agreement: Option<MessageNo>,
}

/// The key of an error's partial answer: the merged text with conflict markers.
pub const MARKED: &str = "marked";

/// Stores a replacement. If it is based on an old version, it is refused, or merged and retried until it fits.
pub fn store(
    desk: &mut Desk<'_>,
    name: &ContextName,
    made_from: u64,
    replacement: &Replacement,
    change: &Change,
) -> Result<VersionAnswer> {
    if replacement.text.as_deref().is_some_and(is_marked) {
        return Err(Error::usage("the text still has conflict markers")
            .hint("choose between the parts above and below =======, remove the markers, and try again"));
    }
    let base = view(desk.office, name, Some(made_from))?;
    if replacement.merge
        && let Some(id) = &change.id
        && let Some(answer) = stored_before(desk, name, id, replacement)?
    {
        return Ok(answer);
    }
    let mut id = change.id.clone();
    let mut current = made_from;
    let mut text = replacement.text.clone();
    const TRIES_MAX: usize = 100;
    for _ in 0..TRIES_MAX {
        // Count lines against the replaced version, which differs from the base only after a merge.
        let before = if current == made_from { &base } else { &view(desk.office, name, Some(current))? };
        let lines = text.as_deref().map_or(Lines::default(), |text| document::count(&before.text, text));
        let document = Document { text: text.clone(), data: replacement.data.clone(), ..Document::default() };
        let default = match (&document.text, &document.data) {
            (None, _) => "set the structured part",
            (Some(_), None) => "changed the text",
            (Some(_), Some(_)) => "changed the text and the structured part",
        };
        let summary = change.summary.as_deref().unwrap_or(default);
        let header = ContextReplace {
            if_version: current,
            lines,
            text: document.text.is_some(),
            data: document.data.is_some(),
            agreement: replacement.agreement,
            mail: context_mail(name),
            name: name.clone(),
        };
        let mut content = content(desk, name, "changed", lines, summary, document, change.secrets)?;
        if replacement.merge && change.id.is_some() {
            content.metadata.insert(UNMERGED.to_owned(), unmerged(replacement));
        }
        let proposal = desk.proposal(Intent::ContextReplace(header), Some(content), id.clone())?;
        check_lock(desk, name, &proposal)?;
        match propose(desk, &proposal, lines) {
            Ok(answer) => return Ok(VersionAnswer { merged: current != made_from, ..answer }),
            Err(error) if error.is(Code::StaleVersion) => {
                if !replacement.merge {
                    let error = stale(desk.office, name, made_from, error)?;
                    let can_merge = replacement.text.is_some();
                    return Err(if can_merge {
                        error.hint(note!("merge both changes: " {merge = true}))
                    } else {
                        error
                    });
                }
                let newest = view(desk.office, name, None)?;
                text = merged(desk.office, &base, replacement, &newest, error)?;
                current = newest.version;
                id = change.id.as_ref().map(|id| desk.free_id(id)).transpose()?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(Error::conflict(format!("context {name} changes too often to be merged"))
        .hint(note!("lock it first: " [context lock, name = name])))
}

/// The metadata key for the digest of the text before merging.
const UNMERGED: &str = "unmerged";

fn unmerged(replacement: &Replacement) -> String {
    let data = replacement.data.as_deref().map(RawValue::get);
    let both = serde_json::to_vec(&(&replacement.text, data)).expect("plain text always encodes");
    poste_core::Digest::of(&both).to_string()
}

/// The answer of an earlier merge with this id, which may be based on another version.
fn stored_before(
    desk: &Desk<'_>,
    name: &ContextName,
    id: &RecordId,
    replacement: &Replacement,
) -> Result<Option<VersionAnswer>> {
    let store = desk.office.store();
    let Some(id) = desk.tried_ids(id)?.pop() else { return Ok(None) };
    let Some((made, position)) = views::version_of_id(store, name, &desk.speaker()?, &id)? else { return Ok(None) };
    // Erased content cannot be compared. It was stored, and that is the question here.
    let stored = views::message(store, made.message)?.filter(|stored| !stored.content_gone);
    if let Some(stored) = stored
        && stored.metadata.get(UNMERGED) != Some(&unmerged(replacement))
    {
        return Err(Error::conflict(format!("the id was used for something else at record {position}"))
            .code(Code::IdConflict.word())
            .hint("an id is for one write only; use another one"));
    }
    let position = Some(position);
    Ok(Some(VersionAnswer { made, added: None, removed: None, merged: false, id, position, repeat: true }))
}

/// The merged text, or the conflict as an error.
fn merged(
    office: &Office,
    base: &ContextView,
    replacement: &Replacement,
    newest: &ContextView,
    error: Error,
) -> Result<Option<String>> {
    let data = |view: &ContextView| view.data.as_ref().map(|data| data.get().to_owned());
    let stale = stale(office, &base.name, base.version, error)?;
    if replacement.data.is_some() && data(base) != data(newest) {
        return Err(stale.cause("the structured part changed as well, and cannot be merged"));
    }
    let Some(mine) = &replacement.text else { return Ok(None) };
    match document::merge(&base.text, mine, &newest.text) {
        Ok(text) => Ok(Some(text)),
        Err(marked) => {
            let message = format!("{}: both changed the same lines", stale.message);
            Err(Error::conflict(message)
                .code(Code::StaleVersion.word())
                .cause(format!("the first of them:{}", Foreign::lines(conflict(&marked))))
                .partial(&json!({ MARKED: marked, "version": newest.version })))
        }
    }
}

const MARK_BEGIN: &str = "<<<<<<< ours";
const MARK_END: &str = ">>>>>>> theirs";

fn is_marked(text: &str) -> bool {
    text.lines().any(|line| line == MARK_BEGIN) && text.lines().any(|line| line == MARK_END)
}

/// The first conflict.
fn conflict(marked: &str) -> String {
    const SHOWN_MAX: usize = 30;
    let lines: Vec<&str> = marked.lines().skip_while(|line| *line != MARK_BEGIN).collect();
    let end = lines.iter().position(|line| *line == MARK_END).map_or(lines.len(), |end| end + 1);
    match end > SHOWN_MAX {
        true => format!("{}\n…", lines[..SHOWN_MAX].join("\n")),
        false => lines[..end].join("\n"),
    }
}

/// The error for a change based on an old version, with the changes since then.
fn stale(office: &Office, name: &ContextName, made_from: u64, error: Error) -> Result<Error> {
    const NAMED_MAX: usize = 8;
    let found = views::context_history(office.store(), name, made_from, NAMED_MAX)?;
    let (versions, more) = found.unwrap_or_default();
    let mut error = versions.iter().rev().fold(error, |error, version| error.cause(version_line(version)));
    if more {
        error = error.cause("and older ones");
    }
    Ok(error.hint(note!("see the difference: " [context diff, name = name, versions = format!("{made_from}..")])))
}
