//! Attempts to wake a recipient. An attempt is an event in the history of a delivery, never a state: a ring does not
//! mean that the agent noticed it.

use super::delivery::{self, own_deliveries};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, active_agent, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{Wake, WakeOutcome, WakeWay};
use crate::store::tables::{Delivery, Event, State, Tables};
use crate::text::Name;

pub(crate) struct Plan {
    agent: Name,
    waiting: Vec<Delivery>,
    event: Event,
    how: WakeWay,
}

impl Rule for Wake {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Plan, Stop> {
        speaker(tables, cx)?;
        if self.how == WakeWay::Nothing && self.outcome == WakeOutcome::Requested {
            return Err(refuse(Code::Malformed, "without a way to wake an agent, nothing can be requested"));
        }
        let agent = active_agent(tables, &self.agent)?;
        let message = delivery::message(tables, self.message)?;
        let mut own = own_deliveries(tables, &agent, &message)?;
        if let Some(held) = tables.held_of(message.number, &agent.name)?
            && own.iter().all(|delivery| delivery.number != held.number)
        {
            own.push(held);
        }
        let Some(first) = own.first().cloned() else {
            let why = format!("message {} is not addressed to {}", message.number, agent.name);
            return Err(refuse(Code::NotRecipient, why));
        };
        let is_its = |delivery: &Delivery| match delivery.state {
            State::Pending => true,
            State::Claimed => delivery.holder.as_ref() == Some(&agent.name),
            _ => false,
        };
        own.retain(is_its);
        if own.is_empty() {
            return Err(if first.state == State::Claimed {
                delivery::held_by(&first)
            } else {
                delivery::ended(&first)
            });
        }
        // An agent is not rung for a message that it could not claim.
        own.retain(|delivery| delivery.ready || delivery.state == State::Claimed);
        if own.is_empty() {
            return Err(delivery::not_ready(&first));
        }
        let mut waiting = Vec::new();
        for delivery in own {
            if tables.wakes_of(&delivery)? < limits::WAKES_MAX {
                waiting.push(delivery);
            }
        }
        if waiting.is_empty() {
            let why = format!("the maximum number of wake attempts for message {} is recorded", message.number);
            return Err(refuse(Code::NothingToDo, why));
        }
        let event = match self.outcome {
            WakeOutcome::Requested => Event::WakeRequested,
            WakeOutcome::Failed => Event::WakeFailed,
        };
        Ok(Plan { agent: agent.name, waiting, event, how: self.how })
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for delivery in &plan.waiting {
            delivery::record_event(tables, cx, delivery, plan.event, Some(plan.how.number().into()))?;
            tables.settle_ring(delivery.number, &plan.agent)?;
        }
        Ok(Effect::Touched(plan.waiting.len()))
    }
}
