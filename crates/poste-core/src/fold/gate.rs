//! What the gates of a claimed message said: the holder goes on, or it goes back to its sender.

use super::delivery::{self, own_delivery};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::{GateResult, Position};
use crate::store::tables::{Delivery, EndReason, Event, State, Tables};

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
