//! The log: proposals become records, in one total order.
//!
//! A [`Proposal`] is sealed into an [`Envelope`] (header, never content) with its [`Content`] beside it. A
//! [`Log`] gives it a [`Position`] and a time and keeps it; the [fold](crate::fold) then decides what it
//! does. Nothing here knows what a message is.

mod content;
mod envelope;
mod intent;

use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{Body, Content, Document};
pub use envelope::{ContentRef, Envelope, Malformed, Sealed};
pub use intent::*;

use crate::digest::Digest;
use crate::error::Error;
use crate::fold::Outcome;
use crate::store::Store;
use crate::text::{Name, RecordId, Session};
use crate::time::Timestamp;

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

/// A change somebody asks for. The fold decides.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub id: RecordId,
    pub actor: Name,
    pub session: Option<Session>,
    /// The caller's clock: information only.
    pub sent_at: Timestamp,
    pub intent: Intent,
    pub content: Option<Content>,
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

/// What puts records in order and keeps them. Five methods, so that another engine is a small file.
pub trait Log {
    /// Makes proposals durable and answers each with what the fold made of it.
    ///
    /// An error says that none of them is known to be kept; [`Error::Unknown`] that they may be.
    fn append(&mut self, proposals: Vec<Sealed>) -> Result<Vec<Outcome>, Error>;

    /// Records after `position`, oldest first, at most `limit`.
    fn read_from(&self, after: Position, limit: usize) -> Result<Vec<Record>, Error>;

    /// Blocks until the log reaches beyond `after` or the time is up; returns its end.
    fn tail(&self, after: Position, patience: Duration) -> Result<Position, Error>;

    /// The newest record.
    fn last(&self) -> Result<Head, Error>;

    /// Writes a copy of log and tables, sound by itself, to a new file.
    fn snapshot(&self, into: &Path) -> Result<Head, Error>;

    /// This machine's copy: the whole log, folded. Views read it, whatever the engine.
    fn store(&self) -> &Store;
}
