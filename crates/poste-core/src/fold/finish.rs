//! Done, fail, ack, retry and drop: how deliveries end, and how they start over.

use super::delivery::{self, Authority, own_delivery};
use super::message::{check_artifacts, finish, require_member};
use super::outcome::{Code, Effect, Late, Stop, refuse};
use super::{Context, Rule, active_agent, approval, handoff, notice, speaker, workflow};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{Ack, Done, Drop, Fail, MessageNo, Position, Retry};
use crate::store::tables::{Agent, Delivery, EndReason, Event, Message, Notice, State, Tables};

pub(crate) struct FinishPlan {
    message: Message,
    own: Delivery,
    authority: Authority,
    lease_ms: i64,
}

fn decide_finish(
    tables: &Tables<'_>,
    cx: &Context,
    number: MessageNo,
    token: Option<Position>,
) -> Result<FinishPlan, Stop> {
    let agent = speaker(tables, cx)?;
    cx.require_proof(&agent)?;
    let message = delivery::message(tables, number)?;
    let own = own_delivery(tables, &agent, &message, token)?;
    let authority = delivery::authority(tables, cx, &own, token)?;
    if authority == Authority::Unclaimed && !own.ready {
        return Err(delivery::not_ready(&own));
    }
    if authority == Authority::Unclaimed {
        workflow::must_be_in_order(tables, &own)?;
    }
    let lease_ms = tables.policy()?.settings.lease_ms.unwrap_or(limits::LEASE_MS_DEFAULT);
    Ok(FinishPlan { message, own, authority, lease_ms })
}

impl Rule for Done {
    type Plan = FinishPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<FinishPlan, Stop> {
        check_artifacts(&self.artifacts, limits::ARTIFACTS_MAX)?;
        approval::must_not_await(tables, self.message)?;
        let plan = decide_finish(tables, cx, self.message, self.token)?;
        handoff::refuse_plain_end(tables, self.message)?;
        Ok(plan)
    }

    fn apply(plan: FinishPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        if plan.authority == Authority::Lost {
            return keep_late(plan, tables, cx);
        }
        finish(tables, cx, plan.own, plan.authority, plan.lease_ms, State::Done, EndReason::Done)?;
        Ok(Effect::Noted)
    }
}

/// Keeps a result that arrived after its lease was lost, and notifies sender and holder. The delivery is unchanged.
fn keep_late(plan: FinishPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
    let own = plan.own;
    delivery::record_event(tables, cx, &own, Event::Late, None)?;
    notice::tell(tables, cx, Address::Agent(plan.message.sender.clone()), Notice::Late, &plan.message, &own)?;
    let holder = delivery::holder(&own);
    if let Some(holder) = holder.clone().filter(|holder| *holder != plan.message.sender) {
        notice::tell(tables, cx, Address::Agent(holder), Notice::Late, &plan.message, &own)?;
    }
    Ok(Effect::Late(Late { number: own.message, holder, state: own.state.word().into() }))
}

/// The answer to a repeated `done`: whether it was late.
pub(crate) fn finished_before(tables: &Tables<'_>, number: MessageNo, position: Position) -> Result<Effect, Error> {
    if tables.was_late(number, position)? {
        return Ok(Effect::Late(Late { number, holder: None, state: "archived".into() }));
    }
    let events = tables.events_of(number)?;
    let late = events.iter().find(|event| event.position == position && event.event == Event::Late);
    let own = late.map(|late| tables.delivery(late.delivery)).transpose()?.flatten();
    Ok(match own {
        Some(own) => Effect::Late(Late { number, holder: delivery::holder(&own), state: own.state.word().into() }),
        None => Effect::Noted,
    })
}

impl Rule for Fail {
    type Plan = (FinishPlan, Fail);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        if self.delay_ms.is_some_and(|delay| !self.retry || !(0..=limits::RETRY_DELAY_MS_MAX).contains(&delay)) {
            return Err(refuse(Code::TimeOutOfRange, "a delay is at most an hour, and needs a retry"));
        }
        let plan = decide_finish(tables, cx, self.message, self.token)?;
        if plan.authority == Authority::Lost {
            return Err(delivery::lease_lost(&plan.own));
        }
        Ok((plan, self.clone()))
    }

    fn apply((plan, fail): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        if !fail.retry {
            finish(tables, cx, plan.own, plan.authority, plan.lease_ms, State::Failed, EndReason::Failed)?;
            return Ok(Effect::Noted);
        }
        let held = match plan.authority {
            Authority::Unclaimed => delivery::take(tables, cx, &plan.own, plan.lease_ms)?,
            Authority::Holder | Authority::Lost => plan.own,
        };
        delivery::count_attempt(tables, cx, &held, Event::AttemptFailed, cx.at, fail.delay_ms)?;
        Ok(Effect::Noted)
    }
}

impl Rule for Ack {
    type Plan = (Delivery, bool);

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Self::Plan, Stop> {
        let agent = speaker(tables, cx)?;
        cx.require_proof(&agent)?;
        let message = delivery::message(tables, self.message)?;
        let own = own_delivery(tables, &agent, &message, None)?;
        if !own.state.is_open() {
            return Err(delivery::ended(&own));
        }
        if own.state == State::Claimed && own.holder.as_ref() != Some(&agent.name) {
            return Err(delivery::held_by(&own));
        }
        if !own.ready {
            return Err(delivery::not_ready(&own));
        }
        if own.acked_at.is_some() {
            return Err(refuse(Code::NothingToDo, format!("message {} is already acknowledged", own.message)));
        }
        Ok((own, !message.work))
    }

    fn apply((before, ends): Self::Plan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let mut acked = Delivery { acked_at: Some(cx.at), ..before.clone() };
        if ends {
            // For mail to a group, this shows which member acknowledged it.
            acked.holder = Some(cx.actor.clone());
        }
        delivery::record_event(tables, cx, &acked, Event::Acked, None)?;
        if ends {
            delivery::end(tables, cx, &before, acked, State::Done, EndReason::Acked)?;
        } else {
            tables.update_delivery(&before, &acked)?;
        }
        Ok(Effect::Noted)
    }
}

/// Maximum number of recipients that a refusal names.
const NAMED_MAX: usize = 8;

/// The deliveries of a message that ended badly. Only the sender or a human may decide what happens to them.
fn bad_ends(
    tables: &Tables<'_>,
    cx: &Context,
    number: MessageNo,
    recipient: Option<&Address>,
    what: &str,
) -> Result<(Message, Agent, Vec<Delivery>), Stop> {
    let agent = speaker(tables, cx)?;
    let message = delivery::message(tables, number)?;
    if agent.name != message.sender && !cx.speaks_as_person(&agent) {
        let why = format!("only {} or a human may {what} message {}", message.sender, message.number);
        return Err(cx.only_person(&agent, why));
    }
    let is_named = |delivery: &Delivery| recipient.is_none_or(|recipient| delivery.address == *recipient);
    let mut bad = tables.deliveries_of(message.number)?;
    bad.retain(|delivery| delivery.state.is_bad_end());
    if let Some(recipient) = recipient.filter(|_| !bad.is_empty() && !bad.iter().any(is_named)) {
        let others: Vec<String> = bad.iter().take(NAMED_MAX).map(|delivery| delivery.address.to_string()).collect();
        let more = if bad.len() > NAMED_MAX { " and others" } else { "" };
        return Err(refuse(
            Code::NothingToDo,
            format!(
                "no delivery of message {} to {recipient} failed, died, expired or was returned; those to {}{more} did",
                message.number,
                others.join(", ")
            ),
        ));
    }
    bad.retain(is_named);
    if bad.is_empty() {
        return Err(refuse(
            Code::NothingToDo,
            format!("no delivery of message {} failed, died, expired or was returned", message.number),
        ));
    }
    Ok((message, agent, bad))
}

impl Rule for Retry {
    type Plan = Vec<Delivery>;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Vec<Delivery>, Stop> {
        let (message, agent, bad) = bad_ends(tables, cx, self.message, self.recipient.as_ref(), "retry")?;
        approval::may_be_retried(tables, self.message, cx.at)?;
        handoff::refuse_second_life(tables, self.message)?;
        workflow::refuse_second_life(tables, self.message)?;
        let sender = tables.agent(message.sender.as_str())?.unwrap_or(agent);
        for delivery in &bad {
            match &delivery.address {
                Address::Agent(name) => {
                    active_agent(tables, name)?;
                }
                group => require_member(tables, &sender, group)?,
            }
        }
        Ok(bad)
    }

    fn apply(bad: Vec<Delivery>, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for before in &bad {
            delivery::revive(tables, cx, before)?;
        }
        Ok(Effect::Touched(bad.len()))
    }
}

impl Rule for Drop {
    type Plan = Vec<Delivery>;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Vec<Delivery>, Stop> {
        let (message, _, mut bad) = bad_ends(tables, cx, self.message, self.recipient.as_ref(), "drop")?;
        bad.retain(|delivery| delivery.dropped_at.is_none());
        if bad.is_empty() {
            return Err(refuse(Code::NothingToDo, format!("message {} is already dropped", message.number)));
        }
        Ok(bad)
    }

    fn apply(bad: Vec<Delivery>, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        for before in &bad {
            delivery::drop_it(tables, cx, before)?;
        }
        Ok(Effect::Touched(bad.len()))
    }
}
