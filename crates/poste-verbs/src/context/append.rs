//! Adds a dated section at the end of a context; it never conflicts.

use poste_core::document;
use poste_core::fold::Code;
use poste_core::limits;
use poste_core::log::{ContextAppend, Document, Intent, context_mail};
use poste_core::text::{ContextName, RecordId};
use poste_core::views;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{VersionAnswer, check_lock, content, follow_repeat, propose};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: ContextName,
    /// Markdown
    pub text: String,
    /// Its heading; otherwise the time and your name
    pub title: Option<String>,
    /// What subscribers and the history are told, in one line
    pub summary: Option<String>,
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "context append";
    const ACCESS: Access = Access::Writes;
    type Answer = VersionAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<VersionAnswer>> {
        let name = self.name;
        let first = self.text.lines().map(str::trim).find(|line| !line.is_empty());
        let Some(first) = first else { return Err(Error::usage("the section is empty; say something")) };
        let summary = self.summary.or_else(|| self.title.clone()).unwrap_or_else(|| first.to_owned());
        let lines = document::count_all(&self.text);
        let section_bytes = self.text.len() + self.title.as_ref().map_or(0, String::len);
        let text = Some(document::ended(&self.text));
        let document = Document { title: self.title, text, ..Document::default() };
        let content = content(desk, &name, "appended to", lines, &summary, document, self.secrets)?;
        let header = ContextAppend { mail: context_mail(&name), name: name.clone(), lines };
        has_room(desk, &name, section_bytes, self.id.as_ref())?;
        let proposal = desk.proposal(Intent::ContextAppend(header), Some(content), self.id)?;
        check_lock(desk, &name, &proposal)?;
        let answer = propose(desk, &proposal, lines)?;
        follow_repeat(desk, &answer);
        Ok(Answered::new(answer))
    }
}

/// The whole text must stay one that can be edited and replaced. What was stored under an id is a repeat all the same.
fn has_room(desk: &Desk<'_>, name: &ContextName, section_bytes: usize, id: Option<&RecordId>) -> Result {
    if desk.is_known(id)? {
        return Ok(());
    }
    let text_bytes = views::context(desk.office.store(), name, None)?.map_or(0, |view| view.text.len());
    // The time and the name above a section.
    const HEADING_BYTES_MAX: usize = 256;
    let max = limits::DOCUMENT_BYTES_MAX;
    if text_bytes + section_bytes + HEADING_BYTES_MAX <= max {
        return Ok(());
    }
    Err(Error::refused(format!("the text of context {name} would have more than {max} bytes"))
        .code(Code::TooLarge.word())
        .hint(note!("shorten it first: " [context edit, name = name] "; or begin another context")))
}
