//! Gate results of a claimed message: the holder may continue, or the message is returned to its sender.

use super::delivery::{self, own_delivery};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{GateResult, Position};
use crate::store::tables::{Delivery, EndReason, Event, Message, State, Tables};
use crate::text::Name;
use crate::vocabulary::AgentKind;

impl Rule for GateResult {
    type Plan = (Delivery, Position, bool);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        if self.gates.is_empty() || self.gates.len() > limits::GATES_MAX {
            return Err(refuse(Code::Malformed, format!("a message has 1 to {} gates", limits::GATES_MAX)));
        }
        if self.passed != self.gates.iter().all(|gate| gate.passed) {
            return Err(refuse(Code::Malformed, "gates pass only if each of them passes"));
        }
        let message = delivery::message(tables, self.message)?;
        let own = own_delivery(tables, &agent, &message, Some(self.token))?;
        delivery::must_hold(tables, cx, &own, Some(self.token))?;
        if tables.gate_passed(&own, self.token)? {
            return Err(refuse(
                Code::NothingToDo,
                format!("message {} already passed its gates under this claim", self.message),
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
    /// No agent holds the message, so its gates were not run.
    Unclaimed,
    /// The gates were not run, or did not finish, under the current claim.
    Claimed,
    /// A human answers for other agents, none of which has passed the gates.
    Elsewhere,
}

/// Whether an agent that is about to end its delivery successfully has passed the message's gates. `None` means that it
/// has, or that the record will be refused or count as late regardless of gates.
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

/// Like [`gates_passed`], for an agent that is about to decide a question. A human may answer for others; then one of
/// the recipients must have passed the gates under its claim.
pub(crate) fn gates_passed_to_decide(
    tables: &Tables<'_>,
    actor: &Name,
    message: &Message,
) -> Result<Option<Unpassed>, Error> {
    let Some(agent) = tables.agent(actor.as_str())? else { return Ok(None) };
    if !tables.approval(message.number)?.is_some_and(|approval| approval.is_open()) {
        return Ok(None);
    }
    let is_its_own = match own_delivery(tables, &agent, message, None) {
        Ok(own) => own.state == State::Pending || own.holder.as_ref() == Some(actor) && own.state.is_open(),
        Err(Stop::Rejected(_)) => false,
        Err(Stop::Failed(error)) => return Err(error),
    };
    if is_its_own || agent.kind != AgentKind::Human {
        return gates_passed(tables, actor, message, None);
    }
    for other in tables.deliveries_of(message.number)? {
        if let Some(token) = other.token.filter(|_| other.state == State::Claimed)
            && tables.gate_passed(&other, token)?
        {
            return Ok(None);
        }
    }
    Ok(Some(Unpassed::Elsewhere))
}
