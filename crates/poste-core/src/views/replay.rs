//! The office as it was: the log replayed up to a record, shown with today's views.

use rusqlite::params;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Found, InboxPage, InboxQuery, Track, content, inbox, roster, track};
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{MessageNo, Position};
use crate::store::Store;
use crate::store::table_digest::digest;
use crate::store::tables::{Agent, State};
use crate::text::Name;
use crate::time::{Timestamp, rfc3339};
use crate::vocabulary::AgentKind;

/// An agent as it was, with its mail.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PastAgent {
    pub name: Name,
    pub kind: AgentKind,
    pub active: bool,
    /// Deliveries to its name that were pending; counting stops at a thousand.
    pub pending: u64,
    pub pending_at_least: bool,
    /// Deliveries it held.
    pub claimed: u64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PastOffice {
    /// The last replayed record.
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// Of all tables: the same on every machine and after every replay.
    pub digest: Digest,
    pub messages: u64,
    /// Deliveries that were pending or claimed, including those to groups.
    pub open: u64,
    pub agents: Vec<PastAgent>,
}

/// The state of a store that was replayed up to some record.
pub fn past_office(past: &Store) -> Result<PastOffice, Error> {
    let tables = past.tables()?;
    let sql = "SELECT count(*) FROM deliveries WHERE state IN (?1, ?2)";
    let open = tables.value(sql, [State::Pending, State::Claimed])?;
    let cursor = tables.cursor;
    let agents = roster(past)?.into_iter().map(|entry| PastAgent {
        name: entry.agent.name,
        kind: entry.agent.kind,
        active: entry.active,
        pending: entry.pending,
        pending_at_least: entry.pending_at_least,
        claimed: entry.claimed,
    });
    Ok(PastOffice {
        position: cursor.head.position,
        at: cursor.head.at,
        digest: digest(past.conn())?,
        messages: cursor.message_last.0,
        open,
        agents: agents.collect(),
    })
}

/// The time of the newest record.
pub fn newest_time(store: &Store) -> Result<Timestamp, Error> {
    Ok(store.tables()?.cursor.head.at)
}

/// An inbox as it was. Subjects come from the present office: what was redacted since stays redacted.
pub fn past_inbox(past: &Store, source: &Store, agent: &Agent, query: &InboxQuery) -> Result<InboxPage, Error> {
    let now = past.tables()?.cursor.head.at;
    let page = inbox(past, agent, query, now)?;
    let positions = page.messages.iter().map(|line| position_of(past, line.number)).collect::<Result<Vec<_>, _>>()?;
    bring_content(past, source, positions.into_iter().flatten())?;
    inbox(past, agent, query, now)
}

/// The ladder of a message as it was.
pub fn past_track(past: &Store, source: &Store, number: MessageNo) -> Result<Option<Track>, Error> {
    let (now, as_of) = (past.tables()?.cursor.head.at, past.tables()?.cursor.head.position);
    if past.tables()?.archived_message(number)?.is_some() {
        // It was already archived and has not changed since. The archive belongs to the present office.
        return Ok(track(source, number, now)?.map(|track| Track { as_of, ..track }));
    }
    let Some(found) = track(past, number, now)? else { return Ok(None) };
    let steps = found.deliveries.iter().flat_map(|delivery| delivery.history.iter().map(|step| step.position));
    bring_content(past, source, position_of(past, number)?.into_iter().chain(steps))?;
    let track = track(past, number, now)?;
    // Only the present sessions are known, not those of that time.
    Ok(track.map(|mut track| {
        track.deliveries.iter_mut().for_each(|delivery| delivery.unseen = None);
        track
    }))
}

fn position_of(past: &Store, number: MessageNo) -> Result<Option<Position>, Error> {
    Ok(past.tables()?.message(number)?.map(|message| message.position))
}

/// Fetches the content that a view shows, because the fold keeps none.
fn bring_content(past: &Store, source: &Store, positions: impl Iterator<Item = Position>) -> Result<(), Error> {
    for position in positions {
        if let Found::Content(content) = content(source, position)? {
            past.conn().execute(
                "INSERT OR REPLACE INTO content (position, subject, bytes) VALUES (?1, ?2, ?3)",
                params![position, content.subject, content.encode()],
            )?;
        }
    }
    Ok(())
}
