//! Replaces the text of a version, and its structured part if one is given.

use poste_core::document;
use poste_core::store::mirror::TakenOver;
use poste_core::text::{ContextName, RecordId};
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Change, EditAnswer, Replacement, follow_mirror, follow_repeat, store, view};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Kind, Result, Verb};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: ContextName,
    /// The whole text, Markdown
    pub text: Option<String>,
    /// The structured part, a JSON object
    #[schemars(with = "Option<serde_json::Value>")]
    pub data: Option<Box<RawValue>>,
    /// The version it was made from
    pub if_version: Option<u64>,
    /// If others have changed it since: put both changes together, as long as they are in different places
    #[serde(default)]
    pub merge: bool,
    /// What subscribers and the history are told, in one line
    pub summary: Option<String>,
    pub id: Option<RecordId>,
    /// The text is that of the mirrored file, which follows the log again once it is stored.
    #[serde(skip)]
    pub from_mirror: bool,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "context replace";
    const ACCESS: Access = Access::Writes;
    const BY_HAND: &'static [&'static str] = &["file"];
    type Answer = EditAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<EditAnswer>> {
        let name = self.name;
        let mut if_version = self.if_version;
        // A file that was edited in the mirror has a header and a history around its text, and says what it was made from.
        let text = self.text.as_deref().map(|text| match views::markdown_parts(&name, text) {
            Some(parts) => {
                if_version = if_version.or(Some(parts.version));
                parts.text
            }
            None => text,
        });
        let text = text.map(document::ended);
        let if_version = if_version.ok_or_else(|| {
            Error::worded(Kind::Usage, note!("which version was it made from? " {if_version} " is missing"))
                .hint(note!("see the newest: " [context show, name = name]))
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

/// The mirror follows again once what was edited in it is in the log: nothing of it is lost then.
fn take_over(desk: &mut Desk<'_>, name: &ContextName, made_from: u64, edited: Option<&str>) -> Result {
    if let Some(edited) = edited {
        match desk.office.take_over_mirror(name, made_from, edited)? {
            TakenOver::Whole => {}
            TakenOver::TextOnly(path) => {
                let path = path.display();
                desk.warn(format!("only the text was stored; what was written around it stands in {path} alone"));
            }
            // Somebody wrote to it since it was read.
            TakenOver::Changed => {}
        }
    }
    Ok(())
}

/// A text that is the newest one already is no version. What was stored under an id is a repeat all the same.
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
