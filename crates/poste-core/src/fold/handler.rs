//! Notification rules: one process at a time holds each of them, and its cursor only moves forward.

use super::outcome::{Code, Effect, Handling, Stop, refuse};
use super::{Context, Rule, message, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{HandlerCursor, HandlerDead, HandlerRelease, HandlerSettle, HandlerTake, Position, Send, Settling};
use crate::store::tables::{DueItem, Handler, HandlerLease, Tables, Untold};
use crate::text::{Label, Name};

pub(crate) struct Taken {
    before: Option<Handler>,
    after: Handler,
}

impl Rule for HandlerTake {
    type Plan = Taken;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Taken, Stop> {
        let holder = speaker(tables, cx)?.name;
        if !(limits::LEASE_MS_MIN..=limits::LEASE_MS_MAX).contains(&self.lease_ms) {
            return Err(refuse(Code::TimeOutOfRange, "a rule is held between one second and a day"));
        }
        let until = cx.at.plus_ms(self.lease_ms);
        if let Some(token) = self.token {
            let before = held(tables, cx, &self.rule, token)?;
            // Longer, never shorter, as with every lease.
            let lease = before.lease.clone().map(|lease| HandlerLease { until: lease.until.max(until), ..lease });
            let after = Handler { lease, ..before.clone() };
            return Ok(Taken { before: Some(before), after });
        }
        let lease = Some(HandlerLease { token: cx.position, holder, until });
        let Some(before) = tables.handler(&self.rule)? else {
            let head = before_this(cx);
            let cursor = self.from.unwrap_or(head);
            if cursor > head {
                return Err(refuse(Code::Malformed, format!("the log ends at {head}, before {cursor}")));
            }
            let known = tables.count_handlers()?;
            if known >= limits::HANDLERS_MAX {
                return Err(refuse(Code::TooLarge, format!("there are already {known} rules")));
            }
            let after = Handler { number: known as u64 + 1, rule: self.rule.clone(), cursor, lease };
            return Ok(Taken { before: None, after });
        };
        if let Some(lease) = &before.lease {
            let (rule, holder, until) = (&self.rule, &lease.holder, lease.until);
            return Err(refuse(Code::RuleHeld, format!("rule {rule} is held by {holder} until {until}")));
        }
        let after = Handler { lease, ..before.clone() };
        Ok(Taken { before: Some(before), after })
    }

    fn apply(taken: Taken, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        match &taken.before {
            Some(before) => tables.update_handler(before, &taken.after)?,
            None => tables.insert_handler(&taken.after)?,
        }
        handling(&taken.after).ok_or_else(|| Error::Damaged(format!("rule {} has no holder", taken.after.rule)))
    }
}

/// The end of the log when this record was written.
fn before_this(cx: &Context) -> Position {
    Position(cx.position.0.saturating_sub(1))
}

fn handling(handler: &Handler) -> Option<Effect> {
    let HandlerLease { token, until, .. } = *handler.lease.as_ref()?;
    Some(Effect::Handling(Handling { rule: handler.rule.clone(), token, until, cursor: handler.cursor }))
}

/// The rule, if the actor holds it by this token.
fn held(tables: &Tables<'_>, cx: &Context, rule: &Label, token: Position) -> Result<Handler, Stop> {
    speaker(tables, cx)?;
    let handler = tables.handler(rule)?.ok_or_else(|| refuse(Code::UnknownRule, format!("there is no rule {rule}")))?;
    let is_held = handler.lease.as_ref().is_some_and(|lease| lease.token == token && lease.holder == cx.actor);
    match is_held {
        true => Ok(handler),
        false => Err(refuse(Code::LeaseLost, format!("{} no longer holds rule {rule} with token {token}", cx.actor))),
    }
}

impl Rule for HandlerCursor {
    type Plan = (Handler, Position);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let handler = held(tables, cx, &self.rule, self.token)?;
        if self.position <= handler.cursor {
            let (rule, cursor) = (&self.rule, handler.cursor);
            return Err(refuse(Code::NothingToDo, format!("rule {rule} is already at record {cursor}")));
        }
        if self.position > before_this(cx) {
            return Err(refuse(Code::Malformed, format!("the log ends before {}", self.position)));
        }
        Ok((handler, self.position))
    }

    fn apply((before, cursor): Self::Plan, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.update_handler(&before, &Handler { cursor, ..before.clone() })?;
        Ok(Effect::Noted)
    }
}

impl Rule for HandlerDead {
    type Plan = (Untold, Option<message::Plan>);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        held(tables, cx, &self.rule, self.token)?;
        if self.attempts == 0 {
            return Err(refuse(Code::Malformed, "a failure needs at least one attempt"));
        }
        if tables.position_of(self.message)?.is_none() {
            return Err(refuse(Code::UnknownMessage, format!("there is no message {}", self.message)));
        }
        if self.mail.as_ref().is_some_and(|mail| mail.ends.is_some() || mail.reply_to.is_some()) {
            return Err(refuse(Code::Malformed, "an alert about a rule cannot answer or end a message"));
        }
        let mail = self.mail.as_ref().map(|mail| mail.decide(tables, cx)).transpose()?;
        let untold = Untold {
            rule: self.rule.clone(),
            message: self.message,
            position: cx.position,
            at: cx.at,
            attempts: self.attempts,
        };
        Ok((untold, mail))
    }

    fn apply((untold, mail): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        tables.set_untold(&untold)?;
        mail.map_or(Ok(Effect::Noted), |mail| Send::apply(mail, tables, cx))
    }
}

impl Rule for HandlerRelease {
    type Plan = Handler;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Handler, Stop> {
        held(tables, cx, &self.rule, self.token)
    }

    fn apply(before: Handler, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        release(tables, &before)?;
        Ok(Effect::Noted)
    }
}

impl Rule for HandlerSettle {
    type Plan = Untold;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Untold, Stop> {
        speaker(tables, cx)?;
        match (self.how, self.token) {
            (Settling::Sent, Some(token)) => drop(held(tables, cx, &self.rule, token)?),
            (Settling::Dropped, None) => {}
            _ => return Err(refuse(Code::Malformed, "a token is needed to settle as sent, and only then")),
        }
        let (rule, message) = (&self.rule, self.message);
        let untold = tables.untold(rule, message)?;
        untold.ok_or_else(|| refuse(Code::NothingToDo, format!("rule {rule} has not failed on message {message}")))
    }

    fn apply(untold: Untold, tables: &mut Tables<'_>, _: &Context) -> Result<Effect, Error> {
        tables.delete_untold(&untold)?;
        Ok(Effect::Noted)
    }
}

fn release(tables: &mut Tables<'_>, before: &Handler) -> Result<(), Error> {
    tables.update_handler(before, &Handler { lease: None, ..before.clone() })
}

/// Ends a lease whose time is up.
pub(crate) fn expire(tables: &mut Tables<'_>, item: DueItem) -> Result<(), Error> {
    match tables.handler_by_number(item.subject)? {
        Some(handler) if handler.lease.as_ref().is_some_and(|lease| lease.until == item.at) => {
            release(tables, &handler)
        }
        _ => Err(Error::Damaged(format!("the lease of handler {} is due, but it has none", item.subject))),
    }
}

/// Releases the rules held by a retiring agent.
pub(crate) fn release_of(tables: &mut Tables<'_>, holder: &Name) -> Result<(), Error> {
    for handler in tables.held_handlers(Some(holder))? {
        release(tables, &handler)?;
    }
    Ok(())
}

/// Extends all leases on rules by a clock leap, so that no process loses one to a clock.
pub(crate) fn move_all(tables: &mut Tables<'_>, leap_ms: i64) -> Result<(), Error> {
    for before in tables.held_handlers(None)? {
        let lease = before.lease.clone().map(|lease| HandlerLease { until: lease.until.plus_ms(leap_ms), ..lease });
        tables.update_handler(&before, &Handler { lease, ..before.clone() })?;
    }
    Ok(())
}

/// The answer to a repeated `take`: the lease while it is still the same one, afterwards only that it was taken.
pub(crate) fn taken_before(tables: &Tables<'_>, take: &HandlerTake, position: Position) -> Result<Effect, Error> {
    let token = take.token.unwrap_or(position);
    let is_it = |handler: &Handler| handler.lease.as_ref().is_some_and(|lease| lease.token == token);
    let held = tables.handler(&take.rule)?.filter(is_it);
    Ok(held.as_ref().and_then(handling).unwrap_or(Effect::Noted))
}
