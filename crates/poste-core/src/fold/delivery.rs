//! The life of a delivery: every state change, in one place.
//!
//! ```text
//!            claim                 done, ack, reply --done, forward
//!  pending ─────────▶ claimed ────────────────────────────────────▶ done
//!   ▲  │ ▲              │  │ fail
//!   │  │ └── release ───┤  └────▶ failed
//!   │  │     fail --retry, lease out: one attempt more; too many ──▶ dead
//!   │  ├── expiry ─────────▶ expired        an approval's deadline ──▶ done or expired
//!   │  └── retire, close, withdraw ──▶ returned ◀── claimed, and a gate failed
//!   └───── retry (failed, dead, expired, returned)
//! ```

use super::outcome::{Code, Stop, refuse};
use super::{Context, notice, workflow};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Position};
use crate::store::tables::{Agent, Delivery, EndReason, Event, EventRow, Message, Notice, State, Tables};
use crate::text::Name;
use crate::time::Timestamp;

pub(crate) fn message(tables: &Tables<'_>, number: MessageNo) -> Result<Message, Stop> {
    match tables.message(number)? {
        Some(message) => Ok(message),
        None if tables.archived_message(number)?.is_some() => {
            Err(refuse(Code::Archived, format!("message {number} is archived: it can be read, not changed")))
        }
        None => Err(refuse(Code::UnknownMessage, format!("there is no message {number}"))),
    }
}

/// The delivery that an agent refers to: the one its token won, the one it holds, the one to its name, or one to a
/// group of it. A delivery it won stays its own, even if its role has changed since.
pub(crate) fn own_delivery(
    tables: &Tables<'_>,
    agent: &Agent,
    message: &Message,
    token: Option<Position>,
) -> Result<Delivery, Stop> {
    if let Some(token) = token
        && let Some(won) = tables.won_by(message.number, &agent.name, token)?
    {
        return Ok(won);
    }
    if let Some(held) = tables.held_of(message.number, &agent.name)? {
        return Ok(held);
    }
    // Not "the one that is still open": an agent that repeats `done` for its own delivery must not end the group's.
    own_deliveries(tables, agent, message)?.into_iter().next().ok_or_else(|| {
        refuse(Code::NotRecipient, format!("message {} is not addressed to {}", message.number, agent.name))
    })
}

/// Every delivery of a message that is addressed to an agent, the one to its name first.
pub(crate) fn own_deliveries(tables: &Tables<'_>, agent: &Agent, message: &Message) -> Result<Vec<Delivery>, Error> {
    let mut found = Vec::new();
    for address in agent.addresses() {
        // The sender of mail to a group cannot take it.
        if !(address.is_group() && message.sender == agent.name) {
            found.extend(tables.delivery_to(message.number, &address)?);
        }
    }
    Ok(found)
}

/// By what right an agent may finish a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Authority {
    /// The agent holds the lease.
    Holder,
    /// No agent holds it; the actor may claim it in the same record.
    Unclaimed,
    /// The agent held the lease once and lost it.
    Lost,
}

/// The token decides; without one, the claim of this session; without that, the only claim there ever was.
pub(crate) fn authority(
    tables: &Tables<'_>,
    cx: &Context,
    delivery: &Delivery,
    token: Option<Position>,
) -> Result<Authority, Stop> {
    let is_holder = delivery.holder.as_ref() == Some(&cx.actor);
    // A holder itself ends a delivery by done, fail or failed gates. Every other end was made by someone else.
    let gated = delivery.reason == Some(EndReason::GateFailed);
    let by_others = matches!(delivery.reason, Some(EndReason::Settled | EndReason::Defaulted));
    let by_itself = matches!(delivery.state, State::Done | State::Failed) && !by_others;
    let ended_by_holder = is_holder && (by_itself || gated);
    if token.is_some() && sabotaged!(TokenUnchecked) {
        return Ok(Authority::Holder);
    }
    if let Some(token) = token {
        if !tables.won_claim(delivery, &cx.actor, token)? {
            let message = delivery.message;
            return Err(refuse(Code::NotClaimed, format!("{token} is not {}'s claim on message {message}", cx.actor)));
        }
        return match delivery.state {
            State::Claimed if delivery.token == Some(token) => Ok(Authority::Holder),
            _ if delivery.token == Some(token) && ended_by_holder => Err(ended(delivery)),
            _ => Ok(Authority::Lost),
        };
    }
    let same_session = is_holder && cx.session.is_some() && delivery.session == cx.session;
    let lost = match &cx.session {
        Some(session) => tables.session_lost(delivery, &cx.actor, session)?,
        None => false,
    };
    match delivery.state {
        State::Claimed if same_session => Ok(Authority::Holder),
        State::Claimed if lost => Ok(Authority::Lost),
        State::Claimed => {
            let other_session = cx.session.is_some() && delivery.session.is_some();
            if is_holder && !other_session && delivery.claims == 1 {
                return Ok(Authority::Holder);
            }
            Err(if is_holder { unnamed(delivery) } else { held_by(delivery) })
        }
        State::Pending if lost => Ok(Authority::Lost),
        State::Pending if delivery.claims == 0 || cx.session.is_some() => Ok(Authority::Unclaimed),
        State::Pending => Err(refuse(
            Code::NotClaimed,
            format!("message {} was claimed before and is pending again: claim it again first", delivery.message),
        )),
        _ if lost && !(same_session && ended_by_holder) => Ok(Authority::Lost),
        _ => Err(ended(delivery)),
    }
}

/// Like [`authority`], for records that require the lease.
pub(crate) fn must_hold(
    tables: &Tables<'_>,
    cx: &Context,
    delivery: &Delivery,
    token: Option<Position>,
) -> Result<(), Stop> {
    match authority(tables, cx, delivery, token)? {
        Authority::Holder => Ok(()),
        Authority::Lost => Err(lease_lost(delivery)),
        Authority::Unclaimed => Err(refuse(Code::NotClaimed, format!("message {} is not claimed", delivery.message))),
    }
}

pub(crate) fn held_by(delivery: &Delivery) -> Stop {
    held(delivery, "")
}

fn held(delivery: &Delivery, advice: &str) -> Stop {
    let Some(holder) = &delivery.holder else {
        return refuse(Code::NotClaimed, format!("message {} is not claimed", delivery.message));
    };
    let session = delivery.session.as_ref().map(|session| format!(" in session {session}")).unwrap_or_default();
    let until = delivery.lease_until.unwrap_or(Timestamp::ZERO);
    refuse(
        Code::AlreadyClaimed,
        format!("message {} is held by {holder}{session} until {until}{advice}", delivery.message),
    )
}

/// The holder's name alone does not prove the claim.
fn unnamed(delivery: &Delivery) -> Stop {
    held(delivery, "; the name alone is not enough, give the token of the claim")
}

pub(crate) fn lease_lost(delivery: &Delivery) -> Stop {
    let now = match (&delivery.state, &delivery.holder) {
        (State::Claimed, Some(holder)) => format!("held by {holder} now"),
        (state, _) => format!("{state} now"),
    };
    refuse(Code::LeaseLost, format!("the lease on message {} was lost: it is {now}", delivery.message))
}

pub(crate) fn ended(delivery: &Delivery) -> Stop {
    refuse(Code::Ended, format!("message {} is already {}", delivery.message, delivery.state))
}

pub(crate) fn not_ready(delivery: &Delivery) -> Stop {
    let at = delivery.ready_at.unwrap_or(Timestamp::ZERO);
    refuse(Code::NotReady, format!("message {} cannot be claimed before {at}", delivery.message))
}

pub(crate) fn record_event(
    tables: &mut Tables<'_>,
    cx: &Context,
    delivery: &Delivery,
    event: Event,
    value: Option<i64>,
) -> Result<(), Error> {
    tables.insert_event(
        delivery.message,
        &EventRow {
            position: cx.position,
            delivery: delivery.number,
            event,
            at: cx.at,
            agent: cx.actor.clone(),
            session: cx.session.clone(),
            value,
        },
    )
}

/// Gives the lease to the actor. Its token is the position of this record.
pub(crate) fn take(tables: &mut Tables<'_>, cx: &Context, before: &Delivery, lease_ms: i64) -> Result<Delivery, Error> {
    #[cfg(feature = "sabotage")]
    let lease_ms = lease_ms + crate::sabotage::clock_in_fold_ms();
    let after = Delivery {
        state: State::Claimed,
        claims: before.claims.saturating_add(1),
        token: Some(cx.position),
        holder: Some(cx.actor.clone()),
        session: cx.session.clone(),
        lease_until: Some(cx.at.plus_ms(lease_ms)),
        ..before.clone()
    };
    tables.update_delivery(before, &after)?;
    tables.lift_holds_on(after.number)?;
    record_event(tables, cx, &after, Event::Claimed, after.lease_until.map(Timestamp::ms))?;
    Ok(after)
}

pub(crate) fn extend(
    tables: &mut Tables<'_>,
    cx: &Context,
    before: &Delivery,
    lease_ms: i64,
) -> Result<Timestamp, Error> {
    // Longer, never shorter: an agent that extends routinely must not shorten a long lease that it asked for.
    let until = cx.at.plus_ms(lease_ms).max(before.lease_until.unwrap_or(cx.at));
    let after = Delivery { lease_until: Some(until), ..before.clone() };
    tables.update_delivery(before, &after)?;
    record_event(tables, cx, &after, Event::Extended, Some(until.ms()))?;
    Ok(until)
}

pub(crate) fn move_lease(tables: &mut Tables<'_>, cx: &Context, before: &Delivery, leap_ms: i64) -> Result<(), Error> {
    let until = before.lease_until.map(|until| until.plus_ms(leap_ms));
    let after = Delivery { lease_until: until, ..before.clone() };
    tables.update_delivery(before, &after)?;
    record_event(tables, cx, &after, Event::LeaseMoved, until.map(Timestamp::ms))
}

/// Back to pending, as if it had not been claimed: no attempt is counted.
pub(crate) fn release(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<Delivery, Error> {
    let after = Delivery { state: State::Pending, holder: None, session: None, lease_until: None, ..before.clone() };
    tables.update_delivery(before, &after)?;
    record_event(tables, cx, &after, Event::Released, None)?;
    Ok(after)
}

/// Counts an attempt that ended at `over_at`. The delivery is dead after its last attempt. Otherwise it is pending
/// again after `delay_ms`, or by default after a growing delay.
pub(crate) fn count_attempt(
    tables: &mut Tables<'_>,
    cx: &Context,
    before: &Delivery,
    event: Event,
    over_at: Timestamp,
    delay_ms: Option<i64>,
) -> Result<(), Error> {
    let message = expect_message(tables, before.message)?;
    let attempts = before.attempts.saturating_add(1);
    record_event(tables, cx, before, event, Some(attempts.into()))?;
    if attempts >= message.max_attempts {
        let exhausted = Delivery { attempts, ..before.clone() };
        return end(tables, cx, before, exhausted, State::Dead, EndReason::AttemptsExhausted);
    }
    let delay_ms = delay_ms.unwrap_or_else(|| retry_delay_ms(message.retry_delay_ms, attempts));
    let after = Delivery {
        state: State::Pending,
        ready: false,
        ready_at: Some(over_at.plus_ms(delay_ms)),
        attempts,
        holder: None,
        session: None,
        lease_until: None,
        ..before.clone()
    };
    tables.update_delivery(before, &after)
}

/// Doubles with each attempt, up to a limit.
pub(crate) fn retry_delay_ms(first_ms: i64, attempts: u32) -> i64 {
    let doublings = attempts.saturating_sub(1).min(30);
    first_ms.saturating_mul(1_i64 << doublings).clamp(0, limits::RETRY_DELAY_MS_MAX)
}

/// Ends a delivery and notifies the sender if it ended badly. Keeps the holder's name as the agent that ended it.
pub(crate) fn end(
    tables: &mut Tables<'_>,
    cx: &Context,
    before: &Delivery,
    changed: Delivery,
    state: State,
    reason: EndReason,
) -> Result<(), Error> {
    let after = Delivery {
        state,
        ready: false,
        lease_until: None,
        ready_at: None,
        ended_at: Some(cx.at),
        ended_by: Some(cx.position),
        reason: Some(reason),
        ..changed
    };
    tables.update_delivery(before, &after)?;
    tables.lift_holds_on(after.number)?;
    tables.move_handoff(after.message, state)?;
    workflow::delivery_ended(tables, cx, &after)?;
    let (event, told) = match state {
        State::Failed => (Event::Failed, Some(Notice::Failed)),
        State::Dead => (Event::Dead, Some(Notice::Dead)),
        // The approval notifies the asker once, for all of its deliveries.
        State::Expired if reason == EndReason::Unanswered => (Event::Expired, None),
        // The owner of a workflow learns what became of its steps from the workflow.
        State::Expired if reason == EndReason::TimedOut => (Event::Expired, None),
        State::Returned if reason == EndReason::Cancelled => (Event::Returned, None),
        State::Expired => (Event::Expired, Some(Notice::Expired)),
        State::Returned => (Event::Returned, Some(Notice::Returned)),
        _ => (Event::Done, None),
    };
    record_event(tables, cx, &after, event, Some(reason.number().into()))?;
    if let Some(told) = told {
        let message = expect_message(tables, after.message)?;
        // A sender that closes the conversation or withdraws the handoff already knows what became of its own mail.
        let is_known = matches!(reason, EndReason::ConversationClosed | EndReason::Withdrawn);
        let by_itself = is_known && message.sender == cx.actor;
        if !by_itself {
            notice::tell(tables, cx, Address::Agent(message.sender.clone()), told, &message, &after)?;
        }
    }
    Ok(())
}

/// Makes a delivery pending again with its attempts reset. Reopens its conversation if that was closed.
pub(crate) fn revive(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<(), Error> {
    let message = expect_message(tables, before.message)?;
    tables.delete_closed(&message.conversation)?;
    workflow::number_delivery(tables, &message, before.number)?;
    let after = Delivery {
        state: State::Pending,
        ready: true,
        attempts: 0,
        holder: None,
        session: None,
        lease_until: None,
        ready_at: None,
        expires_at: None,
        ended_at: None,
        ended_by: None,
        reason: None,
        dropped_at: None,
        ..before.clone()
    };
    tables.update_delivery(before, &after)?;
    tables.move_handoff(after.message, after.state)?;
    record_event(tables, cx, &after, Event::Retried, None)
}

/// The response deadline passed: notifies the sender and the recipient's lead, once.
pub(crate) fn remind(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<(), Error> {
    let after = Delivery { reminded_at: Some(cx.at), ..before.clone() };
    tables.update_delivery(before, &after)?;
    record_event(tables, cx, &after, Event::Reminded, None)?;
    let message = expect_message(tables, after.message)?;
    let lead = notice::lead_of(tables, &message, &after)?;
    for told in [Some(Address::Agent(message.sender.clone())), lead].into_iter().flatten() {
        notice::tell(tables, cx, told, Notice::Overdue, &message, &after)?;
    }
    Ok(())
}

/// Marks a bad end as dropped: it is no longer a dead letter.
pub(crate) fn drop_it(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<(), Error> {
    drop_as(tables, cx, before, None)
}

/// Like [`drop_it`], by a record whose content is about something else.
pub(crate) fn drop_along(tables: &mut Tables<'_>, cx: &Context, before: &Delivery) -> Result<(), Error> {
    drop_as(tables, cx, before, Some(1))
}

fn drop_as(tables: &mut Tables<'_>, cx: &Context, before: &Delivery, value: Option<i64>) -> Result<(), Error> {
    let after = Delivery { dropped_at: Some(cx.at), ..before.clone() };
    tables.update_delivery(before, &after)?;
    tables.delete_numbered(after.number)?;
    record_event(tables, cx, &after, Event::Dropped, value)
}

/// A recipient's reply satisfies a wanted response. The first one counts.
pub(crate) fn answer(
    tables: &mut Tables<'_>,
    cx: &Context,
    before: &Delivery,
    reply: MessageNo,
) -> Result<Delivery, Error> {
    if before.answer.is_some() {
        return Ok(before.clone());
    }
    let after = Delivery { answer: Some(reply), answered_at: Some(cx.at), ..before.clone() };
    tables.update_delivery(before, &after)?;
    record_event(tables, cx, &after, Event::Answered, i64::try_from(reply.0).ok())?;
    Ok(after)
}

/// Rows refer to each other: a delivery without its message is damage, not a refusal.
pub(crate) fn expect_message(tables: &Tables<'_>, number: MessageNo) -> Result<Message, Error> {
    tables.message(number)?.ok_or_else(|| Error::Damaged(format!("message {number} has deliveries but no row")))
}

/// The holder of a delivery, while it is claimed.
pub(crate) fn holder(delivery: &Delivery) -> Option<Name> {
    delivery.holder.clone().filter(|_| delivery.state == State::Claimed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_delay_doubles_up_to_its_limit() {
        assert_eq!(retry_delay_ms(10_000, 1), 10_000);
        assert_eq!(retry_delay_ms(10_000, 2), 20_000);
        assert_eq!(retry_delay_ms(10_000, 4), 80_000);
        assert_eq!(retry_delay_ms(10_000, 40), limits::RETRY_DELAY_MS_MAX);
        assert_eq!(retry_delay_ms(i64::MAX, u32::MAX), limits::RETRY_DELAY_MS_MAX);
        assert_eq!(retry_delay_ms(0, 3), 0);
    }
}
