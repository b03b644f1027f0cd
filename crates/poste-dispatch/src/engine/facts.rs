//! The current facts about every agent with a runner on this machine.

use std::collections::BTreeSet;

use jiff::tz::TimeZone;
use poste_config::{AgentConfig, Mode, Runners};
use poste_core::error::Error;
use poste_core::log::{HoldReason, MessageNo, RunOutcome};
use poste_core::office::Office;
use poste_core::store::processes;
use poste_core::store::tables::{Agent, Spent};
use poste_core::text::Name;
use poste_core::time::Timestamp;
use poste_core::views::{self, HoldView, RunEndView, RunView, Startable};

use super::choose::{AgentFacts, FAILING_RUNS, Facts, Failures, RATE_MS};
use super::times;
use crate::run;

/// Maximum number of messages read per agent for display, and where the first ones are not enough.
const LOOKED_AT_MAX: usize = 256;
/// Usual number of messages read per agent: more than most can be started for at once.
const LOOKED_AT: usize = 32;
/// Number of past runs read per agent: enough to see that it fails, even while others are active.
const RUNS_MAX: u32 = 64;

/// A supervisor this process started and has not seen end.
#[derive(Debug, Clone)]
pub(super) struct Starting {
    pub pid: u32,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
    pub at: Timestamp,
}

/// State that only this process has.
#[derive(Debug, Default)]
pub(super) struct Own {
    pub starting: Vec<Starting>,
    /// Agents and messages that pause after a failed start.
    pub resting: Vec<Rest>,
}

#[derive(Debug, Clone)]
pub(super) struct Rest {
    pub agent: Name,
    /// Only for this message.
    pub message: Option<MessageNo>,
    pub until: Timestamp,
    /// Number of failed starts in a row.
    pub times: u32,
}

/// Which agents to look at, and how closely.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'s> {
    /// Empty: all.
    pub only: &'s [Name],
    /// Also facts that decide nothing now, for display.
    pub whole: bool,
}

/// The current facts, and the active runs.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub facts: Facts,
    pub running: Vec<RunView>,
}

/// Reads the current facts.
pub fn read_facts(office: &Office, runners: &Runners, scope: Scope<'_>) -> Result<Snapshot, Error> {
    read_facts_with(office, runners, scope, &Own::default())
}

/// In one transaction, so that all facts are of one moment and need one lock instead of one per query.
pub(super) fn read_facts_with(
    office: &Office,
    runners: &Runners,
    scope: Scope<'_>,
    own: &Own,
) -> Result<Snapshot, Error> {
    office.store().read(|_| collect_facts(office, runners, scope, own))
}

fn collect_facts(office: &Office, runners: &Runners, scope: Scope<'_>, own: &Own) -> Result<Snapshot, Error> {
    let now = office.now()?;
    let running = views::all_running(office.store())?;
    let starting: Vec<&Starting> =
        own.starting.iter().filter(|starting| !running.iter().any(|run| run.supervisor == starting.pid)).collect();
    let place = processes::written_down(std::process::id()).place;
    let is_resident = |name: &Name| runners.agents.get(name).is_some_and(|config| config.mode == Mode::Resident);
    // Each machine has its own limit.
    let here = running.iter().filter(|run| run.process.place == place).map(|run| &run.agent);
    let taken = here.chain(starting.iter().map(|starting| &starting.agent)).filter(|name| !is_resident(name)).count();
    let places = runners.concurrency as usize;
    let mut snapshot =
        Snapshot { facts: Facts { now, zone: TimeZone::system(), places, taken, agents: Vec::new() }, running };
    for (name, config) in &runners.agents {
        if !scope.only.is_empty() && !scope.only.contains(name) {
            continue;
        }
        let Some(agent) = office.agent(name)?.filter(Agent::is_active) else { continue };
        let looking = Looking { office, snapshot: &snapshot, agent: &agent, config, own, starting: &starting };
        if let Some(found) = looking.facts(scope.whole)? {
            snapshot.facts.agents.push(found);
        }
    }
    Ok(snapshot)
}

struct Looking<'l> {
    office: &'l Office,
    snapshot: &'l Snapshot,
    agent: &'l Agent,
    config: &'l AgentConfig,
    own: &'l Own,
    starting: &'l [&'l Starting],
}

impl Looking<'_> {
    /// None if nothing can be started anyway: in a busy office this runs after each record.
    fn facts(&self, whole: bool) -> Result<Option<AgentFacts>, Error> {
        let facts = &self.snapshot.facts;
        let (name, config, now) = (&self.agent.name, self.config, facts.now);
        let is_resident = config.mode == Mode::Resident;
        let starting = self.starting.iter().filter(|starting| starting.agent == *name);
        let running = self.snapshot.running.iter().filter(|run| run.agent == *name).count() + starting.clone().count();
        // Between two starts of a resident no run is active, and its supervisor does the next start.
        let restarts = is_resident && running == 0 && run::is_kept(self.office.path()?, name);
        let running = running + usize::from(restarts);
        let is_full = running >= config.concurrency as usize || facts.taken >= facts.places;
        if is_full && !is_resident && !whole {
            return Ok(None);
        }
        let holds = views::all_holds(self.office.store(), name)?;
        let (held, over): (Vec<HoldView>, Vec<HoldView>) = holds.into_iter().partition(|hold| !hold.is_over(now));
        let of_agent = |holds: &[HoldView]| holds.iter().find(|hold| hold.message.is_none()).cloned();
        let (held, passed) = (of_agent(&held), of_agent(&over));
        let let_go_at = held.as_ref().or(passed.as_ref()).and_then(|hold| hold.let_go_at);
        // A hold that expired restarts only its own count: a pause must not renew the budget of an agent.
        let since = |why: HoldReason| {
            let ran_out = passed.as_ref().filter(|hold| hold.why == why).and_then(|hold| hold.until);
            [let_go_at, ran_out].into_iter().flatten().max()
        };
        let last_run = views::last_start(self.office.store(), name)?;
        let last_started = starting.clone().map(|starting| starting.at).chain(last_run).max();
        let (last, clock_next) = match &config.schedule {
            Some(schedule) => times::occurrences(schedule, now, &facts.zone),
            None => (None, None),
        };
        let is_new = last.is_some_and(|last| last_started.unwrap_or(self.agent.registered_at) < last);
        // Any other program has nothing to do without mail.
        let clock_due = is_new && run::takes_mail_itself(config);
        let (mail, rests_until) = match held {
            Some(_) if !whole => (Vec::new(), None),
            Some(_) => (views::queued(self.office.store(), self.agent, now, LOOKED_AT_MAX)?, None),
            None => self.mail(last, whole)?,
        };
        let wants = !mail.is_empty() || clock_due || is_resident || held.is_some();
        if !wants && !whole {
            return Ok(clock_next.map(|_| self.quiet_facts(running, clock_next)));
        }
        Ok(Some(AgentFacts {
            lately: self.lately(since(HoldReason::Rate))?,
            spent: self.spent(let_go_at)?,
            failures: self.failures(since(HoldReason::Failing))?,
            last_started,
            clock_due,
            mail,
            held,
            let_go: over.into_iter().filter_map(|hold| hold.message).collect(),
            rests_until,
            later: match whole {
                true => views::later(self.office.store(), self.agent, now, LOOKED_AT_MAX)?,
                false => Vec::new(),
            },
            restarts,
            ..self.quiet_facts(running, clock_next)
        }))
    }

    /// The facts of an agent that has nothing to do.
    fn quiet_facts(&self, running: usize, clock_next: Option<Timestamp>) -> AgentFacts {
        AgentFacts {
            name: self.agent.name.clone(),
            config: self.config.clone(),
            mail: Vec::new(),
            running,
            last_started: None,
            clock_due: false,
            clock_next,
            lately: Vec::new(),
            spent: Spent::default(),
            failures: Failures::default(),
            held: None,
            let_go: Vec::new(),
            rests_until: None,
            later: Vec::new(),
            restarts: false,
        }
    }

    /// Mail it may be started for, without mail it is being started for, and the end of its pause.
    fn mail(&self, clock: Option<Timestamp>, whole: bool) -> Result<(Vec<Startable>, Option<Timestamp>), Error> {
        let (store, now) = (self.office.store(), self.snapshot.facts.now);
        // Twice, because mail that this process is already starting it for is still among it.
        let at_once = 2 * (self.config.concurrency as usize).saturating_mul(self.config.batch as usize);
        // In quiet hours mail of urgency `now` may stand behind other mail.
        let limit = match whole || self.config.quiet.is_some() {
            true => LOOKED_AT_MAX,
            false => at_once.clamp(LOOKED_AT, LOOKED_AT_MAX),
        };
        let mut mail = match clock {
            Some(last) => views::startable_by_clock(store, self.agent, last, now, limit)?,
            None => views::startable(store, self.agent, now, limit)?,
        };
        let own = || self.own.starting.iter().filter(|starting| starting.agent == self.agent.name);
        mail.retain(|mail| !own().any(|starting| starting.messages.contains(&mail.message)));
        let resting = || self.own.resting.iter().filter(|rest| rest.agent == self.agent.name && rest.until > now);
        let mut until = resting().filter(|rest| rest.message.is_none()).map(|rest| rest.until).max();
        let before = mail.len();
        mail.retain(|mail| !resting().any(|rest| rest.message == Some(mail.message)));
        if mail.is_empty() && before > 0 {
            until = until.or(resting().map(|rest| rest.until).min());
        }
        Ok((mail, until))
    }

    /// Its starts of the last minute, oldest first.
    fn lately(&self, let_go_at: Option<Timestamp>) -> Result<Vec<Timestamp>, Error> {
        let since = self.snapshot.facts.now.plus_ms(-RATE_MS).max(let_go_at.unwrap_or(Timestamp::ZERO));
        let own = self.starting.iter().filter(|starting| starting.agent == self.agent.name).map(|own| own.at);
        let mut lately = views::starts_since(self.office.store(), &self.agent.name, since)?;
        lately.extend(own.filter(|at| *at > since));
        lately.sort_unstable();
        Ok(lately)
    }

    /// Its last runs in a row that failed on their own, since a hold was lifted.
    fn failures(&self, let_go_at: Option<Timestamp>) -> Result<Failures, Error> {
        let ends = views::latest_ends(self.office.store(), &self.agent.name, RUNS_MAX)?;
        let since = |run: &&RunEndView| let_go_at.is_none_or(|at| run.started_at >= at);
        let row: Vec<&RunEndView> =
            ends.iter().take_while(|run| since(run) && failed(run)).take(FAILING_RUNS).collect();
        let (mut messages, mut without) = (BTreeSet::new(), 0);
        for run in &row {
            match views::first_message(self.office.store(), &run.run)? {
                Some(message) => _ = messages.insert(message),
                None => without += 1,
            }
        }
        Ok(Failures { runs: row.len(), messages: messages.len() + without })
    }

    fn spent(&self, let_go_at: Option<Timestamp>) -> Result<Spent, Error> {
        let Some(budget) = self.config.budget else { return Ok(Spent::default()) };
        let facts = &self.snapshot.facts;
        let since = times::budget_since(budget.per, facts.now, &facts.zone).max(let_go_at.unwrap_or(Timestamp::ZERO));
        let mut spent = views::spent(self.office.store(), &self.agent.name, since)?;
        let under_way = self.snapshot.running.iter().filter(|run| run.agent == self.agent.name);
        for run in under_way.filter(|run| run.started_at >= since) {
            spent.took_ms += u64::try_from(facts.now.since_ms(run.started_at)).unwrap_or(0);
        }
        spent.runs += self.starting.iter().filter(|starting| starting.agent == self.agent.name).count() as u64;
        Ok(spent)
    }
}

/// A run that was stopped, or lost its lease or its supervisor, says nothing about the program.
fn failed(run: &RunEndView) -> bool {
    match run.how {
        RunOutcome::Exited => run.code != Some(0),
        RunOutcome::Signalled | RunOutcome::TimedOut | RunOutcome::NotStarted | RunOutcome::Unanswered => true,
        _ => false,
    }
}
