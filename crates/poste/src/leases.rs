//! A living agent never loses its claim: every call of its tools and every hook of its session keeps what it holds.

use poste_core::Timestamp;
use poste_core::fold::Verdict;
use poste_core::limits;
use poste_core::log::{Extend, Intent};
use poste_core::office::Office;
use poste_core::store::tables::{Delivery, Event};

use crate::Result;
use crate::context::Cx;
use crate::identity::Identity;

/// Extends every claim of this session of which less than half is left, by as long as it was given last. Says when there is
/// something to extend again; `None`: it holds nothing.
///
/// With nothing to extend this writes nothing. A claim that was lost meanwhile is no error here: whoever finishes it is told.
pub(crate) fn extend_held(cx: &Cx, office: &mut Office, own: &Identity) -> Result<Option<Timestamp>> {
    let Some(agent) = &own.agent else { return Ok(None) };
    let held = office.store().tables()?.held_by(agent)?;
    let mut next = None;
    for delivery in held.iter().filter(|delivery| is_own(delivery, own)) {
        let Some((until, length_ms)) = lease(office, delivery)? else { continue };
        let half_over = |until: Timestamp| until.plus_ms(-length_ms / 2);
        let mut until = until;
        if half_over(until) < office.now()? {
            let intent = Extend { message: delivery.message, token: delivery.token, lease_ms: Some(length_ms) };
            let mut proposal = cx.proposal_as(office, agent.clone(), Intent::Extend(intent), None, None);
            proposal.session = own.session.clone();
            match office.propose(&proposal)?.verdict {
                Verdict::Accepted(_) => until = office.now()?.plus_ms(length_ms),
                Verdict::Rejected(_) => continue,
            }
        }
        next = [next, Some(half_over(until))].into_iter().flatten().min();
    }
    Ok(next)
}

/// What another session of the same agent holds is that session's to keep, or to lose.
fn is_own(delivery: &Delivery, own: &Identity) -> bool {
    delivery.session.is_none() || delivery.session == own.session
}

/// When it ends, and how long it was given for the last time.
fn lease(office: &Office, delivery: &Delivery) -> Result<Option<(Timestamp, i64)>> {
    let given = |event: Event| matches!(event, Event::Claimed | Event::Extended | Event::LeaseMoved);
    let events = office.store().tables()?.events_of_delivery(delivery)?;
    let last = events.iter().rfind(|row| given(row.event));
    let (Some(until), Some(last)) = (delivery.lease_until, last) else { return Ok(None) };
    let length_ms = until.since_ms(last.at).clamp(limits::LEASE_MS_MIN, limits::LEASE_MS_MAX);
    Ok(Some((until, length_ms)))
}
