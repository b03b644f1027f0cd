//! Work that a record requires outside the tables. The process that committed the record does it after the commit.
//!
//! An action is a hint, never state: no table keeps it and no replay repeats it. If the process dies before carrying it
//! out, the tables still show what is missing: which mail is owed a ring, which workflow can advance, which mirror is
//! behind its context.

use crate::address::Address;
use crate::log::MessageNo;
use crate::text::{ContextName, Label};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Since this record, mail that rings can be claimed at this address. Wakes every agent that reads the address and
    /// has not seen the message.
    Ring { message: MessageNo, address: Address },
    /// More rings than a list holds; the index of owed rings has them all.
    RingOwed,
    /// A step of the workflow ended, or may be retried.
    Advance { workflow: Label },
    /// Any open workflow may be able to advance: an agent that a step waits for may now be registered.
    AdvanceAll,
    /// A shared context has a new version, so its mirror is out of date.
    Mirror { context: ContextName },
    /// More contexts changed than a list holds.
    MirrorAll,
}

impl Action {
    /// The action that covers everything of this kind.
    pub(crate) fn for_all(&self) -> Self {
        match self {
            Self::Ring { .. } | Self::RingOwed => Self::RingOwed,
            Self::Advance { .. } | Self::AdvanceAll => Self::AdvanceAll,
            Self::Mirror { .. } | Self::MirrorAll => Self::MirrorAll,
        }
    }
}
