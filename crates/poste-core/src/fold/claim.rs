//! Claim, release, extend: which agent holds the lease.

use super::delivery::{self, own_deliveries, own_delivery};
use super::outcome::{Claimed, ClaimedItem, Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker, workflow};
use crate::error::Error;
use crate::limits;
use crate::log::{Claim, Extend, MessageNo, Position, Release};
use crate::store::tables::{Agent, Delivery, Event, Message, State, Tables};
use crate::text::Name;
use crate::time::Timestamp;

impl Rule for Claim {
    type Plan = (Vec<Delivery>, i64);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        // Mail that a person seems to work on waits for that person.
        cx.require_proof(&agent)?;
        let lease_ms = lease(tables, self.lease_ms)?;
        if self.max == 0 || self.max > limits::CLAIM_MAX {
            return Err(refuse(Code::Malformed, format!("one claim takes 1 to {} messages", limits::CLAIM_MAX)));
        }
        if self.types.len() > limits::CLAIM_TYPES_MAX || (self.message.is_some() && !self.types.is_empty()) {
            let max = limits::CLAIM_TYPES_MAX;
            return Err(refuse(Code::Malformed, format!("a claim names a message, or up to {max} types")));
        }
        let Some(number) = self.message else {
            let best = best_claimable(tables, &agent, self)?;
            if best.is_empty() {
                let of_types = if self.types.is_empty() { "" } else { " of that type" };
                return Err(refuse(Code::NothingToClaim, format!("nothing{of_types} to claim for {}", agent.name)));
            }
            return Ok((best, lease_ms));
        };
        Ok((vec![claimable(tables, &agent, number)?.1], lease_ms))
    }

    fn apply((chosen, lease_ms): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        Ok(Effect::Claimed(take(tables, cx, &chosen, lease_ms)?))
    }
}

/// The delivery of a message that an agent would claim now.
pub(super) fn claimable(tables: &Tables<'_>, agent: &Agent, number: MessageNo) -> Result<(Message, Delivery), Stop> {
    let message = delivery::message(tables, number)?;
    let own = own_delivery(tables, agent, &message, None)?;
    // The agent's own delivery may have ended or be held by another member while one to a group is still pending.
    let is_held_here = own.state == State::Claimed && own.holder.as_ref() == Some(&agent.name);
    let mut waiting = own_deliveries(tables, agent, &message)?;
    waiting.retain(|other| other.state == State::Pending);
    waiting.sort_by_key(|other| !other.ready); // stable sort: what can be claimed now comes first
    let own = if is_held_here { own } else { waiting.into_iter().next().unwrap_or(own) };
    match own.state {
        State::Pending if own.ready => {
            workflow::must_be_in_order(tables, &own)?;
            Ok((message, own))
        }
        State::Pending => Err(delivery::not_ready(&own)),
        State::Claimed => Err(delivery::held_by(&own)),
        _ => Err(delivery::ended(&own)),
    }
}

/// Claims deliveries for the actor. All of them must be claimable.
pub(super) fn take(
    tables: &mut Tables<'_>,
    cx: &Context,
    chosen: &[Delivery],
    lease_ms: i64,
) -> Result<Claimed, Error> {
    for before in chosen {
        delivery::take(tables, cx, before, lease_ms)?;
    }
    let items = chosen
        .iter()
        .map(|delivery| ClaimedItem { number: delivery.message, lease_until: cx.at.plus_ms(lease_ms) })
        .collect();
    Ok(Claimed { token: cx.position, items })
}

/// Ordered by priority, then age, over everything addressed to the agent; each message once.
fn best_claimable(tables: &Tables<'_>, agent: &Agent, claim: &Claim) -> Result<Vec<Delivery>, Stop> {
    let mut found = Vec::new();
    for address in agent.addresses() {
        found.extend(tables.claimable(&address, &claim.types, claim.max, &agent.name)?);
    }
    found.sort_by_key(|delivery| (std::cmp::Reverse(delivery.priority), delivery.message, delivery.number));
    found.dedup_by_key(|delivery| delivery.message);
    found.truncate(claim.max as usize);
    Ok(found)
}

/// The answer to a repeated claim: what it won and still holds.
pub(crate) fn claimed_before(tables: &Tables<'_>, holder: &Name, token: Position) -> Result<Claimed, Error> {
    let items = tables
        .held_by_token(holder, token)?
        .into_iter()
        .filter_map(|delivery| Some(ClaimedItem { number: delivery.message, lease_until: delivery.lease_until? }))
        .collect();
    Ok(Claimed { token, items })
}

/// The answer to a repeated `extend`: what it did.
pub(crate) fn extended_before(tables: &Tables<'_>, number: MessageNo, position: Position) -> Result<Claimed, Error> {
    let events = tables.events_of(number)?;
    let extended = events.iter().find(|event| event.position == position && event.event == Event::Extended);
    let until = extended.and_then(|event| event.value).map(Timestamp::from_ms);
    let token = extended.and_then(|event| {
        let claims = events.iter().filter(|claim| claim.delivery == event.delivery && claim.event == Event::Claimed);
        claims.map(|claim| claim.position).filter(|claim| *claim < position).max()
    });
    let items = until.map(|lease_until| ClaimedItem { number, lease_until }).into_iter().collect();
    Ok(Claimed { token: token.unwrap_or_default(), items })
}

pub(super) fn lease(tables: &Tables<'_>, asked_ms: Option<i64>) -> Result<i64, Stop> {
    let lease_ms = match asked_ms {
        Some(lease_ms) => lease_ms,
        None => tables.policy()?.settings.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT),
    };
    if !(limits::LEASE_MS_MIN..=limits::LEASE_MS_MAX).contains(&lease_ms) {
        return Err(refuse(Code::TimeOutOfRange, "a lease lasts between one second and 24 hours"));
    }
    Ok(lease_ms)
}

impl Rule for Release {
    type Plan = Delivery;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Delivery, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let message = delivery::message(tables, self.message)?;
        let own = own_delivery(tables, &agent, &message, self.token)?;
        delivery::must_hold(tables, cx, &own, self.token)?;
        Ok(own)
    }

    fn apply(held: Delivery, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        delivery::release(tables, cx, &held)?;
        Ok(Effect::Noted)
    }
}

impl Rule for Extend {
    type Plan = (Delivery, i64);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let lease_ms = lease(tables, self.lease_ms)?;
        let message = delivery::message(tables, self.message)?;
        let own = own_delivery(tables, &agent, &message, self.token)?;
        delivery::must_hold(tables, cx, &own, self.token)?;
        Ok((own, lease_ms))
    }

    fn apply((held, lease_ms): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let lease_until = delivery::extend(tables, cx, &held, lease_ms)?;
        Ok(Effect::Claimed(Claimed {
            token: held.token.unwrap_or_default(),
            items: vec![ClaimedItem { number: held.message, lease_until }],
        }))
    }
}
