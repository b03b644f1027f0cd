//! Conversations: which are closed, which are archived, and which content was redacted.

use std::collections::BTreeSet;

use rusqlite::params;

use super::{Event, Tables, kept, late};
use crate::digest::Digest;
use crate::error::Error;
use crate::log::{Archive, MessageNo, Position};
use crate::text::{Label, Name};
use crate::time::Timestamp;

/// A conversation that was declared finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// The record that closed it; its content is the outcome.
    pub position: Position,
    pub at: Timestamp,
    pub by: Name,
}

/// What stays known about a message that left the live tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedMessage {
    pub number: MessageNo,
    pub position: Position,
    pub conversation: Label,
    /// The record that archived it.
    pub archive: Position,
}

/// A file of archived conversations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveRow {
    pub position: Position,
    pub at: Timestamp,
    pub file: String,
    pub lines: u64,
    pub digest: Digest,
}

stored!(Closed in "closed": position, at, by as agent);
stored!(ArchivedMessage in "archived_messages": number, position, conversation, archive);
stored!(ArchiveRow in "archives": position, at, file, lines, digest);

impl Tables<'_> {
    pub fn closed(&self, conversation: &Label) -> Result<Option<Closed>, Error> {
        self.one(select!(Closed, "WHERE conversation = ?1"), [conversation])
    }

    pub fn put_closed(&mut self, conversation: &Label, closed: &Closed) -> Result<(), Error> {
        self.execute(
            "INSERT INTO closed (conversation, position, at, agent) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (conversation) DO UPDATE SET position = ?2, at = ?3, agent = ?4",
            params![conversation, closed.position, closed.at, closed.by],
        )
    }

    pub fn delete_closed(&mut self, conversation: &Label) -> Result<(), Error> {
        const SQL: &str = "DELETE FROM closed WHERE conversation = ?1";
        kept(&mut self.kept.delete_closed, self.conn, SQL)?.execute([conversation])?;
        Ok(())
    }

    /// The live messages of a conversation, in order.
    pub fn conversation(&self, conversation: &Label) -> Result<Vec<MessageNo>, Error> {
        self.needs(late::CONVERSATION)?;
        self.column("SELECT number FROM messages WHERE conversation = ?1 ORDER BY number", [conversation])
    }

    /// Whether there may still be something to do in it, or a deadline will decide something.
    pub fn is_open(&self, conversation: &Label) -> Result<bool, Error> {
        self.needs(late::CONVERSATION)?;
        self.needs(late::MESSAGE)?;
        self.value(
            "SELECT EXISTS (SELECT 1 FROM messages m JOIN deliveries d ON d.message = m.number
                 WHERE m.conversation = ?1 AND d.state <= 1)
                 OR EXISTS (SELECT 1 FROM approvals
                 WHERE conversation = ?1 AND state = 0 AND deadline IS NOT NULL)
                 OR EXISTS (SELECT 1 FROM workflows WHERE label = ?1 AND state = 0)",
            [conversation],
        )
    }

    /// Whether anything happened in it after a record: a message, a step of a delivery, an outcome, or a redaction.
    pub fn changed_after(&self, conversation: &Label, after: Position) -> Result<bool, Error> {
        self.needs(late::CONVERSATION)?;
        let happened: bool = self.value(
            "SELECT EXISTS (SELECT 1 FROM messages WHERE conversation = ?1 AND position > ?2)
                 OR EXISTS (SELECT 1 FROM closed WHERE conversation = ?1 AND position > ?2)
                 OR EXISTS (SELECT 1 FROM messages m JOIN events e ON e.message = m.number
                            WHERE m.conversation = ?1 AND e.position > ?2)",
            params![conversation, after],
        )?;
        Ok(happened || self.redacted_after(conversation, after)?)
    }

    fn redacted_after(&self, conversation: &Label, after: Position) -> Result<bool, Error> {
        let redacted: BTreeSet<Position> =
            self.column("SELECT position FROM redactions WHERE redacted_by > ?1", [after])?;
        if redacted.is_empty() {
            return Ok(false);
        }
        if self.closed(conversation)?.is_some_and(|closed| redacted.contains(&closed.position)) {
            return Ok(true);
        }
        for number in self.conversation(conversation)? {
            if self.content_positions(number)?.iter().any(|position| redacted.contains(position)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The record that redacted the content of this one.
    pub fn redaction(&self, position: Position) -> Result<Option<Position>, Error> {
        self.maybe("SELECT redacted_by FROM redactions WHERE position = ?1", [position])
    }

    pub fn insert_redaction(&mut self, position: Position, redacted_by: Position) -> Result<(), Error> {
        self.execute("INSERT INTO redactions (position, redacted_by) VALUES (?1, ?2)", params![position, redacted_by])?;
        self.delete_content(position)
    }

    /// Content is not state: the fold may drop it, and never reads it.
    fn delete_content(&mut self, position: Position) -> Result<(), Error> {
        self.execute("DELETE FROM content WHERE position = ?1", [position])
    }

    pub fn insert_archive(&mut self, archive: &Archive, position: Position, at: Timestamp) -> Result<(), Error> {
        self.execute(
            "INSERT INTO archives (position, at, file, lines, digest) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![position, at, archive.file, archive.lines, archive.digest],
        )
    }

    pub fn archive(&self, position: Position) -> Result<Option<ArchiveRow>, Error> {
        self.one(select!(ArchiveRow, "WHERE position = ?1"), [position])
    }

    pub fn archives(&self) -> Result<Vec<ArchiveRow>, Error> {
        self.all(select!(ArchiveRow, "ORDER BY position"), [])
    }

    pub fn has_archive_file(&self, file: &str) -> Result<bool, Error> {
        self.value("SELECT EXISTS (SELECT 1 FROM archives WHERE file = ?1)", [file])
    }

    /// The archive that holds a record's content.
    pub fn archive_of_content(&self, position: Position) -> Result<Option<ArchiveRow>, Error> {
        let archive: Option<Position> =
            self.maybe("SELECT archive FROM archived_content WHERE position = ?1", [position])?;
        archive.map(|archive| self.archive(archive)).transpose().map(Option::flatten)
    }

    pub fn archived_message(&self, number: MessageNo) -> Result<Option<ArchivedMessage>, Error> {
        self.one(select!(ArchivedMessage, "WHERE number = ?1"), [number])
    }

    /// What an archive took out of the live tables: messages, and records with content.
    pub fn archived_in(&self, archive: Position) -> Result<(BTreeSet<MessageNo>, BTreeSet<Position>), Error> {
        let messages = self.column("SELECT number FROM archived_messages WHERE archive = ?1", [archive])?;
        let contents = self.column("SELECT position FROM archived_content WHERE archive = ?1", [archive])?;
        Ok((messages, contents))
    }

    /// Archived messages that something happened to in this span, through records that do not name them.
    pub fn archived_touched(&self, after: Position, upto: Position) -> Result<Vec<MessageNo>, Error> {
        self.column("SELECT message FROM archived_events WHERE position > ?1 AND position <= ?2", [after, upto])
    }

    /// Whether this record is a late result for an archived message.
    pub fn was_late(&self, number: MessageNo, position: Position) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM archived_events WHERE position = ?1 AND message = ?2 AND event = ?3)",
            params![position, number, Event::Late],
        )
    }

    /// The archived messages of a conversation, in order.
    pub fn archived_conversation(&self, conversation: &Label) -> Result<Vec<ArchivedMessage>, Error> {
        self.all(select!(ArchivedMessage, "WHERE conversation = ?1 ORDER BY number"), [conversation])
    }

    /// Moves a message and everything about its deliveries out of the live tables, and its content out of the database.
    pub fn archive_message(&mut self, archived: &ArchivedMessage) -> Result<(), Error> {
        self.needs(late::MESSAGE)?;
        for position in self.content_positions(archived.number)? {
            // A shared context lives on; only the message about this version is archived.
            if self.version_at(position)?.is_none() {
                self.delete_content(position)?;
            }
            self.execute(
                "INSERT INTO archived_content (position, archive) VALUES (?1, ?2)",
                params![position, archived.archive],
            )?;
        }
        self.execute(
            "INSERT INTO archived_events (position, message, event)
                 SELECT DISTINCT position, message, event FROM events
                 WHERE message = ?1 AND (event IN (?2, ?3, ?4, ?5, ?6, ?7) OR (event = ?8 AND agent = ?9))",
            params![
                archived.number,
                Event::Claimed,
                Event::Late,
                Event::LeaseExpired,
                Event::Dead,
                Event::Expired,
                Event::Returned,
                // A default decides an approval without a record that names it.
                Event::Done,
                crate::text::POSTE
            ],
        )?;
        // One by one, so that a later step that only waited for these is rung for, because it can be claimed now.
        for delivery in self.deliveries_of(archived.number)? {
            self.delete_numbered(delivery.number)?;
        }
        for sql in [
            "DELETE FROM shown WHERE delivery IN (SELECT number FROM deliveries WHERE message = ?1)",
            "DELETE FROM events WHERE message = ?1",
            "DELETE FROM deliveries WHERE message = ?1",
            "DELETE FROM messages WHERE number = ?1",
        ] {
            self.execute(sql, [archived.number])?;
        }
        self.insert(archived)
    }

    /// Archives the outcome of a closed conversation, if its record has content.
    pub fn archive_outcome(&mut self, outcome: Position, archive: Position) -> Result<(), Error> {
        if !self.has_content(outcome)? {
            return Ok(());
        }
        self.delete_content(outcome)?;
        self.execute("INSERT INTO archived_content (position, archive) VALUES (?1, ?2)", params![outcome, archive])
    }

    /// The records with content about a message: its own, and those about its deliveries. Only headers are checked for
    /// content, so a refold, which has no content, finds the same records.
    pub fn content_positions(&self, number: MessageNo) -> Result<Vec<Position>, Error> {
        let Some(message) = self.message(number)? else { return Ok(Vec::new()) };
        let mut positions: Vec<Position> = self
            .events_of(number)?
            .into_iter()
            .filter(|event| event.says_something())
            .map(|event| event.position)
            .collect();
        if message.notice.is_none() {
            positions.push(message.position);
        }
        let shared = self.said_of_several(number)?;
        positions.retain(|position| !shared.contains(position));
        positions.sort_unstable();
        positions.dedup();
        let mut with_content = Vec::with_capacity(positions.len());
        for position in positions {
            if self.has_content(position)? {
                with_content.push(position);
            }
        }
        Ok(with_content)
    }

    /// The ends of runs that also worked on other messages. Their content belongs to no single message, so it stays.
    fn said_of_several(&self, number: MessageNo) -> Result<Vec<Position>, Error> {
        let mut found = Vec::new();
        for run in self.runs_of_message(number)? {
            if self.messages_of_run(&run.run)?.len() > 1 {
                found.extend(run.end.map(|end| end.position));
            }
        }
        Ok(found)
    }

    /// Whether a record has content, according to its header.
    fn has_content(&self, position: Position) -> Result<bool, Error> {
        Ok(self.record(position)?.is_some_and(|record| record.sealed.envelope.content.is_some()))
    }
}
