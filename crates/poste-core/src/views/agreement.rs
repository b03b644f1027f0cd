//! Agreements: the state of a proposal, and where it was written down.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::rows::{rows, subject};
use crate::address::Address;
use crate::error::Error;
use crate::fold;
use crate::log::MessageNo;
use crate::store::Store;
use crate::store::tables::{Party, Tables};
use crate::text::{ContextName, Label, Name, TypeName};
use crate::time::{Timestamp, rfc3339_option};

/// A proposal and the answer of each party.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct AgreementView {
    pub proposal: MessageNo,
    pub conversation: Label,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub from: Name,
    pub subject: String,
    /// Includes the proposer, who agrees by proposing.
    pub parties: Vec<PartyView>,
    /// All parties have agreed, and no newer proposal has replaced it.
    pub agreed: bool,
    /// The newest proposal of the conversation, if it is not this one.
    pub superseded_by: Option<MessageNo>,
    /// Shared contexts it was written down in.
    pub written: Vec<WrittenView>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PartyView {
    /// An agent, or a group that one member answers for.
    pub party: String,
    pub agreed_by: Option<Name>,
    #[serde(serialize_with = "rfc3339_option")]
    pub at: Option<Timestamp>,
    /// The reply that agrees.
    pub message: Option<MessageNo>,
    /// It is a retired agent, so it will not answer.
    pub retired: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WrittenView {
    pub context: ContextName,
    pub version: u64,
    /// The newest data still has it; null if content of either was erased.
    pub stands: Option<bool>,
}

impl PartyView {
    fn of(tables: &Tables<'_>, party: Party) -> Result<Self, Error> {
        let agreed = party.agreed;
        let retired = match &party.party {
            Address::Agent(name) => tables.is_active(name.as_str())? == Some(false),
            _ => false,
        };
        Ok(Self {
            retired,
            party: party.party.to_string(),
            at: agreed.as_ref().map(|agreed| agreed.at),
            message: agreed.as_ref().and_then(|agreed| agreed.message),
            agreed_by: agreed.map(|agreed| agreed.agent),
        })
    }
}

/// The state of a proposal. `None`: there is no such message.
pub fn agreement(store: &Store, number: MessageNo) -> Result<Option<AgreementView>, Error> {
    let found = standing(store, number)?;
    let Some(mut view) = found else { return Ok(None) };
    if view.written.is_empty() {
        return Ok(Some(view));
    }
    let agreed = super::message(store, number)?.and_then(|message| message.payload);
    let agreed: Option<Value> = agreed.and_then(|payload| serde_json::from_str(payload.get()).ok());
    for written in &mut view.written {
        written.stands = stands(store, &written.context, agreed.as_ref())?;
    }
    Ok(Some(view))
}

/// Whether the newest data of a context has what was agreed, under any key.
fn stands(store: &Store, context: &ContextName, agreed: Option<&Value>) -> Result<Option<bool>, Error> {
    let (Some(agreed), Some(view)) = (agreed, super::context(store, context, None)?) else { return Ok(None) };
    if !view.redacted.is_empty() {
        return Ok(None);
    }
    let data = view.data.and_then(|data| serde_json::from_str::<BTreeMap<String, Value>>(data.get()).ok());
    Ok(Some(data.is_some_and(|data| data.values().any(|value| value == agreed))))
}

fn standing(store: &Store, number: MessageNo) -> Result<Option<AgreementView>, Error> {
    store.view(|tables| {
        let Some(found) = rows(store, tables, number)? else { return Ok(None) };
        let message = found.message;
        let mut parties = tables.parties(number)?;
        let is_begun = !parties.is_empty();
        if !is_begun {
            parties = fold::asked(tables, &message)?;
        }
        let superseded_by = fold::superseded_by(tables, &message)?;
        let all = is_begun && parties.iter().all(|party| party.agreed.is_some());
        let written = tables.written_down(number)?;
        Ok(Some(AgreementView {
            proposal: number,
            subject: subject(store, tables, &message)?,
            conversation: message.conversation,
            kind: message.kind,
            from: message.sender,
            agreed: all && superseded_by.is_none(),
            parties: parties.into_iter().map(|party| PartyView::of(tables, party)).collect::<Result<_, _>>()?,
            superseded_by,
            written: written
                .into_iter()
                .map(|(context, version)| WrittenView { context, version, stands: None })
                .collect(),
        }))
    })
}
