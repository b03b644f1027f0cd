//! The log: proposals become records, in one total order.
//!
//! A [`Proposal`] is sealed into an [`Envelope`] (header, never content) with its [`Content`] beside it. The
//! [office](crate::office) assigns it a [`Position`] and a time and stores it, locally or through a [`Sequencer`].
//! The [fold](crate::fold) then decides what it does. Nothing in this module knows what a message is.

mod content;
mod envelope;
mod intent;

use std::fmt;

use rusqlite::types::{FromSql, FromSqlResult, ToSql, ToSqlOutput, ValueRef};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use content::{Body, Content, Document};
pub use envelope::{ContentRef, EncodedContent, Envelope, FORMAT, Malformed, Sealed};
pub use intent::*;

use crate::digest::Digest;
use crate::error::Error;
use crate::limits;
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
                // A number from outside may be larger than SQLite's integers; no row has such a number.
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
    /// The surface a proposal came by. For information: no decision depends on it.
    Via {
        /// None of these: the office made the record itself, or the surface is only known to a newer program.
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

worded_enum!(
    /// What proves that a person gave a command themselves, and not an agent acting in their name. Only the command line
    /// can prove it; the fold lets nothing else decide what is reserved for people.
    Proof {
        /// Nothing proves it: a script, a hook, an agent.
        None = 0 "none",
        /// The command ran in the foreground of a terminal, with no agent above it.
        Terminal = 1 "terminal",
        /// The person also typed a word that the command asked for.
        Word = 2 "word",
        /// The command was given a token that agents do not have.
        Token = 3 "token",
    }
);

impl Proof {
    /// Whether a person gave the command.
    pub fn is_given(&self) -> bool {
        *self != Self::None
    }

    /// Whether a person confirmed exactly this command.
    pub fn is_confirmed(self) -> bool {
        matches!(self, Self::Word | Self::Token)
    }
}

impl Via {
    /// The surface, or `None` if it is unknown.
    pub fn known(self) -> Option<Self> {
        Some(self).filter(|via| *via != Self::Unknown)
    }
}

/// A requested change. The fold decides on it.
#[derive(Debug, Clone)]
pub struct Proposal {
    pub id: RecordId,
    pub actor: Name,
    pub session: Option<Session>,
    /// The surface it came through. The office itself adds the machine.
    pub via: Via,
    pub proof: Proof,
    /// The caller's clock, for information only.
    pub sent_at: Timestamp,
    pub intent: Intent,
    pub content: Option<Content>,
}

/// The agent that writes, its session, the surface, and whether a person is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Author {
    pub actor: Name,
    pub session: Option<Session>,
    pub via: Via,
    pub proof: Proof,
}

impl Author {
    /// An author outside of any session.
    pub fn new(actor: Name, via: Via) -> Self {
        Self { actor, session: None, via, proof: Proof::None }
    }
}

/// A sealed proposal at its position in the log.
#[derive(Debug, Clone)]
pub struct Record {
    pub position: Position,
    /// The sequencer's time.
    pub at: Timestamp,
    pub sealed: Sealed,
}

impl Record {
    /// The hash that ties this record to all earlier ones. It does not cover content, so redaction leaves the chain
    /// intact.
    pub fn chain(&self, previous: &Digest) -> Digest {
        chain(previous, self.position, self.at, self.sealed.bytes())
    }
}

fn chain(previous: &Digest, position: Position, at: Timestamp, bytes: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(previous.as_bytes());
    hasher.update(&position.0.to_le_bytes());
    hasher.update(&at.ms().to_le_bytes());
    hasher.update(bytes);
    Digest::from_bytes(*hasher.finalize().as_bytes())
}

/// What a log holds at one position.
#[derive(Debug, Clone)]
#[allow(clippy::large_enum_variant, reason = "nearly every entry is a record; a box would cost each an allocation")]
pub enum Entry {
    Record(Record),
    Malformed(MalformedRecord),
}

impl Entry {
    pub fn position(&self) -> Position {
        match self {
            Self::Record(record) => record.position,
            Self::Malformed(malformed) => malformed.position,
        }
    }

    /// The hash that ties this entry to all earlier ones.
    pub fn chain(&self, previous: &Digest) -> Digest {
        match self {
            Self::Record(record) => record.chain(previous),
            Self::Malformed(malformed) => malformed.chain(previous),
        }
    }

    /// The log's time never goes back.
    pub(crate) fn not_before(&mut self, last: Timestamp) {
        let (Self::Record(Record { at, .. }) | Self::Malformed(MalformedRecord { at, .. })) = self;
        *at = last.max(*at);
    }

    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        match self {
            Self::Record(record) => Some(&record.sealed),
            Self::Malformed(_) => None,
        }
    }
}

/// Bytes that a sequencer put in order but that are not a record. They keep their position and change nothing.
#[derive(Debug, Clone)]
pub struct MalformedRecord {
    pub position: Position,
    pub at: Timestamp,
    /// If the bytes are too long for a record, only their beginning, which is still too long.
    pub bytes: Vec<u8>,
    pub why: Malformed,
}

impl MalformedRecord {
    pub fn chain(&self, previous: &Digest) -> Digest {
        chain(previous, self.position, self.at, &self.bytes)
    }
}

/// What a sequencer has at one position, as received.
#[derive(Debug, Clone)]
pub struct Arrived {
    pub position: Position,
    /// The sequencer's time.
    pub at: Timestamp,
    /// An envelope, if its publisher worked correctly.
    pub bytes: Vec<u8>,
    /// The content received with it.
    pub content: Option<Vec<u8>>,
}

impl Arrived {
    /// Total: any bytes are an entry. Only an envelope of a newer format is an error, because a newer program could
    /// read it.
    pub fn open(self) -> Result<Entry, Error> {
        let Self { position, at, bytes, content } = self;
        match Sealed::open_or_return(bytes) {
            Ok(mut sealed) => {
                sealed.content = content.and_then(|bytes| EncodedContent::of_record(bytes, &sealed.envelope));
                Ok(Entry::Record(Record { position, at, sealed }))
            }
            Err((Malformed::Format(format), _)) if format > FORMAT => {
                Err(Error::NeedsUpgrade { what: "follow", needed: format.into(), ours: FORMAT.into() })
            }
            Err((why, mut bytes)) => {
                bytes.truncate(limits::ENVELOPE_BYTES_MAX + 1);
                Ok(Entry::Malformed(MalformedRecord { position, at, bytes, why }))
            }
        }
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

/// The prefix of every id that the office derives for its own records. No one else may use such an id: a different
/// record that took it would keep the office from writing its own.
///
/// It sorts before every UUID, so that looking up new ids stays cheap.
pub const OFFICE_IDS: &str = "/poste/";

/// The prefix of tick ids, which are derived from what is due.
pub const TICK_IDS: &str = "/poste/tick/";
/// The prefix of ids of records that advance a workflow, which are derived from what they do.
pub const WORKFLOW_IDS: &str = "/poste/workflow/";

/// The prefix of the id of a record that advances a workflow. It is the same on every machine that finds the same thing
/// to do. `None` for any other intent.
pub fn advance_id(intent: &Intent) -> Option<String> {
    let what = match intent {
        Intent::WorkflowStep(WorkflowStep { workflow, step, round, item, attempt, failure, .. }) => {
            format!("{workflow}\nstep\n{step}\n{round}\n{item}\n{attempt}\n{failure}")
        }
        Intent::WorkflowMark(WorkflowMark { workflow, step, round, what }) => {
            format!("{workflow}\nmark\n{step}\n{round}\n{what}")
        }
        Intent::WorkflowEnd(WorkflowEnd { workflow, how, .. }) => format!("{workflow}\nend\n{how}"),
        _ => return None,
    };
    Some(format!("{WORKFLOW_IDS}{}", Digest::of(what.as_bytes())))
}

/// Puts records in one order for many machines, and stores them. It decides nothing: refused proposals stay in its log.
/// Each machine keeps the whole log in its own store and folds it.
pub trait Sequencer: fmt::Debug + std::marker::Send {
    /// Appends proposals to the log in this order. Returns the position of each.
    ///
    /// An error means that none of them was stored; [`Error::Unknown`] means that some may be.
    fn publish(&mut self, proposals: &[Sealed]) -> Result<Vec<Position>, Error>;

    /// The entries after a position, oldest first and without a gap, at most `limit`. Empty if there are none yet.
    fn pull(&mut self, after: Position, limit: usize) -> Result<Vec<Arrived>, Error>;

    /// The end of the log.
    fn head(&mut self) -> Result<SequencerHead, Error>;
}

/// The end of a log as its sequencer knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SequencerHead {
    pub position: Position,
    /// The time that a record published now would get.
    pub now: Timestamp,
}
