//! What the gates of a claimed message said: the holder goes on, or it goes back to its sender.

use super::delivery::{self, own_delivery};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{GateResult, Position};
use crate::store::tables::{Delivery, EndReason, Event, Message, State, Tables};
use crate::text::Name;

impl Rule for GateResult {
    type Plan = (Delivery, Position, bool);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        if self.gates.is_empty() || self.gates.len() > limits::GATES_MAX {
            return Err(refuse(Code::Malformed, format!("a message has 1 to {} gates", limits::GATES_MAX)));
        }
        if self.passed != self.gates.iter().all(|gate| gate.passed) {
            return Err(refuse(Code::Malformed, "gates are passed when every one of them is"));
        }
        let message = delivery::message(tables, self.message)?;
        let own = own_delivery(tables, &agent, &message, Some(self.token))?;
        delivery::must_hold(tables, cx, &own, Some(self.token))?;
        if tables.gate_passed(&own, self.token)? {
            return Err(refuse(
                Code::NothingToDo,
                format!("message {} passed its gates under this claim already", self.message),
            ));
        }
        Ok((own, self.token, self.passed))
    }

    fn apply((held, token, passed): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let event = if passed { Event::GatePassed } else { Event::GateFailed };
        delivery::record_event(tables, cx, &held, event, i64::try_from(token.0).ok())?;
        if !passed {
            delivery::end(tables, cx, &held, held.clone(), State::Returned, EndReason::GateFailed)?;
        }
        Ok(Effect::Noted)
    }
}

/// Why the gates of a message do not count as passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unpassed {
    /// Nobody holds it, so they were not run.
    Unclaimed,
    /// They were not run, or not to their end, under the claim it has.
    Claimed,
}

/// Whether an agent that is about to end its delivery of a message well has passed its gates. `None`: it has, or the
/// record will be refused, or count as late, whatever gates say.
pub(crate) fn gates_passed(
    tables: &Tables<'_>,
    actor: &Name,
    message: &Message,
    token: Option<Position>,
) -> Result<Option<Unpassed>, Error> {
    let Some(agent) = tables.agent(actor.as_str())? else { return Ok(None) };
    let own = match own_delivery(tables, &agent, message, token) {
        Ok(own) => own,
        Err(Stop::Rejected(_)) => return Ok(None),
        Err(Stop::Failed(error)) => return Err(error),
    };
    Ok(match (own.state, own.token) {
        (State::Pending, _) => token.is_none().then_some(Unpassed::Unclaimed),
        (State::Claimed, Some(held))
            if own.holder.as_ref() == Some(actor) && token.is_none_or(|token| token == held) =>
        {
            (!tables.gate_passed(&own, held)?).then_some(Unpassed::Claimed)
        }
        _ => None,
    })
}
