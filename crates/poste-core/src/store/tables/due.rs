//! What is due when. Everything with a deadline has its rows here, and a tick settles them.

use rusqlite::params;

use super::Tables;
use crate::error::Error;
use crate::log::TICK_IDS;
use crate::text::RecordId;
use crate::time::Timestamp;
use crate::vocabulary::worded_enum;

worded_enum!(
    /// What kind of thing is due: of a delivery, or of what the word says.
    Due {
        Lease = 0 "lease",
        Ready = 1 "ready",
        Expiry = 2 "expiry",
        Response = 3 "response",
        ContextLock = 4 "context_lock",
        /// The deadline of an approval, by the number of its message.
        Approval = 6 "approval",
        Reservation = 5 "reservation",
        /// The time limit of a workflow's step, by the number of its message.
        Step = 7 "step",
        /// The lease of a rule that notifies people of mail.
        Handler = 8 "handler",
    }
);

/// A row of `due`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueItem {
    pub at: Timestamp,
    pub what: Due,
    /// The number of the thing that is due; `what` says in which table.
    pub subject: u64,
}

stored!(DueItem in "due": at, what, subject);

impl Tables<'_> {
    /// The id of the tick that settles this item first. It is derived from what is due, so that machines that see the
    /// same item propose a single tick.
    pub fn tick_id(&self, first: DueItem) -> Result<RecordId, Error> {
        self.next_id(&format!("{TICK_IDS}{}/{}/{}", first.at.ms(), first.what, first.subject))
    }

    /// Replaces the `due` rows of a changed row.
    pub(super) fn move_due(
        &mut self,
        before: impl IntoIterator<Item = DueItem>,
        after: impl IntoIterator<Item = DueItem>,
    ) -> Result<(), Error> {
        for DueItem { at, what, subject } in before {
            self.execute("DELETE FROM due WHERE at = ?1 AND what = ?2 AND subject = ?3", params![at, what, subject])?;
        }
        for item in after {
            self.falls_due(item.at);
            self.insert(&item)?;
        }
        Ok(())
    }

    /// When the next thing is due. One index lookup.
    pub fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.value("SELECT min(at) FROM due", [])
    }

    /// The first item that is due, if it is time.
    pub(crate) fn first_due(&self, now: Timestamp) -> Result<Option<DueItem>, Error> {
        Ok(self.due_at(now, 1)?.pop())
    }

    pub fn due_at(&self, now: Timestamp, limit: usize) -> Result<Vec<DueItem>, Error> {
        self.all(select!(DueItem, "WHERE at <= ?1 ORDER BY at, what, subject LIMIT ?2"), params![now, limit])
    }

    /// Whether a row of `due` still exists.
    pub fn is_due(&self, item: DueItem) -> Result<bool, Error> {
        self.value(
            "SELECT EXISTS (SELECT 1 FROM due WHERE at = ?1 AND what = ?2 AND subject = ?3)",
            params![item.at, item.what, item.subject],
        )
    }
}
