//! Agents that do not respond, and mail that no agent can take.
//!
//! The queries read little: addresses are found by skipping through an index, silent agents by the newest records.

use schemars::JsonSchema;
use serde::Serialize;

use super::COUNT_MAX;
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Event, Tables};
use crate::text::{Name, Session};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::AgentKind;

/// Open mail that no agent can take.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unreachable {
    pub address: String,
    /// Why: `unregistered`, `retired` or `no_member`.
    pub why: &'static str,
    /// Counting stops at a thousand.
    pub open: u64,
    pub oldest: MessageNo,
}

/// Every address with open mail that no active agent may take.
pub fn unreachable_mail(store: &Store) -> Result<Vec<Unreachable>, Error> {
    store.view(|tables| {
        let mut found = Vec::new();
        let mut next = tables.next_address("")?;
        while let Some(text) = next {
            if let Some(why) = why_unreachable(tables, &text)? {
                found.extend(open_mail(tables, &text, why)?);
            }
            next = tables.next_address(&text)?;
        }
        Ok(found)
    })
}

fn why_unreachable(tables: &Tables<'_>, text: &str) -> Result<Option<&'static str>, Error> {
    Ok(match text.parse() {
        Ok(Address::Agent(name)) => match tables.agent(name.as_str())? {
            None => Some("unregistered"),
            Some(agent) if !agent.is_active() => Some("retired"),
            Some(_) => None,
        },
        Ok(Address::Role(role)) => tables.active_with_role(&role)?.is_empty().then_some("no_member"),
        Ok(Address::Can(word)) => tables.active_with_capability(&word)?.is_empty().then_some("no_member"),
        Ok(_) => None,
        Err(_) => Some("unregistered"),
    })
}

fn open_mail(tables: &Tables<'_>, address: &str, why: &'static str) -> Result<Option<Unreachable>, Error> {
    let sql = format!(
        "SELECT count(*), min(message) FROM
         (SELECT message FROM deliveries WHERE address = ?1 AND state <= 1 LIMIT {COUNT_MAX})"
    );
    let (open, oldest) = tables.one::<(u64, Option<MessageNo>)>(&sql, [address])?.unwrap_or_default();
    Ok(oldest.map(|oldest| Unreachable { address: address.to_owned(), why, open, oldest }))
}

/// An inactive agent with pending mail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SilentAgent {
    pub name: Name,
    pub kind: AgentKind,
    /// The message that has been ready for it the longest, and since when.
    pub oldest: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub waits_since: Timestamp,
    /// Number of deliveries that are ready for it; counting stops at a thousand.
    pub pending: u64,
    /// Its newest record among the last few thousand; null if there is none.
    #[serde(serialize_with = "rfc3339_option")]
    pub heard_at: Option<Timestamp>,
}

/// Number of newest records that are read to find silent agents.
pub const RECORDS_HEARD_MAX: u64 = 100_000;
/// Number of newest records that are read to find the last one of a silent agent.
const RECORDS_LAST_WORD_MAX: u64 = 5_000;

/// Active agents whose own mail has waited for longer than `patience_ms` and that have written no record in that time.
/// Reading mail writes one.
pub fn silent_agents(store: &Store, now: Timestamp, patience_ms: i64) -> Result<Vec<SilentAgent>, Error> {
    store.view(|tables| silent_since(tables, now.plus_ms(-patience_ms)))
}

/// The same within a read transaction. The agent whose mail has waited longest comes first.
pub(super) fn silent_since(tables: &Tables<'_>, since: Timestamp) -> Result<Vec<SilentAgent>, Error> {
    let mut suspects = Vec::new();
    for agent in tables.agents()?.into_iter().filter(|agent| agent.is_active() && agent.registered_at <= since) {
        let Some((oldest, waits_since)) = tables.waits_longest(&agent.name)?.filter(|(_, at)| *at <= since) else {
            continue;
        };
        let pending = tables.pending_to(&agent.name, COUNT_MAX)?;
        suspects.push(SilentAgent { name: agent.name, kind: agent.kind, oldest, waits_since, pending, heard_at: None });
    }
    if !suspects.is_empty() {
        tables.speakers_since(since, RECORDS_HEARD_MAX, |speaker| {
            suspects.retain(|silent| silent.name != *speaker);
            !suspects.is_empty()
        })?;
    }
    for silent in &mut suspects {
        silent.heard_at = tables.heard_at(&silent.name, RECORDS_LAST_WORD_MAX)?;
    }
    suspects.sort_by_key(|silent| silent.oldest);
    Ok(suspects)
}

/// An open claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct HeldClaim {
    pub message: MessageNo,
    pub holder: Name,
    pub session: Option<Session>,
    pub token: Position,
    #[serde(serialize_with = "rfc3339")]
    pub since: Timestamp,
    #[serde(serialize_with = "rfc3339_option")]
    pub lease_until: Option<Timestamp>,
    /// The lease of the last claim or extension.
    pub lease_ms: i64,
    pub extended: u64,
    /// The holder is registered and not retired.
    pub holder_active: bool,
}

/// All open claims, oldest first, at most a thousand.
pub fn held_claims(store: &Store) -> Result<Vec<HeldClaim>, Error> {
    store.view(|tables| {
        let mut held = tables.claimed()?;
        held.sort_by_key(|delivery| delivery.token);
        held.truncate(usize::try_from(COUNT_MAX).unwrap_or(usize::MAX));
        let mut claims = Vec::with_capacity(held.len());
        for delivery in held {
            let (Some(holder), Some(token)) = (delivery.holder.clone(), delivery.token) else { continue };
            let events = tables.events_of_delivery(&delivery)?;
            let of_claim = || events.iter().filter(|event| event.position >= token);
            let leased = |event: &Event| matches!(event, Event::Claimed | Event::Extended | Event::LeaseMoved);
            let Some(first) = of_claim().find(|event| event.event == Event::Claimed) else { continue };
            let last_leased = of_claim().rfind(|event| leased(&event.event)).map_or(first.at, |event| event.at);
            let lease_ms = delivery.lease_until.map_or(limits::LEASE_MS_DEFAULT, |until| until.since_ms(last_leased));
            claims.push(HeldClaim {
                message: delivery.message,
                holder_active: tables.agent(holder.as_str())?.is_some_and(|agent| agent.is_active()),
                holder,
                session: delivery.session.clone(),
                token,
                since: first.at,
                lease_until: delivery.lease_until,
                lease_ms,
                extended: of_claim().filter(|event| event.event == Event::Extended).count() as u64,
            });
        }
        Ok(claims)
    })
}
