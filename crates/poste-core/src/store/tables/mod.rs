//! The typed tables that the fold works on. All SQL for state is here.
//!
//! Reads take `&Tables` and writes `&mut Tables`, so the compiler keeps the deciding half of the fold from writing.

#[macro_use]
mod rows;

mod agents;
mod agreements;
mod approvals;
mod changes;
mod contexts;
mod conversations;
mod cursor;
mod deliveries;
mod due;
mod handlers;
mod handoffs;
mod log;
mod messages;
mod owed;
mod policy;
mod reservations;
mod runs;
mod sessions;
mod silence;
mod summary;
mod topics;
mod workflows;

use std::cell::RefCell;
use std::collections::BTreeMap;

use rusqlite::{CachedStatement, Connection};

pub use agents::Agent;
pub use agreements::{Agreed, Party};
pub use approvals::{Approval, ApprovalState};
pub use changes::{Changes, Concern, Concerns};
pub use contexts::{Context, Lock, TextPart, Version};
pub use conversations::{ArchiveRow, ArchivedMessage, Closed};
pub use cursor::Cursor;
pub(crate) use deliveries::IN_ORDER;
pub use deliveries::{Delivery, EndReason, Event, EventRow, State};
pub use due::{Due, DueItem};
pub use handlers::{Handler, HandlerLease, Untold};
pub use handoffs::{Handoff, HandoffState, handoff_where};
pub use log::{ContentRow, IdRow, REPEAT, Refused, WITHOUT_CONTENT, content_row, entry_row, open_entry, record_row};
pub use messages::{Message, Notice};
pub use policy::{PolicyRow, TypeDefaults};
pub use reservations::{PastReservation, Reservation, ReservationEnd};
pub(crate) use rows::Stored;
pub use runs::{HoldRow, RunEnded, RunRow, Spent};
pub use sessions::{NoteRow, SessionRow, SessionState};
pub use workflows::{StepRow, StepState, TaskPart, TaskRow, TaskState, WorkflowRow, WorkflowState};

use crate::error::Error;
use crate::log::MessageNo;
use crate::text::{RecordId, TypeName};
use crate::vocabulary::Urgency;

/// The tables of one office inside one transaction. The cursor is kept in memory until [`Tables::flush`].
#[derive(Debug)]
pub struct Tables<'conn> {
    conn: &'conn Connection,
    pub cursor: Cursor,
    /// The cursor as stored in the file. Flushing an unchanged one writes nothing.
    stored: Cursor,
    cache: RefCell<Cache>,
    kept: Kept<'conn>,
    /// The SQL of indexes that have been left out so far.
    left_out: RefCell<BTreeMap<&'static str, String>>,
    /// What changed, if the caller wants to know.
    changes: Option<Box<Changes>>,
    /// The last stored message and its urgency, for the deliveries that follow.
    newest_message: Option<(MessageNo, Urgency)>,
}

/// Indexes that a log can be folded without until a record needs them. Many logs never need all of them.
mod late {
    pub(super) const CONVERSATION: &str = "messages_conversation";
    pub(super) const MESSAGE: &str = "deliveries_message";
    pub(super) const INBOX: &str = "deliveries_inbox";
    pub(super) const EVENTS: &str = "events_position";
    pub(super) const ALL: [&str; 4] = [CONVERSATION, MESSAGE, INBOX, EVENTS];
}

/// Statements that every record needs, kept at hand because looking one up by its text takes as long as running a small
/// one.
#[derive(Default)]
struct Kept<'conn> {
    id: RefCell<Option<CachedStatement<'conn>>>,
    insert_id: Option<CachedStatement<'conn>>,
    insert_record: Option<CachedStatement<'conn>>,
    insert_content: Option<CachedStatement<'conn>>,
    insert_message: Option<CachedStatement<'conn>>,
    insert_delivery: Option<CachedStatement<'conn>>,
    delete_closed: Option<CachedStatement<'conn>>,
}

impl std::fmt::Debug for Kept<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Kept")
    }
}

/// The statement in `place`, prepared on first use.
fn kept<'a, 'conn>(
    place: &'a mut Option<CachedStatement<'conn>>,
    conn: &'conn Connection,
    sql: &str,
) -> rusqlite::Result<&'a mut CachedStatement<'conn>> {
    match place {
        Some(statement) => Ok(statement),
        None => Ok(place.insert(conn.prepare_cached(sql)?)),
    }
}

/// What every send asks for again. This is correct because these tables are the only writer: they live inside one
/// transaction, and code that writes one of these rows also removes it here.
#[derive(Debug, Default)]
struct Cache {
    agents: BTreeMap<String, Option<Agent>>,
    policy: Option<PolicyRow>,
    types: BTreeMap<TypeName, TypeDefaults>,
    /// The greatest id, if it was asked for and there is one.
    greatest_id: Option<Option<RecordId>>,
}

/// Maximum number of cached agents, so that the cache does not grow with the office.
const CACHED_AGENTS_MAX: usize = 1_024;

impl<'conn> Tables<'conn> {
    pub fn load(conn: &'conn Connection) -> Result<Self, Error> {
        let stored = Cursor::read(conn)?;
        Ok(Self {
            conn,
            cursor: stored.clone(),
            stored,
            cache: RefCell::default(),
            kept: Kept::default(),
            left_out: RefCell::default(),
            changes: None,
            newest_message: None,
        })
    }

    /// Empty tables that a whole log will be folded into. Indexes are created when they are first needed.
    pub(crate) fn to_refold(conn: &'conn Connection) -> Result<Self, Error> {
        let mut tables = Self::load(conn)?;
        for name in late::ALL {
            let sql = conn.query_row("SELECT sql FROM sqlite_schema WHERE name = ?1", [name], |row| row.get(0))?;
            conn.execute_batch(&format!("DROP INDEX {name}"))?;
            tables.left_out.get_mut().insert(name, sql);
        }
        Ok(tables)
    }

    /// Must be called before a query that uses one of the late indexes.
    fn needs(&self, index: &'static str) -> Result<(), Error> {
        let sql = self.left_out.borrow_mut().remove(index);
        sql.map_or(Ok(()), |sql| Ok(self.conn.execute_batch(&sql)?))
    }

    /// For views, which may query anything.
    pub(crate) fn needs_all(&self) -> Result<(), Error> {
        late::ALL.into_iter().try_for_each(|index| self.needs(index))
    }

    pub fn conn(&self) -> &'conn Connection {
        self.conn
    }

    /// Whether anything was folded since loading.
    pub fn changed(&self) -> bool {
        self.cursor != self.stored
    }

    /// Writes the cursor. Must be the last step before the commit.
    pub fn flush(&mut self) -> Result<(), Error> {
        if self.changed() {
            self.cursor.write(self.conn)?;
            self.stored = self.cursor.clone();
        }
        Ok(())
    }
}

/// Turns a missing row into `None`.
pub(crate) trait Optional<T> {
    fn optional(self) -> Result<Option<T>, Error>;
}

impl<T> Optional<T> for rusqlite::Result<T> {
    fn optional(self) -> Result<Option<T>, Error> {
        match self {
            Ok(value) => Ok(Some(value)),
            Err(rusqlite::Error::QueryReturnedNoRows) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
