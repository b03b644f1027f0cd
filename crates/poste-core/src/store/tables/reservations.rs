//! Paths that are held, and those that were.

use std::sync::LazyLock;

use rusqlite::{Row, params};

use super::due::{Due, DueItem};
use super::{Concern, Optional as _, Tables};
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
    /// The record that took it last; its content says what for.
    pub position: Position,
    pub at: Timestamp,
    pub agent: Name,
    pub pattern: Pattern,
    pub shared: bool,
    pub until: Timestamp,
    /// The record that last moved its end, if another one did.
    pub renewed: Option<Position>,
}

worded_enum!(
    /// Why nobody holds it any more.
    ReservationEnd { Released = 0 "released", Expired = 1 "expired", Retired = 2 "retired" }
);

/// A reservation that is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PastReservation {
    pub reservation: Reservation,
    pub ended_at: Timestamp,
    pub ended_by: Position,
    pub reason: ReservationEnd,
}

const COLUMNS: &str = "number, position, at, agent, pattern, shared, until, renewed";

impl Reservation {
    /// The row of `due` it stands for.
    fn due(&self) -> DueItem {
        DueItem { at: self.until, what: Due::Reservation, subject: self.number.0 }
    }
}

impl Tables<'_> {
    pub fn reservation(&self, number: ReservationNo) -> Result<Option<Reservation>, Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {COLUMNS} FROM reservations WHERE number = ?1"));
        self.conn.prepare_cached(&SQL)?.query_row([number], reservation_row).optional()
    }

    pub fn reservation_of(&self, agent: &Name, pattern: &Pattern) -> Result<Option<Reservation>, Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {COLUMNS} FROM reservations WHERE agent = ?1 AND pattern = ?2"));
        self.conn.prepare_cached(&SQL)?.query_row(params![agent, pattern], reservation_row).optional()
    }

    /// What an agent holds, by pattern.
    pub fn reservations_of(&self, agent: &Name) -> Result<Vec<Reservation>, Error> {
        static SQL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {COLUMNS} FROM reservations WHERE agent = ?1 ORDER BY pattern"));
        Ok(self.conn.prepare_cached(&SQL)?.query_map([agent], reservation_row)?.collect::<Result<_, _>>()?)
    }

    pub fn count_reservations_of(&self, agent: &Name) -> Result<usize, Error> {
        Ok(self
            .conn
            .prepare_cached("SELECT count(*) FROM reservations WHERE agent = ?1")?
            .query_row([agent], |row| row.get(0))?)
    }

    /// Everything that is held, by number.
    pub fn reservations(&self) -> Result<Vec<Reservation>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| format!("SELECT {COLUMNS} FROM reservations ORDER BY number"));
        Ok(self.conn.prepare_cached(&SQL)?.query_map([], reservation_row)?.collect::<Result<_, _>>()?)
    }

    /// Whatever is held that may have a path in common with paths that begin with `prefix`: one beginning is the
    /// beginning of the other. In the order of their beginnings, so that everybody finds the same one first.
    pub fn reservations_near(&self, prefix: &[u8]) -> Result<Vec<Reservation>, Error> {
        static SHORTER: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {COLUMNS} FROM reservations WHERE prefix = ?1 ORDER BY number"));
        static LONGER: LazyLock<String> = LazyLock::new(|| {
            format!("SELECT {COLUMNS} FROM reservations WHERE prefix >= ?1 AND prefix < ?2 ORDER BY prefix, number")
        });
        static ALL: LazyLock<String> =
            LazyLock::new(|| format!("SELECT {COLUMNS} FROM reservations ORDER BY prefix, number"));
        let Some((last, before)) = prefix.split_last() else {
            return Ok(self.conn.prepare_cached(&ALL)?.query_map([], reservation_row)?.collect::<Result<_, _>>()?);
        };
        let mut found = Vec::new();
        let mut shorter = self.conn.prepare_cached(&SHORTER)?;
        for length in 0..prefix.len() {
            for reservation in shorter.query_map([&prefix[..length]], reservation_row)? {
                found.push(reservation?);
            }
        }
        // A path may end with the byte ff; then everything from here on is looked at, and compared.
        let end = last.checked_add(1).map(|next| [before, &[next]].concat());
        let end = end.unwrap_or_else(|| vec![u8::MAX; prefix.len() + 1]);
        let mut longer = self.conn.prepare_cached(&LONGER)?;
        for reservation in longer.query_map(params![prefix, end], reservation_row)? {
            found.push(reservation?);
        }
        Ok(found)
    }

    /// The number after the last one ever given.
    pub fn next_reservation(&self) -> Result<ReservationNo, Error> {
        let last: Option<ReservationNo> = self
            .conn
            .prepare_cached(
                "SELECT max(number) FROM
                   (SELECT max(number) AS number FROM reservations
                    UNION ALL SELECT max(number) FROM past_reservations)",
            )?
            .query_row([], |row| row.get(0))?;
        Ok(last.unwrap_or_default().next())
    }

    pub fn insert_reservation(&mut self, new: &Reservation) -> Result<(), Error> {
        self.conn
            .prepare_cached(
                "INSERT INTO reservations (number, position, at, agent, pattern, shared, until, renewed, prefix)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?
            .execute(params![
                new.number,
                new.position,
                new.at,
                new.agent,
                new.pattern,
                new.shared,
                new.until,
                new.renewed,
                new.pattern.prefix()
            ])?;
        self.concern(|| Concern::Reservations);
        self.insert_due(new.due())
    }

    pub fn update_reservation(&mut self, before: &Reservation, after: &Reservation) -> Result<(), Error> {
        self.delete_due(before.due())?;
        self.conn
            .prepare_cached(
                "UPDATE reservations SET position = ?2, at = ?3, shared = ?4, until = ?5, renewed = ?6 WHERE number = ?1",
            )?
            .execute(params![after.number, after.position, after.at, after.shared, after.until, after.renewed])?;
        self.concern(|| Concern::Reservations);
        self.insert_due(after.due())
    }

    /// It leaves what is held, and stays known.
    pub fn end_reservation(&mut self, past: &PastReservation) -> Result<(), Error> {
        let ended = &past.reservation;
        self.delete_due(ended.due())?;
        self.conn.prepare_cached("DELETE FROM reservations WHERE number = ?1")?.execute([ended.number])?;
        self.conn
            .prepare_cached(
                "INSERT INTO past_reservations
                   (number, position, at, agent, pattern, shared, until, renewed, ended_at, ended_by, reason)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?
            .execute(params![
                ended.number,
                ended.position,
                ended.at,
                ended.agent,
                ended.pattern,
                ended.shared,
                ended.until,
                ended.renewed,
                past.ended_at,
                past.ended_by,
                past.reason
            ])?;
        self.concern(|| Concern::Reservations);
        Ok(())
    }

    pub fn past_reservation(&self, number: ReservationNo) -> Result<Option<PastReservation>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!("SELECT {COLUMNS}, ended_at, ended_by, reason FROM past_reservations WHERE number = ?1")
        });
        self.conn.prepare_cached(&SQL)?.query_row([number], past_row).optional()
    }

    /// What a record ended, by number.
    pub fn reservations_ended_by(&self, position: Position) -> Result<Vec<PastReservation>, Error> {
        static SQL: LazyLock<String> = LazyLock::new(|| {
            format!(
                "SELECT {COLUMNS}, ended_at, ended_by, reason FROM past_reservations WHERE ended_by = ?1 ORDER BY number"
            )
        });
        Ok(self.conn.prepare_cached(&SQL)?.query_map([position], past_row)?.collect::<Result<_, _>>()?)
    }

    /// What ended last, of one agent or of all, the newest first.
    pub fn past_reservations(&self, agent: Option<&Name>, limit: usize) -> Result<Vec<PastReservation>, Error> {
        let whose = if agent.is_some() { "agent = ?1" } else { "?1 IS NULL" };
        Ok(self
            .conn
            .prepare_cached(&format!(
                "SELECT {COLUMNS}, ended_at, ended_by, reason FROM past_reservations
                 WHERE {whose} ORDER BY ended_by DESC, number DESC LIMIT ?2"
            ))?
            .query_map(params![agent, limit], past_row)?
            .collect::<Result<_, _>>()?)
    }
}

pub(crate) fn reservation_row(row: &Row<'_>) -> rusqlite::Result<Reservation> {
    Ok(Reservation {
        number: row.get(0)?,
        position: row.get(1)?,
        at: row.get(2)?,
        agent: row.get(3)?,
        pattern: row.get(4)?,
        shared: row.get(5)?,
        until: row.get(6)?,
        renewed: row.get(7)?,
    })
}

fn past_row(row: &Row<'_>) -> rusqlite::Result<PastReservation> {
    Ok(PastReservation {
        reservation: reservation_row(row)?,
        ended_at: row.get(8)?,
        ended_by: row.get(9)?,
        reason: row.get(10)?,
    })
}
