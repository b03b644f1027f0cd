//! What a record asks to be done outside the tables. Whoever committed the record does it after the commit.
//!
//! An action is a hint, never state: no table keeps it and no refold makes it again. If the process that should carry it out
//! dies first, the tables still say what is missing: which mail must be rung for, which workflow can go on, which mirror is
//! behind its context.

use crate::address::Address;
use crate::log::MessageNo;
use crate::text::{ContextName, Label};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Action {
    /// Mail that rings can be taken at this address since this record. Everybody who reads the address and has not seen it is
    /// to be woken.
    Ring { message: MessageNo, address: Address },
    /// There was more to ring for than a list holds: the index of owed rings knows what.
    RingOwed,
    /// Something of a workflow is over, or may be tried again.
    Advance { workflow: Label },
    /// Any open workflow may go on now: an agent that a step waits for may have come.
    AdvanceAll,
    /// A shared context has a new version, and its mirror is behind.
    Mirror { context: ContextName },
    /// More contexts changed than a list holds.
    MirrorAll,
}

impl Action {
    /// The action that stands for any number of this kind.
    pub(crate) fn for_all(&self) -> Self {
        match self {
            Self::Ring { .. } | Self::RingOwed => Self::RingOwed,
            Self::Advance { .. } | Self::AdvanceAll => Self::AdvanceAll,
            Self::Mirror { .. } | Self::MirrorAll => Self::MirrorAll,
        }
    }
}
