//! Overdue responses, leases, unclaimed work, and silent agents.

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::health::{SilentAgent, silent_since};
use super::rows::subject;
use crate::error::Error;
use crate::log::{DeliveryNo, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Delivery, Due, Message, State, Tables};
use crate::text::{Name, TypeName};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::TrustLabel;

/// When something counts as late.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For unclaimed work and silent agents.
    pub unclaimed_ms: i64,
    /// Leases that end within this time are listed.
    pub lease_ms: i64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Overdue {
    /// Overdue responses; the longest overdue first.
    pub responses: Vec<LateDelivery>,
    /// Claims whose lease ends soon or has ended.
    pub leases: Vec<LateDelivery>,
    /// Work that has been unclaimed for long; the oldest first.
    pub unclaimed: Vec<LateDelivery>,
    /// Active agents with old mail that have written nothing since.
    pub silent: Vec<SilentAgent>,
    /// Some lists were cut.
    pub more: bool,
    pub as_of: Position,
}

impl Overdue {
    pub fn is_empty(&self) -> bool {
        self.responses.is_empty() && self.leases.is_empty() && self.unclaimed.is_empty() && self.silent.is_empty()
    }
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct LateDelivery {
    pub number: MessageNo,
    pub recipient: String,
    pub from: String,
    /// Where it comes from.
    pub trust: TrustLabel,
    #[serde(rename = "type")]
    pub kind: TypeName,
    pub subject: String,
    pub state: State,
    pub holder: Option<String>,
    #[serde(serialize_with = "rfc3339")]
    pub stored_at: Timestamp,
    /// When it was due: the response, or the end of the lease.
    #[serde(serialize_with = "rfc3339_option")]
    pub due_at: Option<Timestamp>,
    #[serde(serialize_with = "rfc3339_option")]
    pub shown_at: Option<Timestamp>,
    /// When sender and lead were notified.
    #[serde(serialize_with = "rfc3339_option")]
    pub reminded_at: Option<Timestamp>,
}

const LIST_MAX: usize = 100;
/// Old mail examined for one address and priority: mail that asks for no work may pile up before work.
const LOOKED_AT_MAX: usize = 200;

pub fn overdue(store: &Store, patience: Patience, now: Timestamp) -> Result<Overdue, Error> {
    store.view(|tables| {
        let late_before = now.plus_ms(-patience.unclaimed_ms);
        let responses = awaited(tables, now)?;
        let leases = leases_until(tables, now.plus_ms(patience.lease_ms))?;
        let (waiting, is_cut) = waiting_since(tables, late_before)?;
        let mut unclaimed: Vec<&(Message, Delivery)> = waiting.iter().filter(|(message, _)| message.work).collect();
        unclaimed.sort_by_key(|(message, _)| message.number);
        let more = is_cut || [responses.len(), leases.len(), unclaimed.len()].iter().any(|found| *found > LIST_MAX);
        let view = |(message, delivery): &(Message, Delivery), due_at| late(store, tables, message, delivery, due_at);
        Ok(Overdue {
            responses: responses
                .iter()
                .take(LIST_MAX)
                .map(|found| view(found, found.1.respond_by))
                .collect::<Result<_, _>>()?,
            leases: leases
                .iter()
                .take(LIST_MAX)
                .map(|found| view(found, found.1.lease_until))
                .collect::<Result<_, _>>()?,
            unclaimed: unclaimed.into_iter().take(LIST_MAX).map(|found| view(found, None)).collect::<Result<_, _>>()?,
            silent: silent_since(tables, late_before)?,
            more,
            as_of: tables.cursor.head.position,
        })
    })
}

fn late(
    store: &Store,
    tables: &Tables<'_>,
    message: &Message,
    delivery: &Delivery,
    due_at: Option<Timestamp>,
) -> Result<LateDelivery, Error> {
    Ok(LateDelivery {
        number: message.number,
        recipient: delivery.address.to_string(),
        from: message.sender.to_string(),
        trust: message.label,
        kind: message.kind.clone(),
        subject: subject(store, tables, message)?,
        state: delivery.state,
        holder: delivery.holder.as_ref().map(Name::to_string),
        stored_at: message.at,
        due_at,
        shown_at: delivery.shown_at,
        reminded_at: delivery.reminded_at,
    })
}

/// One more than is listed, to know whether there are more.
fn with_messages(tables: &Tables<'_>, numbers: Vec<DeliveryNo>) -> Result<Vec<(Message, Delivery)>, Error> {
    let mut found = Vec::with_capacity(numbers.len());
    for number in numbers {
        let Some(delivery) = tables.delivery(number)? else { continue };
        let Some(message) = tables.message(delivery.message)? else { continue };
        found.push((message, delivery));
    }
    Ok(found)
}

/// Overdue responses: one range of an index that has only awaited ones.
fn awaited(tables: &Tables<'_>, now: Timestamp) -> Result<Vec<(Message, Delivery)>, Error> {
    let numbers = tables.column(
        "SELECT number FROM deliveries
         WHERE respond_by IS NOT NULL AND answer IS NULL AND state <= 1 AND respond_by <= ?1
         ORDER BY respond_by, number LIMIT ?2",
        params![now, LIST_MAX + 1],
    )?;
    with_messages(tables, numbers)
}

fn leases_until(tables: &Tables<'_>, until: Timestamp) -> Result<Vec<(Message, Delivery)>, Error> {
    // The plus keeps SQLite from dropping `what` from the order, because it would then sort the results.
    let sql = "SELECT subject FROM due WHERE at <= ?1 AND +what = ?2 ORDER BY at, what, subject LIMIT ?3";
    with_messages(tables, tables.column(sql, params![until, Due::Lease, LIST_MAX + 1])?)
}

/// Mail of every address that could be claimed and has waited since before a time, each priority separately. Takes a
/// few index lookups per address, regardless of the amount of mail. Also returns whether old mail was left out.
fn waiting_since(tables: &Tables<'_>, before: Timestamp) -> Result<(Vec<(Message, Delivery)>, bool), Error> {
    let mut found = Vec::new();
    let mut is_cut = false;
    let mut address = tables.next_address("")?;
    while let Some(this) = address {
        for rank in 0..=3_u8 {
            let numbers: Vec<DeliveryNo> = tables.column(
                "SELECT number FROM deliveries
                 WHERE address = ?1 AND state = 0 AND ready = 1 AND rank = ?2 ORDER BY message LIMIT ?3",
                params![this, rank, LOOKED_AT_MAX],
            )?;
            let mut old = 0;
            for number in numbers {
                let Some(delivery) = tables.delivery(number)? else { continue };
                let Some(message) = tables.message(delivery.message)? else { continue };
                if message.at > before {
                    break;
                }
                old += 1;
                found.push((message, delivery));
            }
            is_cut = is_cut || old == LOOKED_AT_MAX;
        }
        address = tables.next_address(&this)?;
    }
    Ok((found, is_cut))
}
