//! Dead letters: deliveries that ended badly and were neither retried nor dropped.

use schemars::JsonSchema;
use serde::Serialize;

use super::rows::subject;
use super::track::said;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{EndReason, State};
use crate::text::TypeName;
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::TrustLabel;

#[derive(Debug, Clone, Default)]
pub struct DeadQuery {
    pub state: Option<State>,
    pub from: Option<String>,
    /// Dropped ones, instead of those that wait for a decision.
    pub dropped: bool,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeadLetters {
    /// The newest first.
    pub letters: Vec<DeadLetter>,
    /// There are more than this page shows.
    pub more: bool,
    pub as_of: Position,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct DeadLetter {
    pub number: MessageNo,
    pub recipient: String,
    pub from: String,
    /// Where it comes from.
    pub trust: TrustLabel,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub subject: String,
    pub state: State,
    pub reason: Option<EndReason>,
    /// The reason given by the agent that ended it.
    pub said: Option<String>,
    pub attempts: u32,
    pub max_attempts: u32,
    #[serde(serialize_with = "rfc3339")]
    pub ended_at: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub dropped_at: Option<Timestamp>,
}

/// Maximum number of deliveries examined for one page, even if few of them match.
const LOOKED_AT_MAX: usize = 10_000;

pub fn dead_letters(store: &Store, query: &DeadQuery) -> Result<DeadLetters, Error> {
    store.view(|tables| {
        // An index holds only deliveries that ended badly: undecided ones together, newest last.
        let sql = if query.dropped {
            "SELECT number FROM deliveries WHERE state >= 3 AND dropped_at IS NOT NULL ORDER BY dropped_at DESC LIMIT ?1"
        } else {
            "SELECT number FROM deliveries WHERE state >= 3 AND dropped_at IS NULL
             ORDER BY ended_by DESC, number DESC LIMIT ?1"
        };
        let mut statement = tables.conn().prepare_cached(sql)?;
        let mut rows = statement.query([LOOKED_AT_MAX])?;
        let mut page = DeadLetters { letters: Vec::new(), more: false, as_of: tables.cursor.head.position };
        let mut looked_at = 0;
        while let Some(row) = rows.next()? {
            looked_at += 1;
            // After the last one examined, there may be more.
            page.more = looked_at == LOOKED_AT_MAX;
            let number: DeliveryNo = row.get(0)?;
            let Some(delivery) = tables.delivery(number)? else { continue };
            let Some(message) = tables.message(delivery.message)? else { continue };
            let is_wanted = query.state.is_none_or(|state| delivery.state == state)
                && query.from.as_ref().is_none_or(|from| message.sender.as_str() == from);
            if !is_wanted {
                continue;
            }
            if page.letters.len() == query.limit {
                page.more = true;
                break;
            }
            let by_recipient = matches!(delivery.state, State::Failed | State::Dead)
                || delivery.reason == Some(EndReason::GateFailed);
            let said = match delivery.ended_by.filter(|_| by_recipient) {
                Some(position) => said(store, position)?,
                None => None,
            };
            page.letters.push(DeadLetter {
                subject: subject(store, tables, &message)?,
                number: message.number,
                recipient: delivery.address.to_string(),
                from: message.sender.to_string(),
 trust: message.label,
                kind: message.kind,
                state: delivery.state,
                reason: delivery.reason,
                said,
                attempts: delivery.attempts,
                max_attempts: message.max_attempts,
                ended_at: delivery.ended_at.unwrap_or(message.at),
                dropped_at: delivery.dropped_at,
            });
        }
        Ok(page)
    })
}
