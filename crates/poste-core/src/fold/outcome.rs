//! What the fold answers.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::address::Address;
use crate::log::{MessageNo, Position};
use crate::text::{Name, RecordId};
use crate::time::{Timestamp, rfc3339};

/// The answer to one proposal.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub id: RecordId,
    /// Where it stands in the log; `None` when it was refused and the log does not keep refusals.
    pub position: Option<Position>,
    pub at: Timestamp,
    /// The same proposal was decided before, under the same id; nothing happened now.
    pub repeat: bool,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Accepted(Effect),
    Rejected(Rejection),
}

impl Verdict {
    pub fn accepted(self) -> Result<Effect, Rejection> {
        match self {
            Self::Accepted(effect) => Ok(effect),
            Self::Rejected(rejection) => Err(rejection),
        }
    }
}

/// What an accepted record did, as far as its proposer wants to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Nothing more to say.
    Noted,
    Sent(Sent),
    Claimed(Claimed),
    /// The lease was lost: the delivery is unchanged, the result is kept as late.
    Late(Late),
    /// How many due items a tick settled.
    Settled(usize),
    /// How many deliveries it touched.
    Touched(usize),
}

impl Effect {
    /// The number a message was given, if the record is one.
    pub fn message(&self) -> Option<MessageNo> {
        match self {
            Self::Sent(sent) => Some(sent.number),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Sent {
    pub number: MessageNo,
    pub conversation: String,
    /// Whom it was delivered to, one entry a delivery.
    pub deliveries: Vec<Address>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Claimed {
    pub token: Position,
    pub items: Vec<ClaimedItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ClaimedItem {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339")]
    pub lease_until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Late {
    pub number: MessageNo,
    /// Who holds it now, if anybody.
    pub holder: Option<Name>,
    pub state: &'static str,
}

/// Why a proposal was refused. Both parts are decided by log and tables alone, so every machine says the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    pub code: Code,
    pub reason: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $word:literal $class:ident),+ $(,)?) => {
        /// Every reason the fold has to refuse.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $($(#[$doc])* $variant),+ }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class),+ }
            }

            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|code| code.word() == word)
            }
        }
    };
}

/// What kind of trouble a refusal is; decides the exit code of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    NotFound,
    Refused,
    Conflict,
}

codes! {
    Malformed "malformed" Refused,
    TooLarge "too_large" Refused,
    IdConflict "id_conflict" Conflict,
    UnknownKind "unknown_kind" Refused,
    UnknownAgent "unknown_agent" NotFound,
    UnknownMessage "unknown_message" NotFound,
    UnknownType "unknown_type" NotFound,
    NameTaken "name_taken" Conflict,
    Retired "retired" Refused,
    NoMember "no_member" NotFound,
    NoRecipient "no_recipient" Refused,
    NotRecipient "not_recipient" Refused,
    NotAllowed "not_allowed" Refused,
    NotReady "not_ready" Refused,
    AlreadyClaimed "already_claimed" Conflict,
    NotClaimed "not_claimed" Refused,
    LeaseLost "lease_lost" Conflict,
    Ended "ended" Conflict,
    NothingToClaim "nothing_to_claim" NotFound,
    NothingToDo "nothing_to_do" Refused,
    TimeOutOfRange "time_out_of_range" Refused,
    PolicyClash "policy_clash" Conflict,
    Archived "archived" Refused,
    NotFinished "not_finished" Conflict,
    UnknownRecord "unknown_record" NotFound,
    /// A choice the question does not offer.
    NotOffered "not_offered" Refused,
    /// A question ends with a decision, not by saying that it is done.
    NeedsAnswer "needs_answer" Refused,
    /// The agent runs as another session.
    SessionLive "session_live" Conflict,
    SessionTaken "session_taken" Conflict,
    SessionOver "session_over" Conflict,
    UnknownSession "unknown_session" NotFound,
    UnknownQuestion "unknown_question" NotFound,
    /// Never by the fold, which knows no content: by the office, before the append.
    PayloadUnfit "payload_unfit" Refused,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Builds a refusal.
pub(crate) fn refuse(code: Code, reason: impl Into<String>) -> Stop {
    Stop::Rejected(Rejection { code, reason: reason.into() })
}

/// Why the deciding half of a rule ends early: it refuses, or the tables cannot be read.
#[derive(Debug)]
pub(crate) enum Stop {
    Rejected(Rejection),
    Failed(crate::error::Error),
}

impl From<crate::error::Error> for Stop {
    fn from(error: crate::error::Error) -> Self {
        Self::Failed(error)
    }
}
