//! A living agent never loses its claim: every call of its tools and every hook of its session keeps what it holds.

use poste_core::Timestamp;
use poste_core::fold::Verdict;
use poste_core::log::{Extend, Intent};
use poste_core::office::Office;
use poste_core::views;

use crate::Result;
use crate::context::Cx;
use crate::identity::Identity;

/// Extends every claim of this session of which less than half is left, by as long as it was given last. Says when there is
/// something to extend again; `None`: it holds nothing.
///
/// With nothing to extend this writes nothing. A claim that was lost meanwhile is no error here: whoever finishes it is told.
pub(crate) fn extend_held(cx: &Cx, office: &mut Office, own: &Identity) -> Result<Option<Timestamp>> {
    let Some(agent) = &own.agent else { return Ok(None) };
    let mut next = None;
    for lease in views::leases(office.store(), agent, own.session.as_ref())? {
        let half_over = |until: Timestamp| until.plus_ms(-lease.length_ms / 2);
        let mut until = lease.until;
        if half_over(until) < office.now()? {
            let intent = Extend { message: lease.message, token: lease.token, lease_ms: Some(lease.length_ms) };
            let mut proposal = cx.proposal_as(office, agent.clone(), Intent::Extend(intent), None, None);
            proposal.session = own.session.clone();
            match office.propose(&proposal)?.verdict {
                Verdict::Accepted(_) => until = office.now()?.plus_ms(lease.length_ms),
                Verdict::Rejected(_) => continue,
            }
        }
        next = [next, Some(half_over(until))].into_iter().flatten().min();
    }
    Ok(next)
}
