//! Reports: what became of a broadcast, a blocker, a conversation, an agent's mail, a day.
//!
//! A report of one message or conversation costs what that one is worth; a report of a time reads the records of that
//! time, which stand together in the log.

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

/// What stands where words were erased.
const REDACTED: &str = "(redacted)";
/// What stands where words are missing.
const GONE: &str = "(no longer here)";
/// Messages of one conversation that a report looks at, oldest first.
const MESSAGES_MAX: usize = 2_000;
/// Lines of each list in a report of a time.
const LIST_MAX: usize = 100;

/// What a report is read with. One missing archive must not hide all that is whole, so damage is noted and passed by.
struct Reading<'a, 'conn> {
    store: &'a Store,
    tables: &'a Tables<'conn>,
    damage: BTreeSet<String>,
}

impl<'a, 'conn> Reading<'a, 'conn> {
    fn new(store: &'a Store, tables: &'a Tables<'conn>) -> Self {
        Self { store, tables, damage: BTreeSet::new() }
    }

    /// Something, or what is to be shown in its place.
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

    /// What a record's content says, as `says` tells it; of words that are gone, that they are.
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

    /// In one line.
    fn note(&mut self, position: Position) -> Result<Option<String>, Error> {
        self.said(position, first_line)
    }

    /// What a message says, in one line: that of its body, or its subject.
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
