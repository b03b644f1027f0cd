//! The events of a span of time. Records are ordered by time, so a span is a range of positions and of message numbers:
//! the cost grows with the span, not with the history.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::params;

use super::Reading;
use crate::address::Address;
use crate::error::Error;
use crate::log::{Intent, MessageNo, Position};
use crate::store::tables::{Delivery, EventRow, Message, Stored as _};
use crate::text::{Label, Name, TypeName};
use crate::time::Timestamp;
use crate::views::rows::{MessageRows, in_log};
use crate::views::thread::conversation_in;

/// Records read at a time.
const CHUNK: usize = 1_000;

/// From one moment up to another, exclusive.
pub(super) struct Span {
    /// The last record before it, and the last one in it.
    after: Position,
    upto: Position,
    first: MessageNo,
    end: MessageNo,
    /// Messages of the span, or whose deliveries it may have touched, that left the live tables.
    archived: BTreeMap<MessageNo, MessageRows>,
    /// Conversations that were closed in it.
    pub closed: BTreeSet<Label>,
}

/// A message of the span, as far as it can be read.
pub(super) struct Stored {
    pub number: MessageNo,
    pub sender: Name,
    pub kind: TypeName,
    /// None if its archive is missing or damaged.
    pub message: Option<Message>,
}

impl Span {
    pub(super) fn new(reading: &mut Reading<'_, '_>, since: Timestamp, until: Timestamp) -> Result<Self, Error> {
        let tables = reading.tables;
        let (after, upto) = (tables.last_before(since)?, tables.last_before(until)?);
        let (first, end) = (tables.first_number_after(after)?, tables.first_number_after(upto)?);
        let mut span = Self { after, upto, first, end, archived: BTreeMap::new(), closed: BTreeSet::new() };
        for number in span.archived_numbers(reading)? {
            span.read_archived(reading, number)?;
        }
        for number in reading.tables.archived_touched(after, upto)? {
            span.read_archived(reading, number)?;
        }
        span.look_at_records(reading)?;
        Ok(span)
    }

    fn archived_numbers(&self, reading: &Reading<'_, '_>) -> Result<Vec<MessageNo>, Error> {
        Ok(reading
            .tables
            .conn()
            .prepare_cached("SELECT number FROM archived_messages WHERE number >= ?1 AND number < ?2 ORDER BY number")?
            .query_map([self.first, self.end], |row| row.get(0))?
            .collect::<Result<_, _>>()?)
    }

    fn read_archived(&mut self, reading: &mut Reading<'_, '_>, number: MessageNo) -> Result<(), Error> {
        if self.archived.contains_key(&number) || reading.tables.archived_message(number)?.is_none() {
            return Ok(());
        }
        if let Some(found) = reading.rows(number)? {
            self.archived.insert(number, found);
        }
        Ok(())
    }

    /// Finds messages that are archived by now, and closed conversations, from the records.
    fn look_at_records(&mut self, reading: &mut Reading<'_, '_>) -> Result<(), Error> {
        let mut after = self.after;
        let upto = self.upto;
        while after < upto {
            let records = reading.tables.records_after(after, CHUNK)?;
            let Some(last) = records.last() else { return Ok(()) };
            after = last.position;
            for record in records.iter().take_while(|record| record.position <= upto) {
                let Ok(Some(intent)) = record.sealed.intent() else { continue };
                if reading.tables.refusal(record.position)?.is_some() {
                    continue; // it did nothing
                }
                if let Intent::Close(close) = &intent
                    && let Some(conversation) = conversation_in(reading.tables, close.message)?
                {
                    self.closed.insert(conversation);
                }
                for number in named(&intent) {
                    self.read_archived(reading, number)?;
                }
            }
        }
        Ok(())
    }

    /// Visits every message stored in the span, in order.
    pub(super) fn messages(
        &self,
        reading: &mut Reading<'_, '_>,
        mut look: impl FnMut(&mut Reading<'_, '_>, Stored) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut number = self.first;
        while number < self.end {
            let message = match reading.tables.message(number)? {
                Some(message) => Some(message),
                None => self.archived.get(&number).map(|found| found.message.clone()),
            };
            let stored = match message {
                Some(message) => {
                    let (sender, kind) = (message.sender.clone(), message.kind.clone());
                    Some(Stored { number, sender, kind, message: Some(message) })
                }
                None => in_log(reading.tables, number)?.and_then(|said| {
                    Some(Stored { number, sender: said.sender, kind: said.header?.kind, message: None })
                }),
            };
            if let Some(stored) = stored {
                look(reading, stored)?;
            }
            number = number.next();
        }
        Ok(())
    }

    /// Number of messages of the span addressed to each agent by name.
    pub(super) fn received(&self, reading: &Reading<'_, '_>) -> Result<BTreeMap<String, u64>, Error> {
        let mut received = BTreeMap::new();
        let mut count = |address: &Address| {
            if let Address::Agent(name) = address {
                *received.entry(name.to_string()).or_default() += 1;
            }
        };
        let mut statement = reading.tables.conn().prepare_cached(
            "SELECT d.address FROM messages m JOIN deliveries d ON d.message = m.number
             WHERE m.number >= ?1 AND m.number < ?2",
        )?;
        let mut rows = statement.query([self.first, self.end])?;
        while let Some(row) = rows.next()? {
            count(&row.get(0)?);
        }
        for (_, found) in self.archived.range(self.first..self.end) {
            found.deliveries.iter().for_each(|delivery| count(&delivery.address));
        }
        Ok(received)
    }

    /// Visits every step of a delivery in the span that `wants` selects, with its message and delivery.
    pub(super) fn steps(
        &self,
        reading: &mut Reading<'_, '_>,
        wants: impl Fn(&EventRow) -> bool,
        mut look: impl FnMut(&mut Reading<'_, '_>, &Message, &Delivery, &EventRow) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let conn = reading.tables.conn();
        let mut statement = conn.prepare_cached(&format!(
            "SELECT {}, message FROM events WHERE position > ?1 AND position <= ?2 ORDER BY position",
            EventRow::COLUMNS
        ))?;
        let mut rows = statement.query(params![self.after, self.upto])?;
        while let Some(row) = rows.next()? {
            let event = EventRow::try_from(row)?;
            if !wants(&event) {
                continue;
            }
            let Some(message) = reading.tables.message(row.get(7)?)? else { continue };
            let Some(delivery) = reading.tables.delivery(event.delivery)? else { continue };
            look(reading, &message, &delivery, &event)?;
        }
        for found in self.archived.values() {
            let is_in = |event: &&EventRow| event.position > self.after && event.position <= self.upto;
            for event in found.events.iter().filter(is_in).filter(|event| wants(event)) {
                let delivery = found.deliveries.iter().find(|delivery| delivery.number == event.delivery);
                if let Some(delivery) = delivery {
                    look(reading, &found.message, delivery, event)?;
                }
            }
        }
        Ok(())
    }

    /// The deliveries of a message of the span.
    pub(super) fn rows(&self, reading: &mut Reading<'_, '_>, number: MessageNo) -> Result<Option<MessageRows>, Error> {
        match self.archived.get(&number) {
            Some(found) => Ok(Some(found.clone())),
            None => reading.rows(number),
        }
    }
}

/// The messages whose deliveries a record may have touched, by its header.
fn named(intent: &Intent) -> Vec<MessageNo> {
    match intent {
        Intent::Shown(shown) => shown.messages.clone(),
        Intent::Ack(ack) => vec![ack.message],
        Intent::Done(done) => vec![done.message],
        Intent::Fail(fail) => vec![fail.message],
        Intent::Release(release) => vec![release.message],
        Intent::Retry(retry) => vec![retry.message],
        Intent::Drop(dropped) => vec![dropped.message],
        other => {
            let mail = other.mail();
            let ends = mail.and_then(|mail| mail.ends.as_ref()).map(|ends| ends.message);
            mail.and_then(|mail| mail.reply_to).into_iter().chain(ends).collect()
        }
    }
}
