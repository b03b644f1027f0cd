//! Reserved paths, current and past.

use rusqlite::{Row, params};

use super::due::{Due, DueItem};
use super::rows::Selected;
use super::{Concern, Tables};
use crate::error::Error;
use crate::log::{Position, ReservationNo};
use crate::pattern::Pattern;
use crate::text::Name;
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

/// One pattern that an agent holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    pub number: ReservationNo,
    /// The record that last took it; its content says what for.
    pub position: Position,
    pub at: Timestamp,
    pub agent: Name,
    pub pattern: Pattern,
    pub shared: bool,
    pub until: Timestamp,
    /// The record that last extended it, if another one did.
    pub renewed: Option<Position>,
}

worded_enum!(
    /// Why it is no longer held.
    ReservationEnd { Released = 0 "released", Expired = 1 "expired", Retired = 2 "retired" }
);

/// A reservation that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastReservation {
    pub reservation: Reservation,
    pub ended_at: Timestamp,
    pub ended_by: Position,
    pub reason: ReservationEnd,
}

impl Selected for PastReservation {
    const SELECT: &'static str =
        "SELECT number, position, at, agent, pattern, shared, until, renewed, ended_at, ended_by, reason
         FROM past_reservations";
}

impl TryFrom<&Row<'_>> for PastReservation {
    type Error = rusqlite::Error;

    fn try_from(row: &Row<'_>) -> rusqlite::Result<Self> {
        let (ended_at, ended_by, reason) = (row.get(8)?, row.get(9)?, row.get(10)?);
        Ok(Self { reservation: row.try_into()?, ended_at, ended_by, reason })
    }
}

stored!(Reservation in "reservations": number, position, at, agent, pattern, shared, until, renewed);

impl Reservation {
    /// The row of `due` for this reservation.
    fn due(&self) -> Option<DueItem> {
        Some(DueItem { at: self.until, what: Due::Reservation, subject: self.number.0 })
    }
}

impl Tables<'_> {
    pub fn reservation(&self, number: ReservationNo) -> Result<Option<Reservation>, Error> {
        self.one(select!(Reservation, "WHERE number = ?1"), [number])
    }

    pub fn reservation_of(&self, agent: &Name, pattern: &Pattern) -> Result<Option<Reservation>, Error> {
        self.one(select!(Reservation, "WHERE agent = ?1 AND pattern = ?2"), params![agent, pattern])
    }

    /// An agent's reservations, by pattern.
    pub fn reservations_of(&self, agent: &Name) -> Result<Vec<Reservation>, Error> {
        self.all(select!(Reservation, "WHERE agent = ?1 ORDER BY pattern"), [agent])
    }

    pub fn count_reservations_of(&self, agent: &Name) -> Result<usize, Error> {
        self.value("SELECT count(*) FROM reservations WHERE agent = ?1", [agent])
    }

    /// All current reservations, by number.
    pub fn reservations(&self) -> Result<Vec<Reservation>, Error> {
        self.all(select!(Reservation, "ORDER BY number"), [])
    }

    /// Reservations that may share a path with patterns beginning with `prefix`: one prefix begins with the other.
    /// Ordered by prefix, so that every machine finds the same conflict first.
    pub fn reservations_near(&self, prefix: &[u8]) -> Result<Vec<Reservation>, Error> {
        let Some((last, before)) = prefix.split_last() else {
            return self.all(select!(Reservation, "ORDER BY prefix, number"), []);
        };
        let mut found = Vec::new();
        for length in 0..prefix.len() {
            let shorter = select!(Reservation, "WHERE prefix = ?1 ORDER BY number");
            found.extend(self.all::<Reservation>(shorter, [&prefix[..length]])?);
        }
        // If the path ends with the byte ff, everything from here on is a candidate, and the caller compares it.
        let end = last.checked_add(1).map(|next| [before, &[next]].concat());
        let end = end.unwrap_or_else(|| vec![u8::MAX; prefix.len() + 1]);
        let longer = select!(Reservation, "WHERE prefix >= ?1 AND prefix < ?2 ORDER BY prefix, number");
        found.extend(self.all::<Reservation>(longer, params![prefix, end])?);
        Ok(found)
    }

    /// The number after the last one ever given.
    pub fn next_reservation(&self) -> Result<ReservationNo, Error> {
        let last: Option<ReservationNo> = self.value(
            "SELECT max(number) FROM
                   (SELECT max(number) AS number FROM reservations
                    UNION ALL SELECT max(number) FROM past_reservations)",
            [],
        )?;
        Ok(last.unwrap_or_default().next())
    }

    pub fn insert_reservation(&mut self, new: &Reservation) -> Result<(), Error> {
        self.execute(
            "INSERT INTO reservations (number, position, at, agent, pattern, shared, until, renewed, prefix)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                new.number,
                new.position,
                new.at,
                new.agent,
                new.pattern,
                new.shared,
                new.until,
                new.renewed,
                new.pattern.prefix()
            ],
        )?;
        self.concern(|| Concern::Reservations);
        self.move_due(None, new.due())
    }

    pub fn update_reservation(&mut self, before: &Reservation, after: &Reservation) -> Result<(), Error> {
        update!(self, after, "reservations" SET position, at, shared, until, renewed WHERE number)?;
        self.concern(|| Concern::Reservations);
        self.move_due(before.due(), after.due())
    }

    /// Moves it from the current reservations to the past ones.
    pub fn end_reservation(&mut self, past: &PastReservation) -> Result<(), Error> {
        let PastReservation { reservation, ended_at, ended_by, reason } = past;
        self.execute(
            "INSERT INTO past_reservations
                   (number, position, at, agent, pattern, shared, until, renewed, ended_at, ended_by, reason)
                 SELECT number, position, at, agent, pattern, shared, until, renewed, ?2, ?3, ?4
                 FROM reservations WHERE number = ?1",
            params![reservation.number, ended_at, ended_by, reason],
        )?;
        self.execute("DELETE FROM reservations WHERE number = ?1", [reservation.number])?;
        self.concern(|| Concern::Reservations);
        self.move_due(reservation.due(), None)
    }

    pub fn past_reservation(&self, number: ReservationNo) -> Result<Option<PastReservation>, Error> {
        self.one(select!(PastReservation, "WHERE number = ?1"), [number])
    }

    /// The reservations that a record ended, by number.
    pub fn reservations_ended_by(&self, position: Position) -> Result<Vec<PastReservation>, Error> {
        self.all(select!(PastReservation, "WHERE ended_by = ?1 ORDER BY number"), [position])
    }

    /// Past reservations of one agent or of all, newest first.
    pub fn past_reservations(&self, agent: Option<&Name>, limit: usize) -> Result<Vec<PastReservation>, Error> {
        let whose = if agent.is_some() { "agent = ?1" } else { "?1 IS NULL" };
        let sql = format!("{} WHERE {whose} ORDER BY ended_by DESC, number DESC LIMIT ?2", PastReservation::SELECT);
        self.all(&sql, params![agent, limit])
    }
}
