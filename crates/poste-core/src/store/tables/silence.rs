//! Waiting mail, and when agents last wrote.

use rusqlite::params;

use super::{Event, Tables, record_row};
use crate::error::Error;
use crate::log::MessageNo;
use crate::text::Name;
use crate::time::Timestamp;

impl Tables<'_> {
    /// The next address after this one that has any mail. One lookup in the inbox index, however much mail there is.
    pub(crate) fn next_address(&self, after: &str) -> Result<Option<String>, Error> {
        self.maybe("SELECT address FROM deliveries WHERE address > ?1 ORDER BY address LIMIT 1", [after])
    }

    /// How much mail an agent could claim, counting no further than `max`.
    pub(crate) fn pending_to(&self, agent: &Name, max: u64) -> Result<u64, Error> {
        const SQL: &str = "SELECT count(*) FROM
             (SELECT 1 FROM deliveries WHERE address = ?1 AND state = 0 AND ready = 1 LIMIT ?2)";
        self.value(SQL, params![agent, max])
    }

    /// The message an agent could have claimed for the longest time, and since when. One lookup per priority.
    pub(crate) fn waits_longest(&self, agent: &Name) -> Result<Option<(MessageNo, Timestamp)>, Error> {
        const RANKS: std::ops::RangeInclusive<u8> = 0..=3;
        let mut statement = self.conn.prepare_cached(
            "SELECT m.number, max(m.at, coalesce(m.ready_at, 0), coalesce((SELECT max(e.at) FROM events e
               WHERE e.message = d.message AND e.delivery = d.number AND e.event IN (?3, ?4, ?5, ?6, ?7)), 0))
             FROM deliveries d JOIN messages m ON m.number = d.message
             WHERE d.address = ?1 AND d.state = 0 AND d.ready = 1 AND d.rank = ?2 ORDER BY d.message LIMIT 1",
        )?;
        let mut oldest: Option<(MessageNo, Timestamp)> = None;
        for rank in RANKS {
            // Each of these events made it claimable, possibly again.
            let mut rows = statement.query(params![
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

    /// Visits the actors of the newest records, back to `since` and for at most `records_max` records, until `go_on`
    /// returns false.
    pub(crate) fn speakers_since(
        &self,
        since: Timestamp,
        records_max: u64,
        mut go_on: impl FnMut(&Name) -> bool,
    ) -> Result<(), Error> {
        let after = self.cursor.head.position.0.saturating_sub(records_max);
        let mut statement = self.conn.prepare_cached(
            "SELECT position, at, envelope FROM log WHERE position > ?1 AND malformed = 0 ORDER BY position DESC",
        )?;
        let mut rows = statement.query([after])?;
        while let Some(row) = rows.next()? {
            let record = record_row(row)?;
            if record.at < since || !go_on(&record.sealed.envelope.actor) {
                break;
            }
        }
        Ok(())
    }

    /// When an agent last wrote a record, among the newest ones. Only the actor can match: an envelope holds no
    /// content, and quotes inside the texts of a header are escaped.
    pub(crate) fn heard_at(&self, name: &Name, records_max: u64) -> Result<Option<Timestamp>, Error> {
        let after = self.cursor.head.position.0.saturating_sub(records_max);
        let speaks = format!("\"actor\":\"{name}\"");
        self.maybe(
            "SELECT at FROM log WHERE position > ?1 AND malformed = 0 AND instr(envelope, ?2) > 0
                 ORDER BY position DESC LIMIT 1",
            params![after, speaks.as_bytes()],
        )
    }
}
