//! Who does not answer, and what nobody will take: questions about an office as a whole.
//!
//! None of them reads more than it must: addresses are found by skipping through an index, silence by the newest records.

use schemars::JsonSchema;
use serde::Serialize;

use super::COUNT_MAX;
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Event, Tables, record_row};
use crate::text::{Name, Session};
use crate::time::{Timestamp, rfc3339, rfc3339_option};
use crate::vocabulary::AgentKind;

/// Open mail that nobody can take any longer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unreachable {
    pub address: String,
    /// Why nobody can: `unregistered`, `retired` or `no_member`.
    pub why: &'static str,
    /// Counting stops at a thousand.
    pub open: u64,
    pub oldest: MessageNo,
}

/// Every address with open mail and without anybody who may take it.
pub fn unreachable_mail(store: &Store) -> Result<Vec<Unreachable>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut found = Vec::new();
        let mut last = String::new();
        // One seek an address, however much mail there is.
        let next = "SELECT min(address) FROM deliveries WHERE address > ?1";
        while let Some(text) = conn.prepare_cached(next)?.query_row([&last], |row| row.get::<_, Option<String>>(0))? {
            if let Some(why) = nobody_takes(&tables, &text)? {
                found.extend(open_mail(conn, &text, why)?);
            }
            last = text;
        }
        Ok(found)
    })
}

fn nobody_takes(tables: &Tables<'_>, text: &str) -> Result<Option<&'static str>, Error> {
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

fn open_mail(conn: &rusqlite::Connection, address: &str, why: &'static str) -> Result<Option<Unreachable>, Error> {
    let sql = format!(
        "SELECT count(*), min(message) FROM
         (SELECT message FROM deliveries WHERE address = ?1 AND state <= 1 LIMIT {COUNT_MAX})"
    );
    let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, Option<MessageNo>>(1)?));
    let (open, oldest) = conn.prepare_cached(&sql)?.query_row([address], row)?;
    Ok(oldest.map(|oldest| Unreachable { address: address.to_owned(), why, open, oldest }))
}

/// An agent that has mail and does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Silent {
    pub agent: Name,
    pub kind: AgentKind,
    /// Its oldest mail that could be taken, and since when it could.
    pub message: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub waiting_since: Timestamp,
    /// All mail for it that could be taken; counting stops at a thousand.
    pub pending: u64,
}

/// Newest records that are read to find out who is silent.
pub const RECORDS_HEARD_MAX: usize = 100_000;

/// Active agents whose own mail has waited for longer than `patience_ms` and who have done nothing for as long: no
/// record of the log in that time is theirs, and reading mail makes one.
pub fn silent_agents(store: &Store, now: Timestamp, patience_ms: i64) -> Result<Vec<Silent>, Error> {
    let since = now.plus_ms(-patience_ms);
    store.read(|conn| {
        let tables = Tables::load(conn)?;
        let mut suspects = Vec::new();
        for agent in tables.agents()?.into_iter().filter(|agent| agent.is_active()) {
            if let Some((message, waiting_since)) = waits_longest(conn, &agent.name)?
                && waiting_since <= since
                && agent.registered_at <= since
            {
                let sql = format!(
                    "SELECT count(*) FROM (SELECT 1 FROM deliveries
                     WHERE address = ?1 AND state = 0 AND ready = 1 LIMIT {COUNT_MAX})"
                );
                let pending = conn.prepare_cached(&sql)?.query_row([&agent.name], |row| row.get(0))?;
                suspects.push(Silent { agent: agent.name, kind: agent.kind, message, waiting_since, pending });
            }
        }
        forget_heard(conn, since, &mut suspects)?;
        Ok(suspects)
    })
}

/// The mail that an agent could have taken for the longest time: one seek a priority.
fn waits_longest(conn: &rusqlite::Connection, agent: &Name) -> Result<Option<(MessageNo, Timestamp)>, Error> {
    const RANKS: std::ops::RangeInclusive<u8> = 0..=3;
    let mut statement = conn.prepare_cached(
        "SELECT m.number, max(m.at, coalesce(m.ready_at, 0), coalesce((SELECT max(e.at) FROM events e
           WHERE e.message = d.message AND e.delivery = d.number AND e.event IN (?3, ?4, ?5, ?6, ?7)), 0))
         FROM deliveries d JOIN messages m ON m.number = d.message
         WHERE d.address = ?1 AND d.state = 0 AND d.ready = 1 AND d.rank = ?2 ORDER BY d.message LIMIT 1",
    )?;
    let mut oldest: Option<(MessageNo, Timestamp)> = None;
    for rank in RANKS {
        // Each of these made it ready to be taken, or taken again.
        let mut rows = statement.query(rusqlite::params![
            agent,
            rank,
            Event::Ready,
            Event::Released,
            Event::LeaseExpired,
            Event::AttemptFailed,
            Event::Retried
        ])?;
        if let Some(row) = rows.next()? {
            let found = (row.get(0)?, row.get(1)?);
            oldest = oldest.into_iter().chain([found]).min_by_key(|(_, since)| *since);
        }
    }
    Ok(oldest)
}

/// Reads the log from its end, as far back as `since`, and strikes out whoever wrote a record.
fn forget_heard(conn: &rusqlite::Connection, since: Timestamp, suspects: &mut Vec<Silent>) -> Result<(), Error> {
    let mut statement =
        conn.prepare_cached("SELECT position, at, envelope FROM log ORDER BY position DESC LIMIT ?1")?;
    let mut rows = statement.query([RECORDS_HEARD_MAX])?;
    while !suspects.is_empty()
        && let Some(row) = rows.next()?
    {
        let record = record_row(row)?;
        if record.at < since {
            break;
        }
        suspects.retain(|silent| silent.agent != record.sealed.envelope.actor);
    }
    Ok(())
}

/// A claim that nobody has ended.
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
    /// How long it was leased for, when it was claimed or extended last.
    pub lease_ms: i64,
    pub extended: u64,
    /// The holder is registered and not retired.
    pub holder_active: bool,
}

/// Every claim there is, oldest first, at most a thousand.
pub fn held_claims(store: &Store) -> Result<Vec<HeldClaim>, Error> {
    store.read(|conn| {
        let tables = Tables::load(conn)?;
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
