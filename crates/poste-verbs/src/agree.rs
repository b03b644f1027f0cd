//! Agrees on a proposal. The last party to agree may write the result into a shared context.

use std::collections::BTreeMap;

use poste_core::Address;
use poste_core::fold::{AgreedOn, Code, Effect};
use poste_core::log::{Agree, Content, Ends, EndsHow, Intent, MessageNo, Position, Send};
use poste_core::text::{ContextName, RecordId};
use poste_core::views::{self, AgreementView, MessageView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::agreement::find;
use crate::context::{self, Change, Replacement, VersionAnswer, store};
use crate::draft::prefixed;
use crate::explain::no_message;
use crate::secret::Secrets;
use crate::{Access, Answered, Desk, Error, Result, Verb};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The proposal's number
    pub number: MessageNo,
    /// Note to the other parties, Markdown
    pub note: Option<String>,
    /// Context to write the result to once all parties have agreed
    pub context: Option<ContextName>,
    /// Key in that context; default: the payload's "interface" or "name"
    pub key: Option<String>,
    /// Idempotency key: repeating the call with it is safe
    pub id: Option<RecordId>,
    #[serde(skip)]
    pub secrets: Secrets,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct Answer {
    #[serde(flatten)]
    pub agreement: AgreementView,
    /// The reply that records the agreement; null if this call sent none.
    pub message: Option<MessageNo>,
    /// Log position of that reply.
    pub position: Option<Position>,
    /// The id was used before; nothing new was stored.
    pub repeat: bool,
    /// The context version that this call wrote.
    pub version: Option<VersionAnswer>,
}

impl Verb for Input {
    const NAME: &'static str = "agree";
    const ACCESS: Access = Access::Writes;
    type Answer = Answer;

    fn run(self, desk: &mut Desk<'_>) -> Result<Answered<Answer>> {
        let number = self.number;
        let proposal = views::message(desk.office.store(), number)?.ok_or_else(|| no_message(number))?;
        // Fail before agreeing if the result could not be written down.
        let record = match &self.context {
            Some(name) => Some(Record::of(desk, &self, &proposal, name)?),
            None => None,
        };
        let id = self.id.clone().unwrap_or_else(|| desk.fresh_id());
        let said = agree(desk, &self, &proposal, &id)?;
        let standing = find(desk, number)?;
        let mut version = None;
        if let Some(record) = &record {
            let name = record.context;
            match standing.agreed {
                true => version = write_down(desk, &self, record, id.then("context"))?,
                false => desk.say(note!("the last party to agree writes it into {name}, with " {context = name})),
            }
        }
        let agreement = find(desk, number)?;
        let (message, position, repeat) = match said {
            Some((agreed, position, repeat)) => (Some(agreed.message), position, repeat),
            None => (None, None, false),
        };
        Ok(Answered::new(Answer { agreement, message, position, repeat, version }))
    }
}

/// Agrees. `None`: the caller agreed before, and now only writes the result down.
fn agree(
    desk: &mut Desk<'_>,
    input: &Input,
    proposal: &MessageView,
    id: &RecordId,
) -> Result<Option<(AgreedOn, Option<Position>, bool)>> {
    let content = Content {
        subject: prefixed("Agreed: ", &proposal.subject),
        body: input.note.as_deref().unwrap_or_default().into(),
        payload: Some(RawValue::from_string(r#"{"status":"accepted"}"#.to_owned()).expect("this is JSON")),
        ..Content::default()
    };
    input.secrets.check(&content)?;
    let mut id = id.clone();
    let mut ends = Some(Ends { message: input.number, how: EndsHow::Replied, token: None });
    loop {
        let mail = Send {
            to: others(desk, proposal)?,
            reply_to: Some(input.number),
            ends: ends.clone(),
            ..Send::plain("response".parse()?, Vec::new())
        };
        let intent = Intent::Agree(Agree { message: input.number, mail });
        let prepared = desk.proposal(intent, Some(content.clone()), Some(id.clone()))?;
        match desk.decide(&prepared) {
            Ok((outcome, Effect::Agreed(agreed))) => return Ok(Some((agreed, outcome.position, outcome.repeat))),
            Ok(_) => return Err(Error::unexpected_effect("the agreement")),
            // The caller's own delivery has ended, by an ack or a reply. It can still agree.
            Err(error) if ends.is_some() && is_about_ending(&error) => {
                ends = None;
                id = id.then("ended");
            }
            Err(error) if error.is(Code::NothingToDo) && input.context.is_some() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
}

/// The proposer and all other active parties. Empty if that is only the proposer, who gets the reply anyway.
fn others(desk: &Desk<'_>, proposal: &MessageView) -> Result<Vec<Address>> {
    let speaker = desk.speaker()?;
    let mut to: Vec<Address> = vec![Address::Agent(proposal.from.parse()?)];
    for address in &proposal.to {
        let Address::Agent(name) = address.parse::<Address>()? else { continue };
        let is_other = name != speaker && name.as_str() != proposal.from;
        if is_other && desk.office.agent(&name)?.is_some_and(|agent| agent.is_active()) {
            to.push(Address::Agent(name));
        }
    }
    Ok(if to.len() == 1 { Vec::new() } else { to })
}

fn is_about_ending(error: &Error) -> bool {
    let codes =
        [Code::Ended, Code::NotClaimed, Code::LeaseLost, Code::AlreadyClaimed, Code::NotReady, Code::NotRecipient];
    codes.into_iter().any(|code| error.is(code))
}

/// What to write to which context.
struct Record<'a> {
    context: &'a ContextName,
    key: String,
    payload: Box<RawValue>,
}

impl<'a> Record<'a> {
    fn of(desk: &Desk<'_>, input: &Input, proposal: &MessageView, context: &'a ContextName) -> Result<Self> {
        context::view(desk.office, context, None)?;
        let payload = proposal.payload.clone().ok_or_else(|| {
            Error::refused(format!("message {} has no payload to write down", input.number))
                .hint(note!("propose it with a payload, and agree on that: " [send, to = "NAME", subject = "SUBJECT", payload = "JSON"]))
        })?;
        let key = match &input.key {
            Some(key) => key.clone(),
            None => key_of(&payload)?,
        };
        Ok(Self { context, key, payload })
    }
}

/// Adds the payload to the structured part of a context, next to its other keys. `None`: it was written before.
fn write_down(desk: &mut Desk<'_>, input: &Input, record: &Record<'_>, id: RecordId) -> Result<Option<VersionAnswer>> {
    let Record { context: name, key, payload } = record;
    let number = input.number;
    let mut change = Change { summary: Some(format!("{key} is agreed")), id: None, secrets: input.secrets };
    // Other agents may add their keys at the same time. Keep those, and try again.
    const TRIES_MAX: usize = 100;
    for _ in 0..TRIES_MAX {
        let written = find(desk, number)?.written;
        if let Some(written) = written.iter().find(|written| written.context == **name) {
            desk.say(format!("already written into context {name}, as version {}", written.version));
            return Ok(None);
        }
        change.id = Some(desk.free_id(&id)?);
        let view = context::view(desk.office, name, None)?;
        let mut data: BTreeMap<String, Box<RawValue>> = match &view.data {
            Some(data) => serde_json::from_str(data.get())
                .map_err(|error| Error::internal(format!("the data of context {name} cannot be read: {error}")))?,
            None => BTreeMap::new(),
        };
        data.insert(key.clone(), payload.clone());
        let data = serde_json::value::to_raw_value(&data).map_err(|error| Error::internal(error.to_string()))?;
        let replacement = Replacement { text: None, data: Some(data), merge: false, agreement: Some(number) };
        match store(desk, name, view.version, &replacement, &change) {
            Ok(answer) => {
                return Ok(Some(answer));
            }
            Err(error) if error.is(Code::StaleVersion) => {}
            Err(error) => {
                return Err(
                    error.hint(note!("it is agreed; write it down with: " [agree, number = number, context = name]))
                );
            }
        }
    }
    Err(Error::conflict(format!("context {name} changes too often to be written to"))
        .hint(note!("lock it first: " [context lock, name = name])))
}

/// The name in the payload, used as its key.
fn key_of(payload: &RawValue) -> Result<String> {
    let fields: Option<BTreeMap<String, &RawValue>> = serde_json::from_str(payload.get()).ok();
    let named = fields.and_then(|fields| {
        ["interface", "name"].iter().find_map(|key| serde_json::from_str::<String>(fields.get(*key)?.get()).ok())
    });
    named.filter(|key| !key.is_empty()).ok_or_else(|| {
        Error::usage("no key: the payload has neither \"interface\" nor \"name\"")
            .hint(note!("name it: " {key = "KEY"}))
    })
}
