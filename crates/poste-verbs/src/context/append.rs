//! Appends a dated section to a context. It never conflicts.

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
    /// The context's name
    pub name: ContextName,
    /// The section, Markdown
    pub text: String,
    /// Heading; default: the time and your name
    pub title: Option<String>,
    /// One-line summary for subscribers and the history
    pub summary: Option<String>,
    /// Idempotency key: repeating the call with it is safe
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
        let Some(first) = first else { return Err(Error::usage("the section is empty")) };
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

/// Refuses a section that makes the text too long to be edited. A known id is handled as a repeat instead.
fn has_room(desk: &Desk<'_>, name: &ContextName, section_bytes: usize, id: Option<&RecordId>) -> Result {
    if desk.is_known(id)? {
        return Ok(());
    }
    let text_bytes = views::context(desk.office.store(), name, None)?.map_or(0, |view| view.text.len());
    // The heading of a section with its time and name.
    const HEADING_BYTES_MAX: usize = 256;
    let max = limits::DOCUMENT_BYTES_MAX;
    if text_bytes + section_bytes + HEADING_BYTES_MAX <= max {
        return Ok(());
    }
    Err(Error::refused(format!("the text of context {name} would exceed {max} bytes"))
        .code(Code::TooLarge.word())
        .hint(note!("shorten it first: " [context edit, name = name] "; or start another context")))
}
