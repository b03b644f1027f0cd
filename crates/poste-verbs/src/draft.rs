//! Turns a verb's input into the proposal of a message. This is the one struct with all of a message's fields.

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

/// The fields of every verb that sends a message, apart from recipients and subject.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Message {
    /// Body, Markdown
    #[serde(deserialize_with = "input::bytes")]
    #[schemars(with = "String", extend("default" = ""))]
    pub body: Vec<u8>,
    /// Message type, such as question or directive
    #[serde(rename = "type")]
    pub kind: Option<TypeName>,
    /// Importance; default: that of the type
    pub priority: Option<Priority>,
    /// Structured data
    #[schemars(with = "Option<serde_json::Value>")]
    pub payload: Option<Box<RawValue>>,
    /// Related files; size and digest are recorded
    pub artifacts: Vec<PathBuf>,
    /// Files to copy into the office
    pub attach: Vec<PathBuf>,
    /// Files that will be written later; nothing is checked
    pub artifact_later: Vec<PathBuf>,
    /// The conversation to join; default: that of the answered message, or a new one
    pub conversation: Option<Label>,
    /// Whether a response is wanted
    pub wants_response: Option<bool>,
    /// 30m, 2h, or a timestamp
    #[serde(deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub respond_by: Option<When>,
    /// When it expires unless it was taken: 30m, 2h, or a timestamp
    #[serde(deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub expires: Option<When>,
    /// When it is delivered at the earliest: 30m, 2h, or a timestamp
    #[serde(deserialize_with = "input::when")]
    #[schemars(with = "Option<String>")]
    pub not_before: Option<When>,
    /// The workflow it belongs to
    pub workflow: Option<Label>,
    /// The step of that workflow
    pub step: Option<Label>,
    /// A brief context for the request
    pub context: Option<String>,
    /// The expected output
    pub expect: Option<String>,
    /// Things it refers to: message numbers, paths, addresses
    pub references: Vec<String>,
    /// Keys and values of your own
    pub metadata: BTreeMap<String, String>,
    /// Idempotency key: sending again with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

/// The parts of a message that its verb sets.
#[derive(Debug, Default)]
pub struct Heading {
    pub to: Vec<Address>,
    pub subject: String,
    pub reply_to: Option<MessageNo>,
    pub ends: Option<Ends>,
    /// Artifacts of the message that this one forwards.
    pub carried: Vec<Artifact>,
    /// The type unless the input names one.
    pub default_type: &'static str,
}

impl Message {
    /// Records the files and makes header and content.
    pub fn seal(self, desk: &Desk<'_>, mut heading: Heading) -> Result<(Send, Content)> {
        let named = Named { present: &self.artifacts, attached: &self.attach, later: &self.artifact_later };
        let mut artifacts = std::mem::take(&mut heading.carried);
        artifacts.extend(named.record(desk, self.secrets).map_err(suggest_later)?);
        self.with_artifacts(artifacts, heading)
    }

    /// Header and content, with files that were recorded already.
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

/// Parses JSON, and keeps it as it was given. Errors call it `what`: payload, data.
pub fn parse_json(what: &str, json: String) -> Result<Box<RawValue>> {
    RawValue::from_string(json).map_err(|error| Error::usage(format!("{what} is not valid JSON: {error}")))
}

/// Adds a prefix to a subject unless it is there, and cuts the subject to its maximum length.
pub fn prefixed(prefix: &str, subject: &str) -> String {
    if subject.starts_with(prefix) {
        return subject.to_owned();
    }
    let room = poste_core::limits::SUBJECT_BYTES_MAX - prefix.len();
    format!("{prefix}{}", &subject[..subject.floor_char_boundary(room)])
}

/// Refuses a blank text where one is required.
pub fn said<'a>(field: &str, text: &'a str) -> Result<&'a str> {
    match text.trim().is_empty() {
        true => {
            let named = Note::default().field(field, Value::Null);
            Err(Error::worded(Kind::Usage, named.text(" is empty; say it in a few words")))
        }
        false => Ok(text),
    }
}

/// A text on one line of a listing: control characters are replaced.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
