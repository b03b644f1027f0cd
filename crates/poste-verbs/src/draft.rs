//! A message on its way from an input to a proposal: the one struct that has a message's fields.

use std::collections::BTreeMap;
use std::path::PathBuf;

use poste_core::Address;
use poste_core::log::{Artifact, Body, Content, Ends, MessageNo, Send};
use poste_core::text::{Label, RecordId, TypeName};
use poste_core::time::When;
use poste_core::vocabulary::Priority;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::artifacts::{Named, suggest_later};
use crate::secret::Secrets;
use crate::{Desk, Error, Kind, Note, Result, input};

/// What every verb that sends a message takes, apart from whom it is for and its subject.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Message {
    /// Markdown
    #[serde(deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub body: Vec<u8>,
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    pub priority: Option<Priority>,
    /// Structured data
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    /// Files it speaks of; size and digest are recorded
    pub artifacts: Vec<PathBuf>,
    /// Files to copy into the office
    pub attach: Vec<PathBuf>,
    /// Files that will come; nothing is checked
    pub artifact_later: Vec<PathBuf>,
    pub conversation: Option<Label>,
    pub wants_response: Option<bool>,
    /// 30m, 2h, or a moment
    #[serde(deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub respond_by: Option<When>,
    #[serde(deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<When>,
    #[serde(deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub not_before: Option<When>,
    pub workflow: Option<Label>,
    pub step: Option<Label>,
    pub context: Option<String>,
    pub expect: Option<String>,
    pub references: Vec<String>,
    pub metadata: BTreeMap<String, String>,
    /// With an id of its own a message can be sent again without a second effect
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// What a verb says about the message it sends.
#[derive(Debug, Default)]
pub struct Heading {
    pub to: Vec<Address>,
    pub subject: String,
    pub reply_to: Option<MessageNo>,
    pub ends: Option<Ends>,
    /// Recorded before, in the message this one passes on.
    pub carried: Vec<Artifact>,
    /// The type of a message that names none.
    pub default_type: &'static str,
}

impl Message {
    /// Looks at the files and makes header and content.
    pub fn seal(self, desk: &Desk<'_>, mut heading: Heading) -> Result<(Send, Content)> {
        let named = Named { present: &self.artifacts, attached: &self.attach, later: &self.artifact_later };
        let mut artifacts = std::mem::take(&mut heading.carried);
        artifacts.extend(named.record(desk).map_err(suggest_later)?);
        self.with_artifacts(artifacts, heading)
    }

    /// Header and content, once its files were looked at.
    pub(crate) fn with_artifacts(self, artifacts: Vec<Artifact>, heading: Heading) -> Result<(Send, Content)> {
        let kind = match self.kind {
            Some(kind) => kind,
            None => heading.default_type.parse()?,
        };
        let header = Send {
            to: heading.to,
            kind,
            priority: self.priority,
            reply_to: heading.reply_to,
            conversation: self.conversation,
            wants_response: self.wants_response,
            respond_by: self.respond_by,
            expires: self.expires,
            not_before: self.not_before,
            workflow: self.workflow,
            step: self.step,
            artifacts,
            ends: heading.ends,
        };
        let content = Content {
            subject: heading.subject,
            body: Body(self.body),
            payload: self.payload,
            context: self.context,
            expect: self.expect,
            references: self.references,
            metadata: self.metadata,
            ..Content::default()
        };
        content.check_message().map_err(Error::usage)?;
        self.secrets.check(&content)?;
        Ok((header, content))
    }
}

/// Keeps JSON as it is given.
pub fn parse_payload(json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|error| Error::usage(format!("the payload is no JSON: {error}")))
}

/// A subject with a prefix, once, and not longer than a subject may be.
pub fn prefixed(prefix: &str, subject: &str) -> String {
    if subject.starts_with(prefix) {
        return subject.to_owned();
    }
    let room = poste_core::limits::SUBJECT_BYTES_MAX - prefix.len();
    format!("{prefix}{}", &subject[..subject.floor_char_boundary(room)])
}

/// A text that must say something: whoever reads it later has nothing else.
pub fn said<'a>(field: &str, text: &'a str) -> Result<&'a str> {
    match text.trim().is_empty() {
        true => {
            let named = Note::default().field(field, Value::Null);
            Err(Error::worded(Kind::Usage, named.text(" is empty; say it in a few words")))
        }
        false => Ok(text),
    }
}

/// A text in a listing that has one line for each, whatever it holds.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
