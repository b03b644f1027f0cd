//! Which recipients have answered a message, and which have not.

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::{MessageRows, rows};
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::State;
use crate::time::{Timestamp, rfc3339_option};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Replies {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339_option")]
    pub respond_by: Option<Timestamp>,
    pub recipients: Vec<Reply>,
    pub answered: usize,
    /// Neither answered nor ended.
    pub missing: usize,
    pub as_of: Position,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Reply {
    pub recipient: String,
    pub answer: Option<MessageNo>,
    #[serde(serialize_with = "rfc3339_option")]
    pub answered_at: Option<Timestamp>,
    pub state: State,
}

impl Reply {
    /// No answer is awaited: there is one, or the delivery ended without one.
    pub fn is_settled(&self) -> bool {
        self.answer.is_some() || !self.state.is_open()
    }
}

pub fn replies(store: &Store, number: MessageNo) -> Result<Option<Replies>, Error> {
    store.view(|tables| {
        let Some(MessageRows { message, deliveries, .. }) = rows(store, tables, number)? else { return Ok(None) };
        let recipients: Vec<Reply> = deliveries
            .into_iter()
            .map(|delivery| Reply {
                recipient: delivery.address.to_string(),
                answer: delivery.answer,
                answered_at: delivery.answered_at,
                state: delivery.state,
            })
            .collect();
        Ok(Some(Replies {
            number,
            respond_by: message.respond_by,
            answered: recipients.iter().filter(|reply| reply.answer.is_some()).count(),
            missing: recipients.iter().filter(|reply| !reply.is_settled()).count(),
            as_of: tables.cursor.head.position,
            recipients,
        }))
    })
}
