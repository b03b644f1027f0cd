//! Replacing what a version says: refused if it was made from an old one, or merged and tried again.

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

/// What to put in the place of a version.
#[derive(Debug, Clone, Default)]
pub struct Replacement {
    pub text: Option<String>,
    pub data: Option<Box<RawValue>>,
    pub merge: bool,
    /// The proposal it writes down, on which everybody has agreed.
    pub agreement: Option<MessageNo>,
}

/// The key of an error's partial answer: both texts, with the lines marked that both changed.
pub const MARKED: &str = "marked";

/// Stores a replacement. Made from an old version it is refused, or merged and tried again, as often as it takes.
pub fn store(
    desk: &mut Desk<'_>,
    name: &ContextName,
    made_from: u64,
    replacement: &Replacement,
    change: &Change,
) -> Result<VersionAnswer> {
    if replacement.text.as_deref().is_some_and(is_marked) {
        return Err(Error::usage("the text still has the marks of a conflict in it")
            .hint("choose between what is above and below =======, take the marks out, and try again"));
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
        // Counted against what is replaced, which only merging makes another than it was made from.
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
                        error.hint(note!("put both changes together: " {merge = true}))
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
    Err(Error::conflict(format!("context {name} changes faster than a merge can follow"))
        .hint(note!("lock it first: " [context lock, name = name])))
}

/// The key of the content's metadata that keeps what was to be merged, as a digest.
const UNMERGED: &str = "unmerged";

fn unmerged(replacement: &Replacement) -> String {
    let data = replacement.data.as_deref().map(RawValue::get);
    let both = serde_json::to_vec(&(&replacement.text, data)).expect("plain text always encodes");
    poste_core::Digest::of(&both).to_string()
}

/// A merge under an id may have had to be made from another version than the one it is asked for with.
fn stored_before(
    desk: &Desk<'_>,
    name: &ContextName,
    id: &RecordId,
    replacement: &Replacement,
) -> Result<Option<VersionAnswer>> {
    let store = desk.office.store();
    let Some(id) = desk.tried_ids(id)?.pop() else { return Ok(None) };
    let Some((made, position)) = views::version_of_id(store, name, &desk.speaker()?, &id)? else { return Ok(None) };
    // Words that were erased cannot be compared any more; they were stored, and that is what is asked.
    let stored = views::message(store, made.message)?.filter(|stored| !stored.content_gone);
    if let Some(stored) = stored
        && stored.metadata.get(UNMERGED) != Some(&unmerged(replacement))
    {
        return Err(Error::conflict(format!("the id was used for something else at record {position}"))
            .code(Code::IdConflict.word())
            .hint("an id is for one write for ever; take another one"));
    }
    let position = Some(position);
    Ok(Some(VersionAnswer { made, added: None, removed: None, merged: false, id, position, repeat: true }))
}

/// Both changes together; or what stands against it.
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
        return Err(stale.cause("the structured part was changed too, and is not merged"));
    }
    let Some(mine) = &replacement.text else { return Ok(None) };
    match document::merge(&base.text, mine, &newest.text) {
        Ok(text) => Ok(Some(text)),
        Err(marked) => {
            let message = format!("{}: both changed the same lines", stale.message);
            Err(Error::conflict(message)
                .code(Code::StaleVersion.word())
                .cause(conflict(&marked))
                .partial(&json!({ MARKED: marked, "version": newest.version })))
        }
    }
}

const MARK_BEGIN: &str = "<<<<<<< ours";
const MARK_END: &str = ">>>>>>> theirs";

fn is_marked(text: &str) -> bool {
    text.lines().any(|line| line == MARK_BEGIN) && text.lines().any(|line| line == MARK_END)
}

/// The first lines that both changed.
fn conflict(marked: &str) -> String {
    const SHOWN_MAX: usize = 30;
    let lines: Vec<&str> = marked.lines().skip_while(|line| *line != MARK_BEGIN).collect();
    let end = lines.iter().position(|line| *line == MARK_END).map_or(lines.len(), |end| end + 1);
    match end > SHOWN_MAX {
        true => format!("{}\n…", lines[..SHOWN_MAX].join("\n")),
        false => lines[..end].join("\n"),
    }
}

/// A change was made from an old version: who changed what since, and what helps.
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
