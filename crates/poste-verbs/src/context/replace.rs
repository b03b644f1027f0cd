//! Replaces a context's text, and its structured part if one is given.

use poste_core::document;
use poste_core::store::mirror::TakenOver;
use poste_core::text::{ContextName, RecordId};
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Change, EditAnswer, Replacement, follow_mirror, follow_repeat, store, view};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Kind, Result, Touch, Verb};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// The whole text, Markdown
    pub text: Option<String>,
    /// The structured part, a JSON object
    #[schemars(with = "Option<serde_json::Value>")]
    pub data: Option<Box<RawValue>>,
    /// The version it is based on
    pub if_version: Option<u64>,
    /// Merge with changes made since that version, unless the same lines changed
    #[serde(default)]
    pub merge: bool,
    /// One-line summary for subscribers and the history
    pub summary: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    /// The text comes from the mirror file, which follows the log again once the text is stored.
    #[serde(skip)]
    pub from_mirror: bool,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "context replace";
    const ACCESS: Access = Access::Writes;
    const TOUCHES: &'static [(&'static str, Touch)] =
        &[("file", Touch::ReadsFiles), ("from_mirror", Touch::CommandLine)];
    type Answer = EditAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<EditAnswer>> {
        let name = self.name;
        let mut if_version = self.if_version;
        // A file from the mirror has a header and a history around its text, and names the version it is based on.
        let text = self.text.as_deref().map(|text| match views::markdown_parts(&name, text) {
            Some(parts) => {
                if_version = if_version.or(Some(parts.version));
                parts.text
            }
            None => text,
        });
        let text = text.map(document::ended);
        let if_version = if_version.ok_or_else(|| {
            Error::worded(Kind::Usage, note!("missing " {if_version} ": the version it is based on"))
                .hint(note!("see the newest version: " [context show, name = name]))
        })?;
        let replacement = Replacement { text, data: self.data, merge: self.merge, agreement: None };
        let change = Change { summary: self.summary, id: self.id, secrets: self.secrets };
        let answer = match unchanged(desk, &name, if_version, &replacement, change.id.as_ref())? {
            Some(answer) => {
                desk.say("nothing changed, nothing stored");
                answer
            }
            None => EditAnswer::Saved(store(desk, &name, if_version, &replacement, &change)?),
        };
        let edited = self.text.as_deref().filter(|_| self.from_mirror);
        take_over(desk, &name, if_version, edited)?;
        match &answer {
            EditAnswer::Saved(saved) => follow_repeat(desk, saved),
            EditAnswer::Unchanged { .. } => follow_mirror(desk, &name),
        }
        Ok(Answered::new(answer))
    }
}

/// Lets the mirror follow the log again once its edit is in the log and cannot be lost.
fn take_over(desk: &mut Desk<'_>, name: &ContextName, made_from: u64, edited: Option<&str>) -> Result {
    if let Some(edited) = edited {
        match desk.office.take_over_mirror(name, made_from, edited)? {
            TakenOver::Whole => {}
            TakenOver::TextOnly(path) => {
                let path = path.display();
                desk.warn(format!("only the text was stored; edits outside it are only in {path}"));
            }
            // The file changed after it was read.
            TakenOver::Changed => {}
        }
    }
    Ok(())
}

/// The answer if the text equals the newest version's. A known id is handled as a repeat instead.
fn unchanged(
    desk: &Desk<'_>,
    name: &ContextName,
    made_from: u64,
    replacement: &Replacement,
    id: Option<&RecordId>,
) -> Result<Option<EditAnswer>> {
    let (Some(text), None) = (&replacement.text, &replacement.data) else { return Ok(None) };
    if desk.is_known(id)? {
        return Ok(None);
    }
    let newest = view(desk.office, name, None)?;
    let is_same = newest.version == made_from && newest.text == *text;
    Ok(is_same.then(|| EditAnswer::Unchanged { context: name.clone(), version: newest.version, unchanged: true }))
}
