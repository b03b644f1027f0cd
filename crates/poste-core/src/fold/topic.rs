//! Subscribing to topics.

use super::notice::deliver;
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, delivery, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{MessageNo, Subscribe, TopicPattern, Unsubscribe};
use crate::store::tables::{Event, Tables};

pub(crate) struct Plan {
    topic: TopicPattern,
    is_new: bool,
    past: Vec<MessageNo>,
}

impl Rule for Subscribe {
    type Plan = Plan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Plan, Stop> {
        let agent = speaker(tables, cx)?;
        let is_new = !tables.is_subscribed(&agent.name, &self.topic)?;
        let past = match self.from {
            None => Vec::new(),
            Some(from) => tables.publications_for(&agent.name, &self.topic, from, cx.at, limits::BACKFILL_MAX + 1)?,
        };
        if past.len() > limits::BACKFILL_MAX {
            return Err(refuse(
                Code::TooLarge,
                format!("more than {} publications since then; start later", limits::BACKFILL_MAX),
            ));
        }
        if !is_new && past.is_empty() {
            return Err(refuse(
                Code::NothingToDo,
                format!("{} is already subscribed to {}", agent.name, self.topic.as_str()),
            ));
        }
        Ok(Plan { topic: self.topic.clone(), is_new, past })
    }

    fn apply(plan: Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        if plan.is_new {
            tables.insert_subscription(&cx.actor, &plan.topic, cx.at)?;
        }
        for number in &plan.past {
            let message = delivery::expect_message(tables, *number)?;
            let number = deliver(tables, &message, Address::Agent(cx.actor.clone()), cx.at)?;
            if let Some(late) = tables.delivery(number)? {
                delivery::record_event(tables, cx, &late, Event::Delivered, None)?;
            }
        }
        Ok(Effect::Touched(plan.past.len()))
    }
}

impl Rule for Unsubscribe {
    type Plan = TopicPattern;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<TopicPattern, Stop> {
        let agent = speaker(tables, cx)?;
        // Nobody else makes a person miss mail.
        cx.require_proof(&agent)?;
        if !tables.is_subscribed(&agent.name, &self.topic)? {
            return Err(refuse(
                Code::NothingToDo,
                format!("{} is not subscribed to {}", agent.name, self.topic.as_str()),
            ));
        }
        Ok(self.topic.clone())
    }

    fn apply(topic: TopicPattern, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        tables.delete_subscription(&cx.actor, &topic)?;
        Ok(Effect::Noted)
    }
}
