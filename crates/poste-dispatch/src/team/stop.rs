//! Stopping is a handshake: nothing new is started, the teammate is asked, finishes or releases what it holds, and
//! answers.
//!
//! A teammate that does not stop in time is ended by its supervisor; if the supervisor does not respond either, both
//! are killed. An answer given on its behalf says so.

use std::time::{Duration, Instant};

use poste_core::fold::Code;
use poste_core::log::{HoldReason, Intent, MessageNo, RunHold, SessionProcess};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::store::tables::{Delivery, State as DeliveryState};
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, RunView};
use poste_core::{Address, Error};
use poste_verbs::draft::{Message, parse_json};
use poste_verbs::secret::Secrets;
use poste_verbs::{Caller, Desk, Result, Verb, note, release, reply, send};
use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::Serialize;

use super::now_instant;
use super::start::resume;
use crate::run::{self, RunFolder, sweep};

/// How long a supervisor may take after its program's grace period to record everything.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(5);

/// A stop of several teammates: each is asked once, then polled until it has stopped or cannot be stopped.
#[derive(Debug)]
pub struct Stop {
    /// The idempotency key of everything that is written: repeating the verb with it resumes.
    id: RecordId,
    reason: Option<String>,
    /// The time to finish or release.
    within: Duration,
    until: Instant,
    /// Stop even those that refuse.
    force: bool,
    secrets: Secrets,
    all: Vec<Stopping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoppedHow {
    /// It answered itself.
    Answered,
    /// It had nothing to do, or finished; Poste answered for it.
    Finished,
    /// It was ended after the timeout.
    Forced,
    /// It refused, so it continues.
    Refused,
    /// It was already stopped.
    Already,
    /// It runs where it cannot be ended from here.
    Left,
}

/// The outcome for one teammate.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Stopped {
    pub agent: Name,
    pub how: StoppedHow,
    /// The shutdown_request, and the shutdown_response.
    pub request: Option<MessageNo>,
    pub response: Option<MessageNo>,
    /// Its active runs.
    pub runs: Vec<Session>,
    /// Messages it held that were released.
    pub returned: Vec<MessageNo>,
    pub why: Option<String>,
}

/// A teammate that was asked.
#[derive(Debug)]
struct Stopping {
    agent: Name,
    request: Option<MessageNo>,
    /// The grace period of its program.
    grace: Duration,
    runs: Vec<Session>,
    held: Vec<MessageNo>,
    answered: Option<Instant>,
    /// When its supervisors were told to end it.
    ended: Option<Instant>,
    /// When supervisors that wait to restart its program were told to end.
    let_go: Option<Instant>,
    killed: bool,
    settled: Option<Stopped>,
}

impl Stop {
    pub(crate) fn new(id: RecordId, reason: Option<String>, within: Duration, force: bool, secrets: Secrets) -> Self {
        Self { id, reason, within, until: now_instant() + within, force, secrets, all: Vec::new() }
    }

    /// Holds the teammate, so that nothing is started for it, and asks it to stop. Returns whether it had to be asked.
    pub(crate) fn begin(&mut self, desk: &mut Desk<'_>, agent: &Name, grace: Duration) -> Result<bool> {
        let running = views::running(desk.office.store(), agent)?;
        if desk.host.run.as_ref().is_some_and(|own| running.iter().any(|run| run.run == *own)) {
            let message = format!("this command runs as {agent}, which cannot stop itself");
            return Err(poste_verbs::Error::refused(message).code("itself").hint(note!(
                "answer the shutdown_request, or just end; its lead can stop it: " [team stop]
            )));
        }
        let was_stopped = !self.hold(desk, agent)?;
        let mut stopping = Stopping {
            agent: agent.clone(),
            request: None,
            grace,
            runs: Vec::new(),
            held: Vec::new(),
            answered: None,
            ended: None,
            let_go: None,
            killed: false,
            settled: None,
        };
        let office = &mut *desk.office;
        let runs = !living(office, &mut stopping)?.is_empty();
        let is_over = was_stopped && !runs && !is_in_session(office, agent)? && waiting(office, agent)?.is_empty();
        match is_over {
            true => stopping.settled = Some(stopping.outcome(StoppedHow::Already, None)),
            false => stopping.request = Some(self.ask(desk, agent)?),
        }
        self.all.push(stopping);
        Ok(!is_over)
    }

    /// Returns whether it was not stopped before.
    fn hold(&self, desk: &mut Desk<'_>, agent: &Name) -> Result<bool> {
        let id = self.id.then(format_args!("hold-{agent}"));
        let agent = Some(agent.clone());
        let hold = RunHold { agent, message: None, why: HoldReason::Stopped, until: None, mail: None };
        let content = self.reason.as_deref().map(|reason| self.secrets.text("reason", reason)).transpose()?;
        let proposal = desk.proposal(Intent::RunHold(hold), content, Some(id))?;
        match desk.decide(&proposal) {
            Ok(_) => Ok(true),
            Err(error) if error.is(Code::NothingToDo) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn ask(&self, desk: &mut Desk<'_>, agent: &Name) -> Result<MessageNo> {
        let payload = serde_json::json!({ "reason": self.reason, "within_seconds": self.within.as_secs_f64() });
        let body = "Finish what you hold, or hand it back with `poste release`. Then answer with \
                    `poste reply NUMBER TEXT --type shutdown_response --done` and end. If you must not stop now, say why with \
                    `poste fail NUMBER --reason TEXT`.";
        let message = Message {
            kind: Some("shutdown_request".parse()?),
            body: body.into(),
            payload: Some(parse_json("payload", payload.to_string())?),
            id: Some(self.id.then(format_args!("ask-{agent}"))),
            secrets: self.secrets,
            ..Message::default()
        };
        let subject = format!("Please stop: {}", self.reason.as_deref().unwrap_or("you are no longer needed"));
        let ask = send::Input { to: vec![Address::Agent(agent.clone())], subject, reply_to: None, message };
        Ok(ask.run(desk)?.answer.sent.number)
    }

    /// Checks once on each that has not stopped. `tell` is called with what is done about it.
    pub fn poll(&mut self, desk: &mut Desk<'_>, mut tell: impl FnMut(&str)) -> Result {
        desk.office.settle()?;
        let mut all = std::mem::take(&mut self.all);
        let looked =
            all.iter_mut().filter(|one| one.settled.is_none()).try_for_each(|one| self.look(desk, one, &mut tell));
        self.all = all;
        looked
    }

    /// Whether each has stopped or cannot be stopped.
    pub fn is_over(&self) -> bool {
        self.all.iter().all(|one| one.settled.is_some())
    }

    pub fn stopped(&self) -> Vec<Stopped> {
        self.all.iter().filter_map(|one| one.settled.clone()).collect()
    }

    fn look(&self, desk: &mut Desk<'_>, one: &mut Stopping, tell: &mut impl FnMut(&str)) -> Result {
        let office = &mut *desk.office;
        let asked = one.request.map(|request| asked(office, request)).transpose()?.flatten();
        let state = asked.as_ref().map(|delivery| delivery.state);
        if state == Some(DeliveryState::Failed) && !self.force && one.ended.is_none() {
            // In its own name: only the hold of this stop is lifted, whoever asked for it.
            let caller = Caller::acting_for(one.agent.clone(), None, desk.caller.via);
            resume(&mut Desk::new(desk.office, &caller, desk.host), &one.agent, "it refused to stop now")?;
            let why = one.request.map(|request| refusal(desk.office, request)).transpose()?.flatten();
            one.settled = Some(one.outcome(StoppedHow::Refused, why));
            return Ok(());
        }
        if state.is_some_and(|state| !state.is_open()) {
            one.answered.get_or_insert_with(now_instant);
        }
        let runs = living(office, one)?;
        let in_session = is_in_session(office, &one.agent)? && one.answered.is_none();
        if runs.is_empty() && !in_session {
            let waiting = waiting(office, &one.agent)?;
            match waiting.is_empty() {
                // A supervisor that has just started notices the hold and ends.
                true if run::is_kept(office.path()?, &one.agent) => {}
                true => one.settled = Some(finish(desk, one)?),
                false => one.let_go(&waiting),
            }
            return Ok(());
        }
        // A teammate that has answered gets only its grace period to end.
        let is_late = now_instant() >= self.until || one.answered.is_some_and(|at| at.elapsed() >= one.grace);
        if !is_late {
            return Ok(());
        }
        if runs.is_empty() {
            let why = "it runs in a session that was not started here: end it there".to_owned();
            one.settled = Some(one.outcome(StoppedHow::Left, Some(why)));
            return Ok(());
        }
        self.end(one, &runs, &supervisors(office, &runs)?, tell);
        Ok(())
    }

    fn end(&self, one: &mut Stopping, runs: &[RunView], ours: &[SessionProcess], tell: &mut impl FnMut(&str)) {
        if ours.is_empty() {
            let hosts: Vec<&str> = runs.iter().map(|run| run.host.as_str()).collect();
            let why = format!("it runs on {}: stop it there", hosts.join(", "));
            one.settled = Some(one.outcome(StoppedHow::Left, Some(why)));
            return;
        }
        match one.ended {
            None => {
                tell(&format!("{} did not stop in time: ending its program", one.agent));
                ours.iter().for_each(|process| signal(process, Signal::TERM));
                one.ended = Some(now_instant());
            }
            Some(at) if !one.killed && at.elapsed() >= one.grace + SUPERVISOR_GRACE => {
                tell(&format!("the supervisor of {} does not respond: killing it", one.agent));
                ours.iter().for_each(|process| signal(process, Signal::KILL));
                one.killed = true;
            }
            Some(_) => {}
        }
    }
}

impl Stopping {
    /// Ends supervisors that wait to restart its program.
    fn let_go(&mut self, waiting: &[SessionProcess]) {
        match self.let_go {
            None => {
                waiting.iter().for_each(|process| signal(process, Signal::TERM));
                self.let_go = Some(now_instant());
            }
            Some(at) if at.elapsed() >= SUPERVISOR_GRACE => {
                waiting.iter().for_each(|process| signal(process, Signal::KILL));
            }
            Some(_) => {}
        }
    }

    fn outcome(&self, how: StoppedHow, why: Option<String>) -> Stopped {
        Stopped {
            agent: self.agent.clone(),
            how,
            request: self.request,
            response: None,
            runs: self.runs.clone(),
            returned: Vec::new(),
            why,
        }
    }
}

/// Its runs with a live supervisor. Runs of dead supervisors are swept first.
fn living(office: &mut Office, one: &mut Stopping) -> Result<Vec<RunView>, Error> {
    let runs = views::running(office.store(), &one.agent)?;
    for run in &runs {
        if !one.runs.contains(&run.run) {
            one.runs.push(run.run.clone());
        }
    }
    for held in views::held_by(office.store(), &one.agent)? {
        let is_of_run = held.session.as_ref().is_some_and(|session| one.runs.contains(session));
        if is_of_run && !one.held.contains(&held.message) {
            one.held.push(held.message);
        }
    }
    let count = runs.len();
    let living = watched(office, runs)?;
    if living.len() == count {
        return Ok(living);
    }
    sweep(office, Some(&one.agent))?;
    watched(office, views::running(office.store(), &one.agent)?)
}

fn watched(office: &Office, runs: Vec<RunView>) -> Result<Vec<RunView>, Error> {
    let folder = office.path()?;
    let mut watched = Vec::new();
    for run in runs {
        if run.presence(office.store())? != Presence::Gone || RunFolder::of(folder, &run.run).is_held() {
            watched.push(run);
        }
    }
    Ok(watched)
}

/// The supervisors of these runs that run on this machine.
fn supervisors(office: &Office, runs: &[RunView]) -> Result<Vec<SessionProcess>, Error> {
    let mut found = Vec::new();
    for run in runs {
        if run.presence(office.store())? == Presence::Running {
            found.push(run.process.clone());
        }
    }
    Ok(found)
}

/// Supervisors of its last runs that still live, waiting to restart its program.
fn waiting(office: &Office, agent: &Name) -> Result<Vec<SessionProcess>, Error> {
    const RUNS_MAX: u32 = 20;
    supervisors(office, &views::latest_runs(office.store(), Some(agent), RUNS_MAX)?)
}

/// Whether it runs in a session that no supervisor started.
fn is_in_session(office: &Office, agent: &Name) -> Result<bool, Error> {
    let session = views::live_session(office.store(), agent)?;
    let Some(session) = session.filter(|session| session.process == Presence::Running) else { return Ok(false) };
    Ok(views::run(office.store(), &session.id)?.is_none())
}

fn asked(office: &Office, request: MessageNo) -> Result<Option<Delivery>, Error> {
    Ok(views::deliveries_of(office.store(), request)?.into_iter().next())
}

/// Why it refused.
fn refusal(office: &Office, request: MessageNo) -> Result<Option<String>, Error> {
    let track = views::track(office.store(), request, office.now()?)?;
    let result = track.and_then(|track| track.deliveries.into_iter().next()).and_then(|delivery| delivery.result);
    Ok(result.map(|result| result.summary.unwrap_or(result.text)))
}

/// Nothing of it runs any more: releases what it still holds, and answers for it if it did not.
fn finish(desk: &mut Desk<'_>, one: &Stopping) -> Result<Stopped> {
    let left = views::held_by(desk.office.store(), &one.agent)?;
    for held in left.into_iter().filter(|held| held.session.as_ref().is_some_and(|session| one.runs.contains(session)))
    {
        let caller = Caller::acting_for(one.agent.clone(), held.session, desk.caller.via);
        let release = release::Input { number: held.message, token: held.token, id: None };
        match release.run(&mut Desk::new(desk.office, &caller, desk.host)) {
            // It is not held any more.
            Err(error) if !error.is_office_fault => {}
            released => drop(released?),
        }
    }
    let office = &*desk.office;
    let mut returned = Vec::new();
    for message in &one.held {
        let is_back = |delivery: &Delivery| delivery.state == DeliveryState::Pending;
        if Some(*message) != one.request && views::deliveries_of(office.store(), *message)?.iter().any(is_back) {
            returned.push(*message);
        }
    }
    let request = one.request.map(|request| asked(office, request)).transpose()?.flatten();
    let is_open = request.as_ref().is_some_and(|delivery| delivery.state.is_open());
    let how = match (one.ended.is_some(), is_open) {
        (true, _) => StoppedHow::Forced,
        (false, true) => StoppedHow::Finished,
        (false, false) => StoppedHow::Answered,
    };
    let mut stopped =
        Stopped { returned, response: request.and_then(|delivery| delivery.answer), ..one.outcome(how, None) };
    if let Some(request) = one.request.filter(|_| is_open) {
        stopped.response = answer(desk, one, request, &stopped)?;
    }
    Ok(stopped)
}

fn answer(desk: &mut Desk<'_>, one: &Stopping, request: MessageNo, stopped: &Stopped) -> Result<Option<MessageNo>> {
    let name = &one.agent;
    let how = match (one.killed, one.ended.is_some(), one.runs.is_empty()) {
        (true, ..) => "did not stop in time, nor did its supervisor; both were killed",
        (_, true, _) => "did not stop in time, so its program was ended",
        (_, _, true) => "had nothing to do and is stopped",
        _ => "finished and is stopped",
    };
    let mut text = format!("{name} {how}.");
    if !stopped.returned.is_empty() {
        let numbers: Vec<String> = stopped.returned.iter().map(|number| format!("#{number}")).collect();
        text.push_str(&format!(" Handed back: {}.", numbers.join(", ")));
    }
    let forced = one.ended.is_some();
    let payload = serde_json::json!({
        "stopped": true, "forced": forced, "killed": one.killed, "runs": one.runs, "returned": stopped.returned,
        "answered_by": "poste",
    });
    let message = Message {
        kind: Some("shutdown_response".parse()?),
        body: text.into_bytes(),
        payload: Some(parse_json("payload", payload.to_string())?),
        ..Message::default()
    };
    let subject = Some(format!("{name} is stopped"));
    let reply = reply::Input { number: request, subject, done: true, token: None, message };
    let caller = Caller::acting_for(name.clone(), None, desk.caller.via);
    match reply.run(&mut Desk::new(desk.office, &caller, desk.host)) {
        Ok(answered) => Ok(Some(answered.answer.sent.number)),
        // It has just answered itself.
        Err(error) if !error.is_office_fault => Ok(asked(desk.office, request)?.and_then(|delivery| delivery.answer)),
        Err(error) => Err(error),
    }
}

/// The process is checked again right before, because its pid may have been reused.
fn signal(process: &SessionProcess, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| Presence::of(Some(process)) == Presence::Running) {
        let _ = kill_process(pid, signal);
    }
}
