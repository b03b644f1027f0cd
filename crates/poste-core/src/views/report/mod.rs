//! Reports on a broadcast, a blocker, a conversation, an agent's mail, or a day.
//!
//! The cost of a report on a message or conversation grows with its size. A report on a time reads the records of that
//! time, which are next to each other in the log.

mod agent;
mod blocker;
mod broadcast;
mod conversation;
mod day;
mod happening;
mod span;

pub use agent::{AgentReport, OpenMail, Taken, agent_report};
pub use blocker::{BlockerLine, BlockerReport, BlockerStatus, blocker_report};
pub use broadcast::{BroadcastLine, BroadcastReport, Receipt, Response, broadcast_report};
pub use conversation::{ConversationReport, ConversationStatus, WorkResult, conversation_report};
pub use day::{AgentDay, ConversationLine, DayCounts, DayReport, Ended, TypeCount, day_report};
pub use happening::{Happened, Happening};

use std::collections::BTreeSet;

use super::rows::{MessageRows, UNREADABLE, or_damage, rows, subject};
use super::track::first_line;
use super::{Found, content};
use crate::error::Error;
use crate::log::{Content, MessageNo, Position};
use crate::store::Store;
use crate::store::tables::{Message, Tables};

/// Shown in place of erased text.
const REDACTED: &str = "(redacted)";
/// Shown in place of missing text.
const GONE: &str = "(no longer here)";
/// Messages of one conversation that a report reads, oldest first.
const MESSAGES_MAX: usize = 2_000;
/// Lines of each list in a report on a time.
const LIST_MAX: usize = 100;

/// Reads a report. One missing archive must not hide everything else, so damage is noted and skipped.
struct Reading<'a, 'conn> {
    store: &'a Store,
    tables: &'a Tables<'conn>,
    damage: BTreeSet<String>,
}

impl<'a, 'conn> Reading<'a, 'conn> {
    fn new(store: &'a Store, tables: &'a Tables<'conn>) -> Self {
        Self { store, tables, damage: BTreeSet::new() }
    }

    /// What was found, or its replacement if it is damaged.
    fn or<T>(&mut self, found: Result<T, Error>, instead: T) -> Result<T, Error> {
        Ok(or_damage(found)?.unwrap_or_else(|damage| {
            self.damage.insert(damage);
            instead
        }))
    }

    /// A message with its deliveries and their history; none if it cannot be read.
    fn rows(&mut self, number: MessageNo) -> Result<Option<MessageRows>, Error> {
        let found = rows(self.store, self.tables, number);
        self.or(found, None)
    }

    /// A message alone.
    fn message(&mut self, number: MessageNo) -> Result<Option<Message>, Error> {
        match self.tables.message(number)? {
            Some(message) => Ok(Some(message)),
            None => Ok(self.rows(number)?.map(|found| found.message)),
        }
    }

    fn subject(&mut self, message: &Message) -> Result<String, Error> {
        let found = subject(self.store, self.tables, message);
        self.or(found, UNREADABLE.to_owned())
    }

    /// The text that `says` takes from a record's content, or a placeholder if the content is missing.
    fn said(
        &mut self,
        position: Position,
        says: impl FnOnce(Content) -> Option<String>,
    ) -> Result<Option<String>, Error> {
        let found = content(self.store, position).map(|found| match found {
            Found::Content(content) => says(*content),
            Found::Never => None,
            Found::Redacted(_) => Some(REDACTED.to_owned()),
            Found::Gone => Some(GONE.to_owned()),
        });
        self.or(found, Some(UNREADABLE.to_owned()))
    }

    /// The content of a record in one line.
    fn note(&mut self, position: Position) -> Result<Option<String>, Error> {
        self.said(position, first_line)
    }

    /// A message in one line: the first line of its body, or its subject.
    fn gist(&mut self, message: &Message) -> Result<Option<String>, Error> {
        self.said(message.position, |content| {
            let subject = content.subject.clone();
            first_line(content).or(Some(subject))
        })
    }

    fn damage(self) -> Vec<String> {
        self.damage.into_iter().collect()
    }
}
