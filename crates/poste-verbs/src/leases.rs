//! A living agent never loses its claim: every call of its tools and every hook of its session keeps what it holds.

use poste_core::fold::Verdict;
use poste_core::log::{Extend, Intent};
use poste_core::{Timestamp, views};

use crate::{Desk, Result};

impl Desk<'_> {
    /// Extends every claim of the caller's session of which less than half is left, by as long as it was given last. Says
    /// when there is something to extend again; `None`: it holds nothing.
    ///
    /// With nothing to extend this writes nothing. A claim that was lost meanwhile is no error here: whoever finishes it is
    /// told.
    pub fn extend_held(&mut self) -> Result<Option<Timestamp>> {
        let next = self.extend_leases();
        self.carry_out();
        next
    }

    fn extend_leases(&mut self) -> Result<Option<Timestamp>> {
        let Some(agent) = &self.caller.actor else { return Ok(None) };
        let mut next = None;
        for lease in views::leases(self.office.store(), agent, self.caller.session.as_ref())? {
            let half_over = |until: Timestamp| until.plus_ms(-lease.length_ms / 2);
            let mut until = lease.until;
            if half_over(until) < self.now()? {
                let intent = Extend { message: lease.message, token: lease.token, lease_ms: Some(lease.length_ms) };
                let proposal = self.proposal(Intent::Extend(intent), None, None)?;
                match poste_config::propose(self.office, &proposal)?.verdict {
                    Verdict::Accepted(_) => until = self.now()?.plus_ms(lease.length_ms),
                    Verdict::Rejected(_) => continue,
                }
            }
            next = [next, Some(half_over(until))].into_iter().flatten().min();
        }
        Ok(next)
    }
}
