//! The built-in vocabulary: message types with their defaults, priorities, urgencies, trust labels.
//!
//! The fold decides by the table below, so a row may only change together with the fold version (a `barrier` record).
//! An office overrides a type in `poste.toml`, which becomes a record.

/// Declares an enum whose variants are numbers in the tables and words everywhere else.
macro_rules! worded_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $number:literal $word:literal $(| $alias:literal)?),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word $(, alias = $alias)?)] $variant = $number),+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn number(self) -> u8 {
                self as u8
            }

            #[allow(dead_code, reason = "not every vocabulary is kept as the value of a step")]
            pub fn of_number(number: i64) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($word $(| $alias)? => Ok(Self::$variant),)+
                    _ => Err(format!(
                        "{} is not one of {}",
                        $crate::text::quoted(text),
                        [$($word),+].join(", ")
                    )),
                }
            }
        }

        impl rusqlite::types::ToSql for $name {
            fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
                Ok(rusqlite::types::ToSqlOutput::from(i64::from(self.number())))
            }
        }

        impl rusqlite::types::FromSql for $name {
            fn column_result(value: rusqlite::types::ValueRef<'_>) -> rusqlite::types::FromSqlResult<Self> {
                match value.as_i64()? {
                    $($number => Ok(Self::$variant),)+
                    other => Err(rusqlite::types::FromSqlError::OutOfRange(other)),
                }
            }
        }
    };
}
pub(crate) use worded_enum;

use crate::log::Proof;

worded_enum!(
    /// How important a message is; inboxes are sorted by it.
    Priority { Low = 0 "low", Normal = 1 "normal", High = 2 "high", Urgent = 3 "urgent" | "critical" }
);

worded_enum!(
    /// When a message should reach its recipient.
    Urgency {
        /// Wake the agent, run handlers.
        Now = 0 "now",
        /// At the next tool call.
        Turn = 1 "turn",
        /// At the next session start.
        Session = 2 "session",
        /// Only when the agent has capacity.
        Later = 3 "later",
    }
);

impl Urgency {
    /// Mail that does not wait for the next session: it is shown to a running session, and wakes one whose waiter hears
    /// the bell.
    pub const SOON: [Self; 2] = [Self::Now, Self::Turn];

    /// Whether recipients are rung right after the message is stored.
    pub fn rings(self) -> bool {
        self == Self::Now
    }

    /// How long mail may wait unseen before its sender is notified why. `None` for the urgencies that ring no one.
    pub fn patience_ms(self) -> Option<i64> {
        match self {
            Self::Now => Some(2 * crate::limits::MINUTE_MS),
            Self::Turn => Some(30 * crate::limits::MINUTE_MS),
            Self::Session | Self::Later => None,
        }
    }
}

worded_enum!(
    /// What a registered name stands for.
    AgentKind {
        Agent = 0 "agent",
        Human = 1 "human",
        /// A program of the office itself: it starts agents or notifies people. It reads no mail.
        Service = 2 "service",
        /// An outside source that may send mail: a monitor, a mailbox. It reads no mail either.
        Outside = 3 "outside",
    }
);

worded_enum!(
    /// Where a message comes from, as the log knows it. Never taken from the body.
    TrustLabel {
        Human = 0 "human",
        Agent = 1 "agent",
        Outside = 2 "outside",
        Poste = 3 "poste",
        /// In a person's name, but nothing proves that the person sent it: a script, or an agent that uses the name.
        Unproven = 4 "unproven",
    }
);

impl TrustLabel {
    /// The label of what was written in the name of an agent of this kind, with this proof.
    pub fn of(kind: AgentKind, proof: Proof) -> Self {
        match kind {
            AgentKind::Agent | AgentKind::Service => Self::Agent,
            AgentKind::Outside => Self::Outside,
            AgentKind::Human if proof.is_given() => Self::Human,
            AgentKind::Human => Self::Unproven,
        }
    }
}

/// A message type and its defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuiltInType {
    pub name: &'static str,
    pub priority: Priority,
    pub urgency: Urgency,
    /// Asks for work: an `ack` is only a mark, and `done` or `fail` ends it.
    pub work: bool,
    /// Wants a response.
    pub response: bool,
    pub meaning: &'static str,
}

const fn word(
    name: &'static str,
    priority: Priority,
    urgency: Urgency,
    work: bool,
    response: bool,
    meaning: &'static str,
) -> BuiltInType {
    BuiltInType { name, priority, urgency, work, response, meaning }
}

const WORK: bool = true;
const INFORM: bool = false;
const ANSWER: bool = true;
const QUIET: bool = false;

/// Every built-in type, in the order of the documentation.
pub const BUILT_IN: &[BuiltInType] = {
    use Priority::{High, Low, Normal, Urgent};
    use Urgency::{Later, Now, Session, Turn};
    &[
        word("message", Normal, Turn, INFORM, QUIET, "plain communication"),
        word("broadcast", Normal, Turn, INFORM, QUIET, "an announcement to everyone"),
        word("question", Normal, Turn, WORK, ANSWER, "asks for an answer"),
        word("response", Normal, Turn, INFORM, QUIET, "answers an earlier message"),
        word("acknowledgment", Low, Session, INFORM, QUIET, "confirms that something was noted"),
        word("directive", High, Turn, WORK, QUIET, "asks for work or a change of behaviour"),
        word("progress_update", Low, Session, INFORM, QUIET, "reports progress"),
        word("alert", Urgent, Now, INFORM, QUIET, "something is wrong now"),
        word("draft_ready", Normal, Session, WORK, QUIET, "a draft waits for review and publishing"),
        word("audit_report", Low, Later, WORK, QUIET, "findings to act on when there is capacity"),
        word("experiment_result", Normal, Session, WORK, QUIET, "an outcome to be recorded"),
        word("interface_contract", High, Turn, WORK, ANSWER, "proposes an interface to agree on"),
        word("decision_announcement", High, Turn, INFORM, QUIET, "a decision that binds its readers"),
        word("blocker_notification", High, Now, WORK, QUIET, "work is blocked and needs help"),
        word("blocker_resolved", Normal, Turn, INFORM, QUIET, "a blocker is resolved"),
        word("priority_request", High, Turn, WORK, ANSWER, "asks to do something sooner"),
        word("resource_conflict", High, Turn, WORK, ANSWER, "two agents want the same thing"),
        word("context_updated", Low, Session, INFORM, QUIET, "a shared context changed"),
        word("handoff_request", High, Turn, WORK, ANSWER, "offers a package of work"),
        word("handoff_accepted", Normal, Turn, INFORM, QUIET, "a handoff was taken"),
        word("handoff_rejected", High, Turn, INFORM, QUIET, "a handoff was refused"),
        word("plan_approval_request", High, Now, WORK, ANSWER, "a plan waits for approval"),
        word("plan_approval_response", High, Now, INFORM, QUIET, "a plan was approved or denied"),
        word("shutdown_request", High, Now, WORK, ANSWER, "asks an agent to stop"),
        word("shutdown_response", Normal, Turn, INFORM, QUIET, "an agent stops, or says why not"),
        word("task_completed", Normal, Turn, INFORM, QUIET, "a task is done"),
        word("milestone_reached", Normal, Session, INFORM, QUIET, "a milestone is reached"),
    ]
};

pub fn built_in(name: &str) -> Option<&'static BuiltInType> {
    BUILT_IN.iter().find(|candidate| candidate.name == name)
}
