//! Decides from the current facts which agents to start for which mail, what to hold and why, and when to look again.
//!
//! A pure function, so that limits and fairness can be tested without a process.

use std::cmp::Reverse;

use jiff::tz::TimeZone;
use poste_config::{AgentConfig, Mode};
use poste_core::log::{HoldReason, MessageNo};
use poste_core::store::tables::Spent;
use poste_core::text::Name;
use poste_core::time::{Timestamp, length};
use poste_core::views::{HoldView, Later, Startable};
use poste_core::vocabulary::Urgency;
use schemars::JsonSchema;
use serde::Serialize;

use super::times;

/// Failed runs in a row, for this many different messages, after which an agent is held.
pub(super) const FAILING_RUNS: usize = 5;
const FAILING_MESSAGES: usize = 3;
/// How long that hold lasts.
const FAILING_REST_MS: i64 = 10 * 60 * 1_000;
/// The window of `starts_per_minute`.
pub(super) const RATE_MS: i64 = 60 * 1_000;
/// Maximum number of senders that are notified of one hold.
const TOLD_MAX: usize = 8;

/// Everything the decision depends on.
#[derive(Debug, Clone)]
pub struct Facts {
    pub now: Timestamp,
    /// Of this machine: quiet hours, schedules and budgets use its time zone.
    pub zone: TimeZone,
    /// Maximum number of runs at once, across all agents.
    pub places: usize,
    /// Runs that are active or being started, without residents.
    pub taken: usize,
    pub agents: Vec<AgentFacts>,
}

/// The facts about one agent.
#[derive(Debug, Clone)]
pub struct AgentFacts {
    pub name: Name,
    pub config: AgentConfig,
    /// Messages it may be started for, best first; with a schedule, all that were stored before its last time.
    pub mail: Vec<Startable>,
    /// Its runs that are active or being started.
    pub running: usize,
    pub last_started: Option<Timestamp>,
    /// It was not started since the schedule's last time.
    pub clock_due: bool,
    pub clock_next: Option<Timestamp>,
    /// Its starts of the last minute, oldest first, since a hold was lifted.
    pub lately: Vec<Timestamp>,
    /// Used in the current period of its budget, since a hold was lifted.
    pub spent: Spent,
    pub failures: Failures,
    /// The hold on the whole agent.
    pub held: Option<HoldView>,
    /// Messages whose hold as a loop was lifted.
    pub let_go: Vec<MessageNo>,
    /// The end of the pause after a failed start.
    pub rests_until: Option<Timestamp>,
    /// Mail it is not started for yet; only for display.
    pub later: Vec<Later>,
    /// It is a resident whose program ended and is restarted after a pause; counted among the runs.
    pub restarts: bool,
}

/// The last runs of an agent, in a row, that failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Failures {
    pub runs: usize,
    /// Number of different messages they were for; a run for none counts as one.
    pub messages: usize,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    pub starts: Vec<Start>,
    pub holds: Vec<Hold>,
    /// Agents whose hold no longer applies, with its reason.
    pub resumes: Vec<(Name, HoldReason)>,
    /// Running residents, and their pending mail.
    pub rings: Vec<Start>,
    pub waits: Vec<Wait>,
    /// When the facts change without a record.
    pub look_again: Option<Timestamp>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Start {
    pub agent: Name,
    /// Empty: to look through its inbox.
    pub messages: Vec<MessageNo>,
}

/// An agent or a message that is not started until a time, or until the hold is lifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hold {
    pub agent: Name,
    pub message: Option<MessageNo>,
    pub why: HoldReason,
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub until: Option<Timestamp>,
    /// The reason, for people.
    pub text: String,
    /// The senders of the mail it stops.
    #[serde(skip)]
    pub senders: Vec<Name>,
    /// That mail, the first of each sender: the agent that started the chain it came from is notified, too.
    #[serde(skip)]
    pub about: Vec<MessageNo>,
}

/// Mail that is not started now, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Wait {
    pub agent: Name,
    pub why: WaitReason,
    pub messages: usize,
    #[serde(serialize_with = "poste_core::time::rfc3339_option")]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitReason {
    /// Its own concurrency limit is reached.
    Busy,
    /// The concurrency limit across all agents is reached.
    NoPlace,
    Quiet,
    Held,
    /// Its last start has just failed.
    Resting,
}

/// One agent, while starts are assigned.
struct Queue<'f> {
    facts: &'f AgentFacts,
    /// Remaining mail, best last.
    mail: Vec<&'f Startable>,
    /// Number of starts it may still get.
    free: usize,
    /// A start without mail is due, by the clock or because it is a resident.
    empty_start: bool,
    /// The time of its last start, and the order of starts assigned here.
    served: (i64, usize),
}

pub fn choose(facts: &Facts) -> Choice {
    let mut choice = Choice::default();
    let mut queues: Vec<Queue<'_>> = facts.agents.iter().filter_map(|agent| queue(facts, agent, &mut choice)).collect();
    let mut places = facts.places.saturating_sub(facts.taken);
    let mut given = 0;
    while let Some(next) = next(&mut queues) {
        let is_resident = next.facts.config.mode == Mode::Resident;
        if !is_resident && places == 0 {
            break;
        }
        let batch = match next.facts.config.mode {
            Mode::Session => next.facts.config.batch as usize,
            Mode::Subagent => 1,
            Mode::Resident => 0,
        };
        let messages: Vec<MessageNo> = (0..batch).filter_map(|_| next.mail.pop().map(|mail| mail.message)).collect();
        next.empty_start = false;
        next.free -= 1;
        given += 1;
        next.served = (facts.now.ms(), given);
        if !is_resident {
            places -= 1;
        }
        choice.starts.push(Start { agent: next.facts.name.clone(), messages });
    }
    for queue in queues.iter().filter(|queue| !queue.mail.is_empty() && queue.facts.config.mode != Mode::Resident) {
        let why = if queue.free == 0 { WaitReason::Busy } else { WaitReason::NoPlace };
        choice.wait(queue.facts, why, queue.mail.len(), None);
    }
    choice.look_again = choice.look_again.filter(|at| *at > facts.now);
    choice
}

/// The agent whose turn it is: by the priority of its mail, then by its last start, then by the age of its mail.
fn next<'q, 'f>(queues: &'q mut [Queue<'f>]) -> Option<&'q mut Queue<'f>> {
    let may_start = |queue: &&mut Queue<'_>| queue.free > 0 && (queue.empty_start || !queue.mail.is_empty());
    queues.iter_mut().filter(may_start).min_by_key(|queue| {
        let best = queue.mail.last();
        // A resident takes no place from others.
        let is_resident = queue.facts.config.mode == Mode::Resident;
        let first = best.map(|mail| Reverse(mail.priority));
        let oldest = best.map(|mail| mail.message);
        (!is_resident, first.is_none(), first, queue.served, oldest, queue.facts.name.clone())
    })
}

/// The mail that an agent may be started for now; everything else goes into the choice.
fn queue<'f>(facts: &Facts, agent: &'f AgentFacts, choice: &mut Choice) -> Option<Queue<'f>> {
    choice.look_at(agent.clock_next);
    if let Some(held) = &agent.held {
        if no_longer_applies(agent, held) {
            choice.resumes.push((agent.name.clone(), held.why));
        } else {
            choice.look_at(held.until);
            choice.wait(agent, WaitReason::Held, agent.mail.len(), held.until);
        }
        return None;
    }
    let is_resident = agent.config.mode == Mode::Resident;
    let mut mail = hold_back_chains(agent, choice);
    let mut starts_empty = if is_resident { agent.running == 0 } else { agent.clock_due };
    if let Some(quiet) = agent.config.quiet
        && let Some(until) = times::quiet_until(quiet, facts.now, &facts.zone)
    {
        let before = mail.len();
        mail.retain(|mail| mail.urgency == Urgency::Now);
        starts_empty &= is_resident && !mail.is_empty();
        choice.look_at(Some(until));
        choice.wait(agent, WaitReason::Quiet, before - mail.len(), Some(until));
    }
    if is_resident && agent.running > 0 && !mail.is_empty() {
        let messages = mail.iter().map(|mail| mail.message).collect();
        choice.rings.push(Start { agent: agent.name.clone(), messages });
    }
    let wants_more = if is_resident { starts_empty } else { starts_empty || !mail.is_empty() };
    if !wants_more {
        return None;
    }
    if let Some(until) = agent.rests_until.filter(|until| *until > facts.now) {
        choice.look_at(Some(until));
        choice.wait(agent, WaitReason::Resting, mail.len(), Some(until));
        return None;
    }
    if let Some(hold) = stop(facts, agent, &mail) {
        choice.look_at(hold.until);
        choice.holds.push(hold);
        return None;
    }
    let limit = if is_resident { 1 } else { agent.config.concurrency as usize };
    let rate = (agent.config.starts_per_minute as usize).saturating_sub(agent.lately.len());
    let budget = agent
        .config
        .budget
        .and_then(|budget| budget.runs)
        .map_or(usize::MAX, |runs| usize::try_from(runs.saturating_sub(agent.spent.runs)).unwrap_or(usize::MAX));
    let free = limit.saturating_sub(agent.running).min(rate).min(budget);
    mail.reverse();
    let served = (agent.last_started.map_or(0, Timestamp::ms), 0);
    Some(Queue { facts: agent, mail, free, empty_start: starts_empty, served })
}

/// Holds messages that came out of too many runs, and returns the rest, each message once.
fn hold_back_chains<'f>(agent: &'f AgentFacts, choice: &mut Choice) -> Vec<&'f Startable> {
    let mut mail: Vec<&Startable> = Vec::new();
    for found in &agent.mail {
        if mail.iter().any(|before| before.message == found.message) {
            continue; // pending at two addresses of the agent
        }
        if found.hops <= agent.config.max_hops || agent.let_go.contains(&found.message) {
            mail.push(found);
            continue;
        }
        if choice.holds.iter().any(|hold| hold.agent == agent.name && hold.message == Some(found.message)) {
            continue;
        }
        let text = format!(
            "message #{} came out of a chain of {} runs, and max_hops of {} is {}: this looks like a loop",
            found.message, found.hops, agent.name, agent.config.max_hops
        );
        let senders = vec![found.sender.clone()];
        let hold = Hold {
            agent: agent.name.clone(),
            message: Some(found.message),
            why: HoldReason::Hops,
            until: None,
            text,
            senders,
            about: vec![found.message],
        };
        choice.holds.push(hold);
    }
    mail
}

/// The hold for an agent that has work but may not be started.
fn stop(facts: &Facts, agent: &AgentFacts, mail: &[&Startable]) -> Option<Hold> {
    let hold = |why, until, text| {
        let (mut senders, mut about): (Vec<Name>, Vec<MessageNo>) = (Vec::new(), Vec::new());
        for mail in mail {
            if !senders.contains(&mail.sender) && senders.len() < TOLD_MAX {
                senders.push(mail.sender.clone());
                about.push(mail.message);
            }
        }
        Some(Hold { agent: agent.name.clone(), message: None, why, until, text, senders, about })
    };
    let name = &agent.name;
    if !agent.config.trusted {
        let text = format!(
            "the command for {name} is not trusted on this machine ({}). Review it: poste trust",
            agent.config.shown()
        );
        return hold(HoldReason::Misconfigured, None, text);
    }
    if is_failing(agent) {
        let until = facts.now.plus_ms(FAILING_REST_MS);
        let text = format!(
            "the last {} runs of {name} failed, so it pauses for {}. See why: poste dispatch runs {name}",
            agent.failures.runs,
            length(FAILING_REST_MS)
        );
        return hold(HoldReason::Failing, Some(until), text);
    }
    if let Some(what) = used_up(agent) {
        let until = agent.config.budget.map(|budget| times::budget_until(budget.per, facts.now, &facts.zone));
        return hold(HoldReason::Budget, until, format!("the budget of {name} is used up: {what}"));
    }
    let per_minute = agent.config.starts_per_minute as usize;
    if agent.lately.len() >= per_minute {
        // The next start is possible once the oldest of them is a minute old.
        let until = agent.lately[agent.lately.len() - per_minute].plus_ms(RATE_MS);
        let text = format!(
            "{name} was started {} times in a minute, and starts_per_minute is {per_minute}",
            agent.lately.len()
        );
        return hold(HoldReason::Rate, Some(until), text);
    }
    None
}

fn is_failing(agent: &AgentFacts) -> bool {
    agent.failures.runs >= FAILING_RUNS && agent.failures.messages >= FAILING_MESSAGES
}

/// What is used up of the budget, in words.
fn used_up(agent: &AgentFacts) -> Option<String> {
    let budget = agent.config.budget?;
    let per = budget.per.word();
    let spent = agent.spent;
    if let Some(runs) = budget.runs.filter(|runs| spent.runs >= *runs) {
        return Some(format!("{} of {runs} runs this {per}", spent.runs));
    }
    if let Some(minutes) = budget.minutes.filter(|minutes| spent.took_ms >= minutes.saturating_mul(60_000)) {
        return Some(format!("{} of {minutes} minutes this {per}", spent.took_ms / 60_000));
    }
    let cost = budget.cost_micros.filter(|cost| spent.cost_micros >= *cost)?;
    let dollars = |micros: u64| format!("{}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
    Some(format!("{} of {} dollars this {per}", dollars(spent.cost_micros), dollars(cost)))
}

/// Whether the reason for a hold no longer applies, for example after a change of the configuration.
fn no_longer_applies(agent: &AgentFacts, held: &HoldView) -> bool {
    match held.why {
        HoldReason::Misconfigured => agent.config.trusted,
        HoldReason::Budget => used_up(agent).is_none(),
        _ => false,
    }
}

impl Choice {
    fn look_at(&mut self, at: Option<Timestamp>) {
        self.look_again = [self.look_again, at].into_iter().flatten().min();
    }

    fn wait(&mut self, agent: &AgentFacts, why: WaitReason, messages: usize, until: Option<Timestamp>) {
        if messages > 0 || why == WaitReason::Held {
            self.waits.push(Wait { agent: agent.name.clone(), why, messages, until });
        }
    }
}
