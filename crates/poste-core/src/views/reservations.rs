//! Reserved paths: current and past reservations, and conflicts.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::records::WhyLine;
use super::{Found, content, envelope};
use crate::error::Error;
use crate::fold;
use crate::log::{Position, ReservationNo};
use crate::pattern::{Pattern, Touched};
use crate::store::Store;
use crate::store::tables::{PastReservation, Reservation, ReservationEnd};
use crate::text::Name;
use crate::time::{Timestamp, rfc3339};

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReservationView {
    pub number: ReservationNo,
    pub holder: Name,
    pub pattern: Pattern,
    /// Other agents may share it.
    pub shared: bool,
    /// The holder's reason.
    pub why: Option<String>,
    /// The reason was redacted.
    pub redacted: bool,
    /// The record that took it.
    pub position: Position,
    #[serde(serialize_with = "rfc3339")]
    pub taken_at: Timestamp,
    #[serde(serialize_with = "rfc3339")]
    pub until: Timestamp,
    /// Null while it is held.
    pub ended: Option<ReservationEnded>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReservationEnded {
    #[serde(serialize_with = "rfc3339")]
    pub at: Timestamp,
    /// The record that ended it.
    pub by: Position,
    pub reason: ReservationEnd,
}

#[derive(Debug, Clone, Default)]
pub struct ReservationsQuery {
    /// Only this agent's.
    pub holder: Option<Name>,
    /// Only those that cover one of these paths; empty: all.
    pub touching: Vec<Touched>,
    /// Also ended ones, newest first.
    pub past: bool,
    pub limit: usize,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Reservations {
    /// Held ones by pattern, then ended ones, newest first.
    pub reservations: Vec<ReservationView>,
    /// There are more than this page shows.
    pub more: bool,
    pub as_of: Position,
}

pub fn reservations(store: &Store, query: &ReservationsQuery) -> Result<Reservations, Error> {
    store.view(|tables| {
        let mut held = match &query.holder {
            Some(holder) => tables.reservations_of(holder)?,
            None => tables.reservations()?,
        };
        held.retain(|held| is_touched(&held.pattern, &query.touching));
        held.sort_by(|one, other| (&one.pattern, one.number).cmp(&(&other.pattern, other.number)));
        let mut past = match query.past {
            true => tables.past_reservations(query.holder.as_ref(), query.limit + 1)?,
            false => Vec::new(),
        };
        past.retain(|past| is_touched(&past.reservation.pattern, &query.touching));
        let more = held.len() + past.len() > query.limit;
        let all = held.into_iter().map(|held| (held, None)).chain(past.into_iter().map(apart));
        let mut views = Vec::new();
        for (reservation, ended) in all.take(query.limit) {
            views.push(view(store, reservation, ended)?);
        }
        Ok(Reservations { reservations: views, more, as_of: tables.cursor.head.position })
    })
}

fn is_touched(pattern: &Pattern, touching: &[Touched]) -> bool {
    touching.is_empty() || touching.iter().any(|touched| pattern.touches(touched))
}

fn apart(past: PastReservation) -> (Reservation, Option<ReservationEnded>) {
    (past.reservation, Some(ReservationEnded { at: past.ended_at, by: past.ended_by, reason: past.reason }))
}

fn view(store: &Store, held: Reservation, ended: Option<ReservationEnded>) -> Result<ReservationView, Error> {
    let (why, redacted) = match content(store, held.position)? {
        Found::Content(content) => (Some(content.body.text().into_owned()), false),
        Found::Redacted(_) => (None, true),
        Found::Never | Found::Gone => (None, false),
    };
    Ok(ReservationView {
        number: held.number,
        holder: held.agent,
        pattern: held.pattern,
        shared: held.shared,
        why: why.filter(|why| !why.is_empty()),
        redacted,
        position: held.position,
        taken_at: held.at,
        until: held.until,
        ended,
    })
}

/// A wanted pattern, and a reservation that conflicts with it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReservationConflict {
    pub wanted: Pattern,
    pub held: ReservationView,
}

/// Conflicts for which a `reserve` of these patterns would be refused.
pub fn reservation_conflicts(
    store: &Store,
    agent: &Name,
    patterns: &[Pattern],
    shared: bool,
) -> Result<Vec<ReservationConflict>, Error> {
    store.view(|tables| {
        let found = fold::reservation_conflicts(tables, agent, patterns, shared)?;
        let views = found.into_iter().map(|(wanted, held)| {
            let held = view(store, held, None)?;
            Ok(ReservationConflict { wanted, held })
        });
        views.collect()
    })
}

/// A path that a change touches although another agent reserved it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct HeldPath {
    /// Bytes that are not UTF-8 are shown as �.
    pub path: String,
    pub held: ReservationView,
}

/// Whether any other agent holds an exclusive reservation. Without a name, all agents are others.
pub fn is_anything_held(store: &Store, except: Option<&Name>) -> Result<bool, Error> {
    let sql = "SELECT EXISTS (SELECT 1 FROM reservations WHERE shared = 0 AND agent IS NOT ?1)";
    store.tables()?.value(sql, [except])
}

/// Which of these paths other agents hold exclusively. Without a name, all agents are others.
pub fn held_paths(
    store: &Store,
    touched: &[Touched],
    except: Option<&Name>,
    now: Timestamp,
) -> Result<Vec<HeldPath>, Error> {
    store.view(|tables| {
        // A large change may touch one reservation a thousand times.
        let mut views: BTreeMap<ReservationNo, ReservationView> = BTreeMap::new();
        let mut found = Vec::new();
        for path in touched {
            for held in tables.reservations_near(path.bytes())? {
                // It may have expired although no tick could be written.
                let stops = !held.shared && Some(&held.agent) != except && held.until > now;
                if stops && held.pattern.touches(path) {
                    let path = String::from_utf8_lossy(path.bytes()).into_owned();
                    let held = match views.get(&held.number) {
                        Some(known) => known.clone(),
                        None => views.entry(held.number).or_insert(view(store, held, None)?).clone(),
                    };
                    found.push(HeldPath { path, held });
                }
            }
        }
        Ok(found)
    })
}

/// The history of a reservation.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ReservationWhy {
    pub reservation: ReservationView,
    pub lines: Vec<WhyLine>,
}

pub fn why_reservation(store: &Store, number: ReservationNo) -> Result<Option<ReservationWhy>, Error> {
    store.view(|tables| {
        let found = match tables.reservation(number)? {
            Some(held) => Some((held, None)),
            None => tables.past_reservation(number)?.map(apart),
        };
        let Some((reservation, ended)) = found else { return Ok(None) };
        let renewed = reservation.renewed;
        let reservation = view(store, reservation, ended)?;
        let how = if reservation.shared { "shared" } else { "exclusive" };
        let why = reservation.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let why = if reservation.redacted { ": redacted" } else { &why };
        let mut lines = vec![line(store, reservation.position, format!("reserved, {how}{why}"))?];
        if let Some(position) = renewed {
            lines.push(line(store, position, format!("extended until {}", reservation.until))?);
        }
        if let Some(ended) = &reservation.ended {
            let what = match ended.reason {
                ReservationEnd::Released => "released".to_owned(),
                ReservationEnd::Expired => format!("expired at {}", reservation.until),
                ReservationEnd::Retired => format!("released: {} was retired", reservation.holder),
            };
            lines.push(line(store, ended.by, what)?);
        }
        Ok(Some(ReservationWhy { reservation, lines }))
    })
}

fn line(store: &Store, position: Position, what: String) -> Result<WhyLine, Error> {
    let Some(record) = envelope(store, position)? else {
        return Err(Error::Damaged(format!("a reservation names record {position}, which does not exist")));
    };
    Ok(WhyLine { position, at: record.at, by: record.sealed.envelope.actor.to_string(), what })
}
