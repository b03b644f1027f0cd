//! Shown: the body was printed for the agent. A mark, never a state.

use super::delivery::{self, own_deliveries, own_delivery};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, speaker};
use crate::error::Error;
use crate::limits;
use crate::log::Shown;
use crate::store::tables::{Delivery, Event, Tables};

/// The session key of a mark that was made outside of any session.
pub(crate) const NO_SESSION: &str = "";

pub(crate) fn session_key(cx: &Context) -> &str {
    cx.session.as_ref().map_or(NO_SESSION, |session| session.as_str())
}

impl Rule for Shown {
    type Plan = Vec<Delivery>;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Vec<Delivery>, Stop> {
        let agent = speaker(tables, cx)?;
        if self.messages.len() > limits::SHOWN_MAX {
            return Err(refuse(Code::TooLarge, format!("more than {} messages at once", limits::SHOWN_MAX)));
        }
        let mut numbers = self.messages.clone();
        numbers.sort_unstable();
        numbers.dedup();
        let mut fresh = Vec::new();
        for number in numbers {
            let message = delivery::message(tables, number)?;
            let held = own_delivery(tables, &agent, &message, None)?; // refuses mail of other agents
            // A message that was addressed both by name and by group is shown once.
            let mut own = own_deliveries(tables, &agent, &message)?;
            if own.iter().all(|delivery| delivery.number != held.number) {
                own.push(held);
            }
            for own in own {
                if !tables.was_shown(own.number, &agent.name, session_key(cx))? {
                    fresh.push(own);
                }
            }
        }
        if fresh.is_empty() {
            return Err(refuse(Code::NothingToDo, "all of it was already shown here"));
        }
        Ok(fresh)
    }

    fn apply(fresh: Vec<Delivery>, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for before in &fresh {
            tables.insert_shown(before.number, &cx.actor, session_key(cx), cx.at)?;
            if before.shown_at.is_none() {
                let after = Delivery { shown_at: Some(cx.at), ..before.clone() };
                tables.update_delivery(before, &after)?;
            }
            delivery::record_event(tables, cx, before, Event::Shown, None)?;
        }
        Ok(Effect::Touched(fresh.len()))
    }
}
