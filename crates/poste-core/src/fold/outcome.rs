//! Results of folding a record.

use std::borrow::Cow;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::log::{MessageNo, Position, ReservationNo};
use crate::pattern::Pattern;
use crate::text::{ContextName, Label, Name, RecordId};
use crate::time::{Timestamp, from_rfc3339, rfc3339};

/// The answer to one proposal.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub id: RecordId,
    /// The record's position in the log; `None` when it was refused and the log does not keep refusals.
    pub position: Option<Position>,
    pub at: Timestamp,
    /// The same proposal was decided earlier under the same id. This record changed nothing.
    pub repeat: bool,
    pub verdict: Verdict,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

/// What an accepted record did, as far as its proposer needs to know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// No further information.
    Noted,
    Sent(Sent),
    Claimed(Claimed),
    /// The lease was lost: the delivery is unchanged, and the result is kept as late.
    Late(Late),
    /// Paths that are now reserved or, after a release, no longer reserved.
    Reserved(Vec<Reserved>),
    /// Paths that another agent held, and the message that notifies it.
    Freed {
        released: Vec<Reserved>,
        message: MessageNo,
    },
    /// Number of due items that a tick settled.
    Settled(usize),
    /// Number of deliveries that the record touched.
    Touched(usize),
    /// A version of a shared context, and the message that announces it.
    Versioned(Versioned),
    /// The lock of a shared context.
    Locked(Locked),
    /// The lease on a notification rule.
    Handling(Handling),
    /// An agreement to a proposal, and the parties that have not agreed yet.
    Agreed(AgreedOn),
    /// The label of a workflow that began.
    Began(Label),
}

impl Effect {
    /// The number of the message that the record created, if any.
    pub fn message(&self) -> Option<MessageNo> {
        match self {
            Self::Sent(sent) => Some(sent.number),
            Self::Versioned(made) => Some(made.message),
            Self::Agreed(sealed) => Some(sealed.message),
            Self::Freed { message, .. } => Some(*message),
            _ => None,
        }
    }

    /// Number of deliveries that the record touched.
    pub fn touched(&self) -> usize {
        if let Self::Touched(count) = self { *count } else { 0 }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Sent {
    pub number: MessageNo,
    pub conversation: String,
    /// Its recipients, one entry per delivery.
    pub deliveries: Vec<Address>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Versioned {
    pub context: ContextName,
    pub version: u64,
    /// The message that subscribers got.
    pub message: MessageNo,
    /// Number of subscribers.
    pub subscribers: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgreedOn {
    pub proposal: MessageNo,
    /// The reply that agrees.
    pub message: MessageNo,
    /// Parties that have not agreed yet.
    pub missing: Vec<Address>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Locked {
    pub context: ContextName,
    pub token: Position,
    #[serde(serialize_with = "rfc3339", deserialize_with = "from_rfc3339")]
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Claimed {
    pub token: Position,
    pub items: Vec<ClaimedItem>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimedItem {
    pub number: MessageNo,
    #[serde(serialize_with = "rfc3339", deserialize_with = "from_rfc3339")]
    pub lease_until: Timestamp,
}

/// A reserved pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reserved {
    pub number: ReservationNo,
    pub pattern: Pattern,
    pub shared: bool,
    #[serde(serialize_with = "rfc3339", deserialize_with = "from_rfc3339")]
    pub until: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Handling {
    pub rule: Label,
    pub token: Position,
    #[serde(serialize_with = "rfc3339", deserialize_with = "from_rfc3339")]
    pub until: Timestamp,
    /// Everything up to here was processed.
    pub cursor: Position,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    pub number: MessageNo,
    /// The agent that holds the message now, if any.
    pub holder: Option<Name>,
    pub state: Cow<'static, str>,
}

/// Why a proposal was refused. Both fields follow from the log and tables alone, so they are the same on every machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{reason}")]
pub struct Rejection {
    pub code: Code,
    pub reason: String,
}

macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident $word:literal $class:ident),+ $(,)?) => {
        /// Every reason for which the fold refuses a proposal.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        pub enum Code { $($(#[$doc])* #[serde(rename = $word)] $variant),+ }

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

/// The class of a refusal. It determines the exit code of a command.
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
    /// The id is reserved for the office. Unlike any other refusal, this one does not use up the id.
    ReservedId "reserved_id" Refused,
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
    /// Reserved for a person, and nothing proves that one gave the command.
    NotAPerson "not_a_person" Refused,
    /// The default of a question would approve it, and the office's policy does not allow that for its type.
    DefaultApproves "default_approves" Refused,
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
    UnknownContext "unknown_context" NotFound,
    UnknownVersion "unknown_version" NotFound,
    StaleVersion "stale_version" Conflict,
    ContextLocked "context_locked" Conflict,
    NotLocked "not_locked" Refused,
    /// The question does not offer this choice.
    NotOffered "not_offered" Refused,
    /// A question ends with a decision; `done` does not decide it.
    NeedsAnswer "needs_answer" Refused,
    /// A handoff is accepted or rejected; `done` does not end it.
    IsHandoff "is_handoff" Refused,
    NoHandoff "no_handoff" NotFound,
    /// Checks or commands of a handoff are missing or failed.
    Unverified "unverified" Refused,
    Reserved "reserved" Conflict,
    NotReserved "not_reserved" NotFound,
    /// The agent is running as another session.
    SessionLive "session_live" Conflict,
    SessionTaken "session_taken" Conflict,
    SessionOver "session_over" Conflict,
    UnknownSession "unknown_session" NotFound,
    RunTaken "run_taken" Conflict,
    Busy "busy" Conflict,
    UnknownRun "unknown_run" NotFound,
    UnknownWorkflow "unknown_workflow" NotFound,
    UnknownStep "unknown_step" NotFound,
    /// The step was already sent, or has already ended.
    StepTaken "step_taken" Conflict,
    /// Another step has to be done first.
    OutOfOrder "out_of_order" Refused,
    /// Another process holds the lease on the rule.
    RuleHeld "rule_held" Conflict,
    UnknownRule "unknown_rule" NotFound,
    UnknownQuestion "unknown_question" NotFound,
    Superseded "superseded" Conflict,
    NotAgreed "not_agreed" Refused,
    /// Never from the fold, which does not see content: the office refuses it before the append.
    PayloadUnfit "payload_unfit" Refused,
    /// Like `PayloadUnfit`, for the data of a shared context that does not fit its schema.
    DataUnfit "data_unfit" Refused,
    /// Never from the fold either, which does not know the gates.
    GateNotPassed "gate_not_passed" Refused,
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

/// Why `decide` ends early: the rule refuses, or the tables cannot be read.
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
