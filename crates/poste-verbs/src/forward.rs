//! Forwards a message, which ends the caller's own delivery.

use poste_core::Address;
use poste_core::log::{Ends, EndsHow, MessageNo, Position};
use poste_core::text::RecordId;
use poste_core::time::When;
use poste_core::views::{self, MessageView};
use poste_core::vocabulary::Priority;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::draft::{Heading, Message, prefixed};
use crate::explain::no_message;
use crate::input::{self, Recipients};
use crate::secret::Secrets;
use crate::send::{Answer, send};
use crate::{Access, Answered, Desk, Result, Verb};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The message's number
    pub number: MessageNo,
    /// The new recipients: one address, several separated by commas, or a list
    #[serde(deserialize_with = "input::recipients")]
    #[schemars(with = "Recipients")]
    pub to: Vec<Address>,
    /// Note to the new recipients
    pub note: Option<String>,
    /// Importance; default: that of the original
    pub priority: Option<Priority>,
    /// The claim's token; optional in the session that claimed it, and for a first claim
    pub token: Option<Position>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

impl Verb for Input {
    const NAME: &'static str = "forward";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let original = views::message(desk.office.store(), self.number)?.ok_or_else(|| no_message(self.number))?;
        let body = forwarded_body(&original, self.note.as_deref());
        let heading = Heading {
            to: self.to,
            subject: prefixed("Fwd: ", &original.subject),
            ends: Some(Ends { message: self.number, how: EndsHow::Forwarded, token: self.token }),
            carried: original.artifacts,
            default_type: "message",
            ..Heading::default()
        };
        let message = Message {
            body,
            kind: Some(original.kind),
            priority: Some(self.priority.unwrap_or(original.priority)),
            payload: original.payload,
            wants_response: Some(original.wants_response),
            respond_by: original.respond_by.map(When::At),
            workflow: original.workflow,
            step: original.step,
            context: original.context,
            expect: original.expect,
            references: original.references,
            metadata: original.metadata,
            id: self.id,
            secrets: self.secrets,
            ..Message::default()
        };
        send(desk, message, heading)
    }
}

/// The note, a line with the origin, then the original body byte for byte.
fn forwarded_body(original: &MessageView, note: Option<&str>) -> Vec<u8> {
    let note = note.map(|note| format!("{note}\n\n")).unwrap_or_default();
    let origin = format!("{note}Forwarded #{} from {} ({}):\n\n", original.number, original.from, original.trust);
    [origin.as_bytes(), &original.body_bytes].concat()
}
