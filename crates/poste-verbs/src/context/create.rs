//! Creates a context, at version 1.

use poste_core::document;
use poste_core::log::{ContextCreate, Document, Intent, context_mail};
use poste_core::text::{ContextName, RecordId, Word};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{VersionAnswer, content, follow_repeat, propose};
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The context's name
    pub name: ContextName,
    /// The initial text, Markdown
    #[serde(default)]
    pub text: String,
    /// Its purpose: api-contracts, decisions, data-models, standards, integration, or a word of your own
    #[serde(default = "notes")]
    pub kind: Word,
    /// The structured part, a JSON object
    #[schemars(with = "Option<serde_json::Value>")]
    pub data: Option<Box<RawValue>>,
    /// JSON Schema that the structured part must conform to
    #[schemars(with = "Option<serde_json::Value>")]
    pub schema: Option<Box<RawValue>>,
    /// One-line summary for subscribers and the history
    pub summary: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// The default kind.
pub fn notes() -> Word {
    "notes".parse().expect("a plain word")
}

impl Verb for Input {
    const NAME: &'static str = "context create";
    const ACCESS: Access = Access::Writes;
    type Answer = VersionAnswer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<VersionAnswer>> {
        let name = self.name;
        let lines = document::count_all(&self.text);
        let text = Some(document::ended(&self.text));
        let document = Document { title: None, text, data: self.data, schema: self.schema };
        let header = ContextCreate {
            kind: self.kind,
            lines,
            data: document.data.is_some(),
            schema: document.schema.is_some(),
            mail: context_mail(&name),
            name: name.clone(),
        };
        let summary = self.summary.as_deref().unwrap_or("created");
        let content = content(desk, &name, "created", lines, summary, document, self.secrets)?;
        let proposal = desk.proposal(Intent::ContextCreate(header), Some(content), self.id)?;
        let answer = propose(desk, &proposal, lines)?;
        follow_repeat(desk, &answer);
        let topic = format!("context.{name}");
        Ok(Answered::new(answer).next(note!("get notified of changes: " [subscribe, topic = topic])))
    }
}
