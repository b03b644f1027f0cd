//! Runs: which messages a dispatcher starts an agent's program for, how the run ended, and which starts are held.
//!
//! Starting a run claims its messages, so if two dispatchers start an agent for the same message, only one succeeds.
//! The fold cannot know whether a run's processes are alive.

use std::collections::BTreeSet;

use super::delivery::{self, own_delivery};
use super::outcome::{Code, Effect, Stop, refuse};
use super::{Context, Rule, active_agent, claim, message, notice, speaker};
use crate::address::Address;
use crate::error::Error;
use crate::limits;
use crate::log::{DeliveryNo, HoldReason, MessageNo, RunEnd, RunHold, RunOutcome, RunResume, RunStart, Send};
use crate::store::tables::{Agent, Delivery, Event, HoldRow, Message, Notice, RunEnded, RunRow, State, Tables};
use crate::text::{Name, Session};
use crate::time::Timestamp;
use crate::vocabulary::AgentKind;

pub(crate) struct StartPlan {
    run: RunRow,
    taken: Vec<Delivery>,
    lease_ms: i64,
}

impl Rule for RunStart {
    type Plan = StartPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<StartPlan, Stop> {
        let agent = speaker(tables, cx)?;
        self.check()?;
        if let Some(before) = tables.run(&self.run)? {
            let why = format!("run {} was already started by {}", self.run, before.agent);
            return Err(refuse(Code::RunTaken, why));
        }
        if cx.session.as_ref() != Some(&self.run) {
            return Err(refuse(Code::Malformed, "a run must be started in the session of its name"));
        }
        if is_stopped(tables, &agent.name, cx.at)? {
            return Err(refuse(Code::Busy, format!("{} is stopped: it cannot be started", agent.name)));
        }
        let running = tables.running(&agent.name)?.len();
        if self.limit.is_some_and(|limit| running >= limit as usize) {
            return Err(refuse(Code::Busy, format!("{} already has {running} runs", agent.name)));
        }
        let (taken, hops) = self.take(tables, &agent)?;
        let run = RunRow {
            run: self.run.clone(),
            position: cx.position,
            at: cx.at,
            agent: agent.name,
            runner: self.runner.clone(),
            machine: cx.machine.clone(),
            host: self.host.clone(),
            supervisor: self.supervisor.clone(),
            hops,
            end: None,
        };
        Ok(StartPlan { run, taken, lease_ms: claim::lease(tables, self.lease_ms)? })
    }

    fn apply(plan: StartPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let messages: Vec<MessageNo> = plan.taken.iter().map(|taken| taken.message).collect();
        tables.insert_run(&plan.run, &messages)?;
        let claimed = claim::take(tables, cx, &plan.taken, plan.lease_ms)?;
        for taken in &plan.taken {
            delivery::record_event(tables, cx, taken, Event::RunStarted, None)?;
        }
        Ok(Effect::Claimed(claimed))
    }
}

impl RunStart {
    fn check(&self) -> Result<(), Stop> {
        let is_word = |text: &str| text.len() <= limits::LABEL_BYTES_MAX && !text.chars().any(char::is_control);
        if ![&self.runner, &self.host, &self.supervisor.place].into_iter().all(|text| is_word(text)) {
            return Err(refuse(Code::Malformed, "the name of a runner, host or process must be one short line"));
        }
        let max = limits::RUN_CLAIMS_MAX;
        if self.messages.len() > max {
            return Err(refuse(Code::TooLarge, format!("a run works on at most {max} messages")));
        }
        let is_repeated = |(index, message): (usize, &MessageNo)| self.messages[..index].contains(message);
        if self.messages.iter().enumerate().any(is_repeated) {
            return Err(refuse(Code::Malformed, "a run cannot name a message twice"));
        }
        Ok(())
    }

    /// The messages of the run that can be claimed, and the longest chain of runs that one of them came out of. Other
    /// agents may have claimed some. If none is left, there is nothing to start for.
    fn take(&self, tables: &Tables<'_>, agent: &Agent) -> Result<(Vec<Delivery>, u32), Stop> {
        let (mut taken, mut hops, mut why_not) = (Vec::new(), 0, None);
        for number in &self.messages {
            match claim::claimable(tables, agent, *number) {
                Ok((message, own)) => {
                    hops = hops.max(message.hops);
                    taken.push(own);
                }
                Err(Stop::Rejected(why)) => why_not = why_not.or(Some(why)),
                Err(failed) => return Err(failed),
            }
        }
        match why_not.filter(|_| taken.is_empty()) {
            Some(why) => Err(Stop::Rejected(why)),
            None => Ok((taken, hops)),
        }
    }
}

pub(crate) struct EndPlan {
    run: RunRow,
    end: RunEnded,
    deliveries: Vec<Delivery>,
}

impl Rule for RunEnd {
    type Plan = EndPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<EndPlan, Stop> {
        let run = tables
            .run(&self.run)?
            .ok_or_else(|| refuse(Code::UnknownRun, format!("no run {} was started", self.run)))?;
        // Also allowed after the agent retired: its program did end.
        if run.agent != cx.actor {
            return Err(refuse(Code::NotAllowed, format!("run {} belongs to {}", run.run, run.agent)));
        }
        if !run.is_running() {
            return Err(refuse(Code::Ended, format!("run {} has already ended", run.run)));
        }
        let has_code = matches!(self.how, RunOutcome::Exited | RunOutcome::Signalled);
        if has_code != self.code.is_some() {
            return Err(refuse(Code::Malformed, "a code is needed after an exit or a signal, and only then"));
        }
        let within = |number: u64| i64::try_from(number).is_ok_and(|number| number <= limits::RUN_NUMBER_MAX);
        if !within(self.took_ms) || !self.cost_micros.is_none_or(within) {
            return Err(refuse(Code::Malformed, "the duration or cost of the run is too large"));
        }
        let mut deliveries = Vec::new();
        for message in tables.messages_of_run(&run.run)? {
            // Empty once the conversation is archived.
            deliveries.extend(tables.won_by(message, &run.agent, run.position)?);
        }
        let end = RunEnded {
            position: cx.position,
            at: cx.at,
            how: self.how,
            code: self.code,
            took_ms: self.took_ms,
            cost_micros: self.cost_micros,
        };
        Ok(EndPlan { run, end, deliveries })
    }

    fn apply(plan: EndPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        tables.end_run(&plan.run.run, &plan.end)?;
        for delivery in &plan.deliveries {
            delivery::record_event(tables, cx, delivery, Event::RunEnded, Some(plan.end.how.number().into()))?;
        }
        Ok(Effect::Touched(plan.deliveries.len()))
    }
}

pub(crate) struct HoldPlan {
    hold: HoldRow,
    delivery: Option<Delivery>,
    mail: Option<message::Plan>,
}

impl Rule for RunHold {
    type Plan = HoldPlan;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<HoldPlan, Stop> {
        let agent = self.whom(tables, speaker(tables, cx)?)?;
        let until = message::future(cx, "the end of the hold", self.until, false)?;
        let delivery = match self.message {
            None => None,
            Some(number) => {
                let message = delivery::message(tables, number)?;
                let own = own_delivery(tables, &agent, &message, None)?;
                if own.state != State::Pending {
                    return Err(match own.state {
                        State::Claimed => delivery::held_by(&own),
                        _ => delivery::ended(&own),
                    });
                }
                Some(own)
            }
        };
        let number = delivery.as_ref().map(|delivery| delivery.number);
        let before = tables.hold(&agent.name, number)?;
        let let_go_at = before.as_ref().and_then(|before| before.let_go_at);
        let before = before.filter(|before| !before.is_over(cx.at));
        if before.is_some_and(|before| before.why == self.why) {
            return Err(refuse(Code::NothingToDo, format!("it is already held ({})", self.why)));
        }
        if delivery.is_none() && is_stopped(tables, &agent.name, cx.at)? {
            return Err(refuse(Code::NothingToDo, format!("{} is stopped until it is resumed", agent.name)));
        }
        if self.mail.as_ref().is_some_and(|mail| mail.ends.is_some() || mail.reply_to.is_some()) {
            return Err(refuse(Code::Malformed, "a hold cannot answer or end a message"));
        }
        let mail = self.mail.as_ref().map(|mail| mail.decide(tables, cx)).transpose()?;
        let hold = HoldRow {
            agent: agent.name,
            delivery: number,
            why: self.why,
            position: cx.position,
            at: cx.at,
            until,
            let_go_at,
        };
        Ok(HoldPlan { hold, delivery, mail })
    }

    fn apply(plan: HoldPlan, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        tables.set_hold(&plan.hold)?;
        if plan.hold.delivery.is_none() && plan.hold.why == HoldReason::Stopped {
            tell_who_waits(tables, cx, &plan.hold.agent)?;
        }
        if let Some(delivery) = &plan.delivery {
            delivery::record_event(tables, cx, delivery, Event::Held, Some(plan.hold.why.number().into()))?;
        }
        match plan.mail {
            Some(mail) => Send::apply(mail, tables, cx),
            None => Ok(Effect::Noted),
        }
    }
}

impl RunHold {
    /// A lead may stop another agent. All other holds are recorded in the agent's own name.
    fn whom(&self, tables: &Tables<'_>, speaker: Agent) -> Result<Agent, Stop> {
        let Some(name) = self.agent.as_ref().filter(|name| **name != speaker.name) else { return Ok(speaker) };
        if self.why != HoldReason::Stopped || self.message.is_some() {
            return Err(refuse(Code::NotAllowed, format!("{name} can only be stopped, not held for another reason")));
        }
        active_agent(tables, name)
    }
}

impl Rule for RunResume {
    type Plan = Vec<HoldRow>;

    fn decide(&self, tables: &Tables<'_>, cx: &Context) -> Result<Vec<HoldRow>, Stop> {
        let by = speaker(tables, cx)?;
        let agent = active_agent(tables, &self.agent)?;
        let mut holds = match self.message {
            None => tables.holds_of(&agent.name)?,
            Some(number) => {
                let message = delivery::message(tables, number)?;
                let own = own_delivery(tables, &agent, &message, None)?;
                tables.hold(&agent.name, Some(own.number))?.into_iter().collect()
            }
        };
        holds.retain(|hold| !hold.is_over(cx.at));
        if let Some(why) = self.why {
            holds.retain(|hold| hold.why == why && hold.delivery.is_some() == self.message.is_some());
        }
        self.may(tables, cx, &by, &agent, &holds)?;
        if holds.is_empty() {
            return Err(refuse(Code::NothingToDo, format!("{} has no such hold", self.agent)));
        }
        Ok(holds)
    }

    /// The row stays, as a hold that has ended: a later check must know that the hold was lifted despite its reason.
    fn apply(holds: Vec<HoldRow>, tables: &mut Tables<'_>, cx: &Context) -> Result<Effect, Error> {
        let count = holds.len();
        for hold in holds {
            // Lifted in the agent's own name, its limits keep counting. Lifted by another agent, they start over.
            let let_go_at = if hold.agent == cx.actor { hold.let_go_at } else { Some(cx.at) };
            tables.set_hold(&HoldRow { until: Some(cx.at), let_go_at, ..hold })?;
        }
        Ok(Effect::Touched(count))
    }
}

impl RunResume {
    /// A dispatcher, or an agent that starts a team, names the reason that no longer applies. Reasons that end by
    /// themselves are not included.
    fn is_of_the_office(&self) -> bool {
        use HoldReason::{Budget, Failing, Misconfigured, Stopped};
        self.message.is_none() && matches!(self.why, Some(Budget | Failing | Misconfigured | Stopped))
    }

    /// A limit is lifted by a person who confirms it, and by nobody else: two agents could lift each other's. Any other
    /// hold may also be lifted by the agent's lead, but not by a program that was started for mail. In the agent's own
    /// name, a dispatcher lifts holds whose reason no longer applies.
    fn may(&self, tables: &Tables<'_>, cx: &Context, by: &Agent, agent: &Agent, holds: &[HoldRow]) -> Result<(), Stop> {
        let run = cx.session.as_ref().map(|session| tables.run(session)).transpose()?.flatten();
        let is_in_run = run.is_some_and(|run| run.is_running());
        let is_limited = holds.iter().any(|hold| hold.why.is_limit());
        let may = match by.kind {
            AgentKind::Human => !is_in_run && cx.is_confirmed_by_person(by),
            _ if by.name == agent.name => self.is_of_the_office() && cx.session.is_none(),
            _ => !is_in_run && !is_limited && leads(by, agent),
        };
        if may {
            return Ok(());
        }
        if by.kind == AgentKind::Human && !is_in_run {
            let why = format!("{} must confirm that {} may be started again", by.name, agent.name);
            return Err(refuse(Code::NotAPerson, why));
        }
        let who = match &agent.lead {
            Some(lead) if !is_limited => format!("{lead} or a person"),
            _ => "a person".to_owned(),
        };
        Err(refuse(Code::NotAllowed, format!("{} cannot resume {}: only {who} can", by.name, agent.name)))
    }
}

/// Whether an agent leads another. Without a lead of its own, an agent is led by those with the role lead.
fn leads(by: &Agent, agent: &Agent) -> bool {
    match &agent.lead {
        Some(lead) => *lead == by.name,
        None => by.role.as_ref().is_some_and(|role| role.as_str() == "lead"),
    }
}

/// Whether the agent is stopped and has not been resumed since.
fn is_stopped(tables: &Tables<'_>, agent: &Name, now: Timestamp) -> Result<bool, Error> {
    let hold = tables.hold(agent, None)?;
    Ok(hold.is_some_and(|hold| hold.why == HoldReason::Stopped && !hold.is_over(now)))
}

/// Notifies every sender that waits for a stopped agent, once each, about its oldest pending message.
fn tell_who_waits(tables: &mut Tables<'_>, cx: &Context, agent: &Name) -> Result<(), Error> {
    let mut senders = BTreeSet::new();
    let waiting = "address = ?1 AND state = 0 ORDER BY message";
    let first_of_each = tables.scan_inbox(waiting, [agent], limits::STOP_NOTIFIED_MAX, |message, _| {
        concerns(message, agent) && senders.insert(message.sender.clone())
    })?;
    for (message, delivery) in first_of_each {
        tell_sender(tables, cx, agent, &message, &delivery)?;
    }
    Ok(())
}

/// If the recipient is stopped, notifies the sender, once.
pub(crate) fn tell_of_stop(
    tables: &mut Tables<'_>,
    cx: &Context,
    message: &Message,
    to: &Address,
    number: DeliveryNo,
) -> Result<(), Error> {
    let Address::Agent(agent) = to else { return Ok(()) };
    if !concerns(message, agent) || !is_stopped(tables, agent, cx.at)? {
        return Ok(());
    }
    match tables.delivery(number)?.filter(|delivery| delivery.state.is_open()) {
        Some(delivery) => tell_sender(tables, cx, agent, message, &delivery),
        None => Ok(()),
    }
}

/// Whether the sender should be notified. Senders of shutdown requests and answers already know.
fn concerns(message: &Message, agent: &Name) -> bool {
    !message.kind.as_str().starts_with("shutdown_") && message.notice.is_none() && message.sender != *agent
}

fn tell_sender(
    tables: &mut Tables<'_>,
    cx: &Context,
    agent: &Name,
    message: &Message,
    delivery: &Delivery,
) -> Result<(), Error> {
    if !tables.insert_stop_told(agent, &message.sender)? {
        return Ok(());
    }
    notice::tell(tables, cx, Address::Agent(message.sender.clone()), Notice::Stopped, message, delivery)
}

/// Number of consecutive runs that a message sent in this session came out of.
pub(crate) fn hops(tables: &Tables<'_>, session: Option<&Session>) -> Result<u32, Error> {
    let Some(session) = session else { return Ok(0) };
    Ok(tables.run(session)?.filter(RunRow::is_running).map_or(0, |run| run.hops.saturating_add(1)))
}

/// A retired agent has no mail that could be held. What holds the agent itself stays, or anybody could lift it by retiring
/// the agent and registering it again.
pub(crate) fn retire_of(tables: &mut Tables<'_>, agent: &Name) -> Result<(), Error> {
    for hold in tables.holds_of(agent)?.into_iter().filter(|hold| hold.delivery.is_some()) {
        tables.lift_hold(&hold)?;
    }
    Ok(())
}
