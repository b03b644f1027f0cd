//! Extends leases while their holder works. A live agent never loses its claim: its tool calls, hooks, gates and
//! supervisor all extend its leases.

use poste_core::fold::{Effect, Verdict};
use poste_core::log::{Author, Extend, Intent, MessageNo, Position, Proof};
use poste_core::{Office, Timestamp, views};

use crate::{Desk, Result};

/// A lease to extend.
#[derive(Debug, Clone, Copy)]
pub struct Lease {
    pub message: MessageNo,
    pub token: Option<Position>,
    /// Length of each extension; default: the office's lease.
    pub lease_ms: Option<i64>,
    /// It is extended when less than this is left.
    pub least_ms: i64,
    pub until: Timestamp,
    /// The same by the boot clock, which cannot be set back, counted from before the record was published.
    pub boot_until_ms: i64,
}

impl Lease {
    /// The time left, by the clock that gives less.
    pub fn left_ms(&self, office: &Office) -> Result<i64, poste_core::Error> {
        let by_boot = self.boot_until_ms.saturating_sub(office.boot().ms);
        Ok(self.until.since_ms(office.now()?).min(by_boot))
    }

    /// Extends the lease if too little is left. A rejection means that it was lost.
    pub fn keep(&mut self, office: &mut Office, by: &Author) -> Result<(), poste_core::Error> {
        if self.left_ms(office)? >= self.least_ms {
            return Ok(());
        }
        let boot_ms = office.boot().ms;
        let extend = Extend { message: self.message, token: self.token, lease_ms: self.lease_ms };
        // A fresh id each time: each extension is a new write.
        let proposal = office.proposal(by, Intent::Extend(extend), None);
        let outcome = poste_config::propose(office, &proposal)?;
        match outcome.verdict {
            Verdict::Accepted(Effect::Claimed(claimed)) if !claimed.items.is_empty() => {
                self.until = claimed.items[0].lease_until;
                self.boot_until_ms = boot_ms.saturating_add(self.until.since_ms(outcome.at));
                Ok(())
            }
            Verdict::Accepted(_) => {
                Err(poste_core::Error::Damaged("the office answered the extension with a wrong effect".to_owned()))
            }
            Verdict::Rejected(rejection) => Err(poste_core::Error::Rejected(rejection)),
        }
    }
}

impl Desk<'_> {
    /// Extends every claim of the caller's session with less than half of its lease left, by its last length. Returns
    /// when to call this again; `None`: the session holds no claims.
    ///
    /// Writes nothing if there is nothing to extend. A lost claim is not an error here: finishing it reports the loss.
    pub fn extend_held(&mut self) -> Result<Option<Timestamp>> {
        let next = self.extend_leases();
        self.carry_out();
        next
    }

    fn extend_leases(&mut self) -> Result<Option<Timestamp>> {
        let (Some(actor), session) = (self.caller.actor.clone(), self.caller.session.clone()) else { return Ok(None) };
        let mut next = None;
        for views::Lease { message, token, until, length_ms } in
            views::leases(self.office.store(), &actor, session.as_ref())?
        {
            let by =
                Author { actor: actor.clone(), session: session.clone(), via: self.caller.via, proof: Proof::None };
            // When it began by the boot clock is unknown here.
            let (lease_ms, least_ms, boot_until_ms) = (Some(length_ms), length_ms / 2, i64::MAX);
            let mut lease = Lease { message, token, lease_ms, least_ms, until, boot_until_ms };
            match lease.keep(self.office, &by) {
                Err(poste_core::Error::Rejected(_)) => continue,
                kept => kept?,
            }
            next = [next, Some(lease.until.plus_ms(-least_ms))].into_iter().flatten().min();
        }
        Ok(next)
    }
}
