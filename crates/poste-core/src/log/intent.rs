//! The kinds of records and their headers: everything the fold may base a decision on.
//!
//! Numbers are never reused and a kind is never changed in place: a new shape is a new version. Golden files in
//! `tests/records/` hold one record of each.

mod agreement;
mod approval;
mod context;
mod gate;
mod handler;
mod handoff;
mod reservation;
mod run;
mod session;
mod wake;
mod workflow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use agreement::*;
pub use approval::{ApprovalAnswer, ApprovalAsk};
pub use context::*;
pub use gate::{GateResult, GateVerdict};
pub use handler::{HandlerCursor, HandlerDead, HandlerRelease, HandlerSettle, HandlerTake, Settling};
pub use handoff::*;
pub use reservation::{Prolong, Reserve, Unreserve};
pub use run::{HoldReason, RunEnd, RunHold, RunOutcome, RunResume, RunStart};
pub use session::{NoteKind, SessionClose, SessionNote, SessionProcess, SessionStart};
pub use wake::{Wake, WakeOutcome, WakeWay};
pub use workflow::{
    StepAsk, StepMark, StepSpec, WorkflowEnd, WorkflowEnding, WorkflowMark, WorkflowRetry, WorkflowStart, WorkflowStep,
};

use crate::address::Address;
use crate::digest::Digest;
use crate::log::{MessageNo, Position};
use crate::text::{Label, Name, Topic, TypeName, Word};
use crate::time::When;
use crate::vocabulary::{AgentKind, Priority, Urgency};

/// A row of the table of kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    pub number: u16,
    pub name: &'static str,
    pub version: u16,
    pub critical: bool,
}

macro_rules! kinds {
    ($($number:literal $name:literal v $version:literal critical $critical:literal => $variant:ident),+ $(,)?) => {
        /// What a record asks for.
        #[derive(Debug, Clone)]
        pub enum Intent { $($variant($variant)),+ }

        /// Every kind this program knows, by number.
        pub const KINDS: &[Kind] = &[$(Kind {
            number: $number, name: $name, version: $version, critical: $critical,
        }),+];

        impl Intent {
            pub fn kind(&self) -> Kind {
                match self { $(Self::$variant(_) => Kind {
                    number: $number, name: $name, version: $version, critical: $critical,
                }),+ }
            }

            pub(crate) fn header(&self) -> Box<RawValue> {
                let encoded = match self { $(Self::$variant(header) => serde_json::value::to_raw_value(header)),+ };
                encoded.expect("headers are plain data and always encode")
            }

            /// `None`: a kind or version from a newer program.
            pub(crate) fn decode(kind: u16, version: u16, header: &str) -> Result<Option<Self>, serde_json::Error> {
                // serde would also read a list as the fields in order, which would be a second way to write a record.
                if !header.starts_with('{') {
                    return Err(serde::de::Error::custom("a header must be an object"));
                }
                match (kind, version) {
                    $(($number, $version) => serde_json::from_str(header).map(|header| Some(Self::$variant(header))),)+
                    _ => Ok(None),
                }
            }
        }
    };
}

kinds! {
    1 "barrier" v 1 critical true => Barrier,
    2 "tick" v 1 critical true => Tick,
    3 "clock" v 1 critical true => Clock,
    4 "policy" v 1 critical true => Policy,
    10 "agent.register" v 1 critical true => Register,
    11 "agent.retire" v 1 critical true => Retire,
    20 "message.send" v 1 critical true => Send,
    21 "delivery.shown" v 1 critical true => Shown,
    22 "delivery.claim" v 1 critical true => Claim,
    23 "delivery.ack" v 1 critical true => Ack,
    24 "delivery.done" v 1 critical true => Done,
    25 "delivery.fail" v 1 critical true => Fail,
    26 "delivery.release" v 1 critical true => Release,
    27 "delivery.extend" v 1 critical true => Extend,
    28 "delivery.retry" v 1 critical true => Retry,
    29 "delivery.drop" v 1 critical true => Drop,
    30 "topic.subscribe" v 1 critical true => Subscribe,
    31 "topic.unsubscribe" v 1 critical true => Unsubscribe,
    40 "conversation.close" v 1 critical true => Close,
    41 "conversation.archive" v 1 critical true => Archive,
    42 "content.redact" v 1 critical true => Redact,
    50 "context.create" v 1 critical true => ContextCreate,
    51 "context.append" v 1 critical true => ContextAppend,
    52 "context.replace" v 1 critical true => ContextReplace,
    53 "context.lock" v 1 critical true => ContextLock,
    54 "context.unlock" v 1 critical true => ContextUnlock,
    55 "context.read" v 1 critical true => ContextRead,
    57 "message.agree" v 1 critical true => Agree,
    60 "handoff.create" v 1 critical true => HandoffCreate,
    61 "handoff.accept" v 1 critical true => HandoffAccept,
    62 "handoff.reject" v 1 critical true => HandoffReject,
    63 "handoff.withdraw" v 1 critical true => HandoffWithdraw,
    64 "delivery.gate" v 1 critical true => GateResult,
    65 "delivery.wake" v 1 critical true => Wake,
    70 "reservation.take" v 1 critical true => Reserve,
    71 "reservation.release" v 1 critical true => Unreserve,
    72 "reservation.extend" v 1 critical true => Prolong,
    80 "approval.ask" v 1 critical true => ApprovalAsk,
    81 "approval.answer" v 1 critical true => ApprovalAnswer,
    90 "session.start" v 1 critical true => SessionStart,
    91 "session.note" v 1 critical true => SessionNote,
    92 "session.close" v 1 critical true => SessionClose,
    100 "run.start" v 1 critical true => RunStart,
    101 "run.end" v 1 critical true => RunEnd,
    102 "run.hold" v 1 critical true => RunHold,
    103 "run.resume" v 1 critical true => RunResume,
    110 "workflow.start" v 1 critical true => WorkflowStart,
    111 "workflow.step" v 1 critical true => WorkflowStep,
    112 "workflow.mark" v 1 critical true => WorkflowMark,
    113 "workflow.end" v 1 critical true => WorkflowEnd,
    114 "workflow.retry" v 1 critical true => WorkflowRetry,
    120 "handler.take" v 1 critical true => HandlerTake,
    121 "handler.cursor" v 1 critical true => HandlerCursor,
    122 "handler.dead" v 1 critical true => HandlerDead,
    123 "handler.release" v 1 critical true => HandlerRelease,
    124 "handler.settle" v 1 critical true => HandlerSettle,
}

impl Intent {
    /// The message in a record, if it contains one, whatever else it does.
    pub fn mail(&self) -> Option<&Send> {
        match self {
            Self::Send(send) => Some(send),
            Self::ContextCreate(create) => Some(&create.mail),
            Self::ContextAppend(append) => Some(&append.mail),
            Self::ContextReplace(replace) => Some(&replace.mail),
            Self::ContextUnlock(unlock) => unlock.mail.as_ref(),
            Self::ApprovalAsk(ask) => Some(&ask.mail),
            Self::ApprovalAnswer(answer) => Some(&answer.mail),
            Self::HandoffCreate(create) => Some(&create.mail),
            Self::HandoffAccept(accept) => Some(&accept.mail),
            Self::HandoffReject(reject) => Some(&reject.mail),
            Self::Unreserve(released) => released.mail.as_ref(),
            Self::SessionClose(close) => close.mail.as_ref(),
            Self::Agree(agree) => Some(&agree.mail),
            Self::RunHold(hold) => hold.mail.as_ref(),
            Self::WorkflowStep(step) => Some(&step.mail),
            Self::WorkflowEnd(end) => end.mail.as_ref(),
            Self::HandlerDead(dead) => dead.mail.as_ref(),
            _ => None,
        }
    }

    /// The files that a record names.
    pub fn artifacts(&self) -> &[Artifact] {
        match self {
            Self::Done(done) => &done.artifacts,
            _ => self.mail().map_or(&[], |mail| &mail.artifacts),
        }
    }
}

/// From here on, the fold behaves as this version says. Position 1 of every log is a barrier.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Barrier {
    pub fold_version: u32,
    /// The reason, for people.
    pub reason: String,
}

/// Settles everything that is due at the record's time.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tick {}

/// A clock leap: extends open leases, so that no agent loses one to a clock.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clock {
    pub leap_ms: i64,
}

/// The part of `poste.toml` that decides, as one machine read it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The policy version that this one replaces; 0 for the first policy.
    pub replaces: u64,
    /// The machine whose file this is.
    pub machine: Label,
    pub host: String,
    pub settings: Settings,
    pub types: Vec<PolicyType>,
}

impl Policy {
    /// Equal for equal rules, whichever machine proposes them.
    pub fn digest(&self) -> Digest {
        Self::digest_of(&self.settings, &self.types)
    }

    pub fn digest_of(settings: &Settings, types: &[PolicyType]) -> Digest {
        Digest::of(&serde_json::to_vec(&(settings, types)).expect("a policy is plain data"))
    }
}

/// Office-wide settings. An absent setting keeps its built-in value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_bytes_max: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fan_out_max: Option<u32>,
}

/// A message type that an office adds or overrides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyType {
    pub name: TypeName,
    pub priority: Priority,
    pub urgency: Urgency,
    pub work: bool,
    pub response: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_delay_ms: Option<i64>,
    /// How long a delivery may wait unseen before its sender is notified why. Only views use it, not the fold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ms: Option<i64>,
    /// Whether a question of this type may be approved by its default.
    #[serde(default, skip_serializing_if = "is_false")]
    pub default_approve: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Register {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<AgentKind>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<Word>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Vec<Word>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    /// The agent that is notified when this one does not answer in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lead: Option<Name>,
    /// With `update`: the fields to clear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clears: Vec<Cleared>,
    /// Changes or reactivates a registered name; absent fields keep their values.
    #[serde(default, skip_serializing_if = "is_false")]
    pub update: bool,
}

/// A field that an update can clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cleared {
    Role,
    Capabilities,
    Worktree,
    Lead,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retire {
    pub name: Name,
}

/// A message to send. With `reply_to` and no recipients, it goes to the sender of the message it answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Send {
    pub to: Vec<Address>,
    #[serde(rename = "type")]
    pub kind: TypeName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<MessageNo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wants_response: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub respond_by: Option<When>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<When>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<When>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<Label>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Label>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
    /// Ends the sender's own delivery of an earlier message in the same record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Ends>,
}

impl Send {
    /// A message with only a type and recipients.
    pub fn plain(kind: TypeName, to: Vec<Address>) -> Self {
        Self {
            to,
            kind,
            priority: None,
            reply_to: None,
            conversation: None,
            wants_response: None,
            respond_by: None,
            expires: None,
            not_before: None,
            workflow: None,
            step: None,
            artifacts: Vec::new(),
            ends: None,
        }
    }
}

/// For `reply --done` and `forward`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ends {
    pub message: MessageNo,
    pub how: EndsHow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndsHow {
    Replied,
    Forwarded,
}

/// A file that a message names, as it was when the message was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Artifact {
    /// Relative to the worktree.
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    pub state: ArtifactState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ArtifactState {
    /// It existed, with this size and digest.
    Present,
    /// A copy is kept as a blob named by its digest.
    Attached,
    /// It will be created later; nothing was checked.
    Later,
}

/// The body was printed for the agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shown {
    pub messages: Vec<MessageNo>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The message to claim; without it, the best pending ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<MessageNo>,
    pub max: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
    /// Without a message: only these types. Empty means any type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<TypeName>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ack {
    pub message: MessageNo,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Done {
    pub message: MessageNo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub artifacts: Vec<Artifact>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fail {
    pub message: MessageNo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
    /// Not final: counts an attempt, and the delivery is pending again later.
    #[serde(default, skip_serializing_if = "is_false")]
    pub retry: bool,
    /// With `retry`: the delay, instead of the office's growing one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<i64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    pub message: MessageNo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Extend {
    pub message: MessageNo,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Position>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<i64>,
}

/// The sender or a human makes deliveries that ended badly pending again.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    pub message: MessageNo,
    /// Only this recipient's delivery; without it, every one that ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<Address>,
}

/// The sender or a human drops deliveries that ended badly: they are no longer dead letters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drop {
    pub message: MessageNo,
    /// Only this recipient's delivery; without it, every one that ended badly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipient: Option<Address>,
}

/// Closes a conversation: its open deliveries are returned. The content is the outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    /// Any message of the conversation.
    pub message: MessageNo,
}

/// Moves finished conversations out of the tables. They are already in a file of the folder `archive`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Archive {
    pub file: String,
    pub conversations: Vec<Label>,
    /// The newest record that the file covers. Later changes to its conversations are not in it.
    pub as_of: Position,
    /// Number of lines in the file, and the digest of everything in them except content.
    pub lines: u64,
    pub digest: Digest,
}

/// Erases the content of records; their headers stay. The content of this record is the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redact {
    pub records: Vec<Position>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Subscribe {
    pub topic: TopicPattern,
    /// Also delivers what was published after this position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Position>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unsubscribe {
    pub topic: TopicPattern,
}

/// A topic, or `*` for all of them.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TopicPattern {
    All,
    One(Topic),
}

impl TopicPattern {
    pub fn as_str(&self) -> &str {
        match self {
            Self::All => "*",
            Self::One(topic) => topic.as_str(),
        }
    }
}

impl std::str::FromStr for TopicPattern {
    type Err = crate::text::InvalidText;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "*" => Ok(Self::All),
            _ => text.parse().map(Self::One),
        }
    }
}

impl Serialize for TopicPattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for TopicPattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}
