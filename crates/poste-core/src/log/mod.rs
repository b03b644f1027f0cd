//! The log: proposals become records, in one total order.
//!
//! A [`Proposal`] is sealed into an [`Envelope`] (header, never content) with its [`Content`] beside it. The
//! [office](crate::office) gives it a [`Position`] and a time and keeps it, by itself or through a [`Sequencer`]; the
//! [fold](crate::fold) then decides what it does. Nothing here knows what a message is.

mod content;
mod envelope;
mod intent;

use std::fmt;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{Body, Content, Document};
pub use envelope::{ContentRef, Envelope, Malformed, Sealed};
pub use intent::*;

use crate::digest::Digest;
use crate::error::Error;
use crate::text::{Name, RecordId, Session};
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

macro_rules! log_number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema, Default,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
                // A number from outside may be larger than SQLite's integers; no row has it then.
                Ok(ToSqlOutput::from(i64::try_from(self.0).unwrap_or(i64::MAX)))
            }
        }

        impl FromSql for $name {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                u64::column_result(value).map(Self)
            }
        }

        impl $name {
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
    };
}

log_number!(
    /// A place in the log, contiguous from 1. Also a claim's token and a reader's cursor.
    Position
);
log_number!(
    /// A message's number, given by the fold: 1, 2, 3 …
    MessageNo
);
log_number!(
    /// A delivery's key in the tables; people name a delivery by message and recipient.
    DeliveryNo
);

log_number!(
    /// A reservation's number, given by the fold: 1, 2, 3 …
    ReservationNo
);

worded_enum!(
    /// The surface a proposal came in by: information, which nothing is decided by.
    Via {
        /// By none of these: the office made the record itself, or a newer program knows a surface that this one does not.
        Unknown = 0 "unknown",
        Cli = 1 "cli",
        Mcp = 2 "mcp",
        Http = 3 "http",
        Hook = 4 "hook",
        /// The dispatcher, or a supervisor of its runs.
        Dispatch = 5 "dispatch",
        /// The files of another system.
        Layout = 6 "layout",
        Ingest = 7 "ingest",
    }
);

impl Via {
    /// Nothing, if it is not known.
    pub fn known(self) -> Option<Self> {
        Some(self).filter(|via| *via != Self::Unknown)
    }
}

/// A change somebody asks for. The fold decides.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub id: RecordId,
    pub actor: Name,
    pub session: Option<Session>,
    /// The surface it came in by. Which machine it came from, the office says itself.
    pub via: Via,
    /// The caller's clock: information only.
    pub sent_at: Timestamp,
    pub intent: Intent,
    pub content: Option<Content>,
}

/// Who writes, in which session, and through which surface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub actor: Name,
    pub session: Option<Session>,
    pub via: Via,
}

impl Author {
    /// Outside of any session.
    pub fn new(actor: Name, via: Via) -> Self {
        Self { actor, session: None, via }
    }
}

/// A sealed proposal in its place in the log.
#[derive(Debug, Clone)]
pub struct Record {
    pub position: Position,
    /// The sequencer's time.
    pub at: Timestamp,
    pub sealed: Sealed,
}

impl Record {
    /// The hash that ties this record to all before it. Content is not part of it, so redaction keeps it whole.
    pub fn chain(&self, previous: &Digest) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(previous.as_bytes());
        hasher.update(&self.position.0.to_le_bytes());
        hasher.update(&self.at.ms().to_le_bytes());
        hasher.update(self.sealed.bytes());
        Digest::from_bytes(*hasher.finalize().as_bytes())
    }
}

/// The end of a log as one machine knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    pub position: Position,
    pub at: Timestamp,
    pub chain: Digest,
}

impl Default for Head {
    fn default() -> Self {
        Self { position: Position(0), at: Timestamp::ZERO, chain: Digest::from_bytes([0; 32]) }
    }
}

/// What begins every id that the office gives its own records by what they are about. Nobody else may use such an id:
/// one that is taken by something else would keep the office from writing its own.
///
/// It sorts before every UUID, so that looking up new ids stays cheap.
pub const OFFICE_IDS: &str = "/poste/";

/// An engine that puts records in one order for many machines, and keeps them. It decides nothing: refused proposals
/// stay in its log. Each machine keeps the whole log in its own store and folds it.
pub trait Sequencer: fmt::Debug + std::marker::Send {
    /// Puts proposals at the end of the log, in this order, and answers with the position of each.
    ///
    /// An error says that none of them was stored; [`Error::Unknown`] that some may be.
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error>;

    /// Records after a position, without a gap, oldest first, at most `limit`; none if there are none yet.
    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Record>, Error>;

    /// Where the log ends.
    fn head(&mut self) -> Result<SequencerHead, Error>;
}

/// The end of a log as the engine that orders it knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencerHead {
    pub position: Position,
    /// The time that a record published now would have.
    pub now: Timestamp,
}
