//! Stopping is a handshake: nothing new is started, the teammate is asked, finishes or hands back what it holds, and answers.
//!
//! Whoever does not within the time is ended by its supervisor, and if that does not either, with its supervisor. What was
//! answered on its behalf says so.

use std::time::{Duration, Instant};

use poste_core::fold::{Code, Verdict};
use poste_core::log::{
    Author, Content, Ends, EndsHow, HoldReason, Intent, MessageNo, Release, RunHold, Send, SessionProcess, Via,
};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::store::tables::{Delivery, State as DeliveryState};
use poste_core::text::{Name, Session};
use poste_core::views::{self, RunView};
use poste_core::{Address, Error};
use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;

use super::now_instant;
use super::start::resume;
use crate::run::{self, RunFolder, sweep};
use poste_verbs::{Desk, note};

/// What a supervisor takes beyond the grace of its program to write everything down.
const SUPERVISOR_GRACE: Duration = Duration::from_secs(5);

/// Stopping some teammates: each is asked once, then looked at until it has stopped or could not be.
#[derive(Debug)]
pub struct Stop {
    /// Who asks, by which surface.
    by: Author,
    reason: Option<String>,
    /// To finish in, or to hand back.
    within: Duration,
    until: Instant,
    /// A no is not taken for an answer.
    force: bool,
    all: Vec<Stopping>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoppedHow {
    /// It said so itself.
    Answered,
    /// It had nothing to do, or finished; its answer was given for it.
    Finished,
    /// It was ended after its time.
    Forced,
    /// It said no, so it goes on.
    Refused,
    /// It was stopped before.
    Already,
    /// Something of it runs where it cannot be ended from here.
    Left,
}

/// What became of stopping one.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Stopped {
    pub agent: Name,
    pub how: StoppedHow,
    /// The shutdown_request, and the shutdown_response.
    pub request: Option<MessageNo>,
    pub response: Option<MessageNo>,
    /// Runs it had then.
    pub runs: Vec<Session>,
    /// What it held and was handed back.
    pub returned: Vec<MessageNo>,
    pub why: Option<String>,
}

/// One that was asked.
#[derive(Debug)]
struct Stopping {
    agent: Name,
    request: Option<MessageNo>,
    /// Of its program.
    grace: Duration,
    runs: Vec<Session>,
    held: Vec<MessageNo>,
    answered: Option<Instant>,
    /// When its supervisors were told to end it.
    ended: Option<Instant>,
    /// When those that wait to start its program again were.
    let_go: Option<Instant>,
    killed: bool,
    came: Option<Stopped>,
}

impl Stop {
    pub(crate) fn new(by: Author, reason: Option<String>, within: Duration, force: bool) -> Self {
        Self { by, reason, within, until: now_instant() + within, force, all: Vec::new() }
    }

    /// From here on nothing is started for it, and it is asked to stop. Says whether it had to be asked.
    pub(crate) fn begin(
        &mut self,
        desk: &mut Desk<'_>,
        agent: &Name,
        grace: Duration,
    ) -> Result<bool, poste_verbs::Error> {
        let running = views::running(desk.office.store(), agent)?;
        if desk.host.run.as_ref().is_some_and(|own| running.iter().any(|run| run.run == *own)) {
            let message = format!("{agent} is what runs this command: it stops by ending its work");
            return Err(poste_verbs::Error::refused(message).code("itself").hint(note!(
                "answer the shutdown_request, or just end; whoever leads it stops it: " [team stop]
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
            came: None,
        };
        let office = &mut *desk.office;
        let runs = !living(office, &mut stopping)?.is_empty();
        let is_over = was_stopped && !runs && !is_in_session(office, agent)? && waiting(office, agent)?.is_empty();
        match is_over {
            true => stopping.came = Some(stopping.outcome(StoppedHow::Already, None)),
            false => stopping.request = self.ask(desk, agent)?,
        }
        self.all.push(stopping);
        Ok(!is_over)
    }

    /// Says whether it was not stopped before.
    fn hold(&self, desk: &mut Desk<'_>, agent: &Name) -> Result<bool, poste_verbs::Error> {
        let agent = Some(agent.clone());
        let hold = RunHold { agent, message: None, why: HoldReason::Stopped, until: None, mail: None };
        let content = self.reason.as_deref().map(|reason| Content { body: reason.into(), ..Content::default() });
        let proposal = desk.proposal(Intent::RunHold(hold), content, None)?;
        match desk.decide(&proposal) {
            Ok(_) => Ok(true),
            Err(error) if error.is(Code::NothingToDo) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn ask(&self, desk: &mut Desk<'_>, agent: &Name) -> Result<Option<MessageNo>, poste_verbs::Error> {
        let kind = "shutdown_request".parse().expect("a built-in type");
        let mail = Send::plain(kind, vec![Address::Agent(agent.clone())]);
        let payload = serde_json::json!({ "reason": self.reason, "within_seconds": self.within.as_secs_f64() });
        let content = Content {
            subject: format!("Please stop: {}", self.reason.as_deref().unwrap_or("you are not needed any more")),
            body: "Finish what you hold, or hand it back with `poste release`. Then answer with \
                   `poste reply NUMBER TEXT --type shutdown_response --done` and end. If you must not stop now, say why with \
                   `poste fail NUMBER --reason TEXT`."
                .into(),
            payload: RawValue::from_string(payload.to_string()).ok(),
            ..Content::default()
        };
        let proposal = desk.proposal(Intent::Send(mail), Some(content), None)?;
        Ok(desk.decide(&proposal)?.1.message())
    }

    /// Looks once at each that has not stopped. `tell` hears of whatever is done about one.
    pub fn poll(&mut self, office: &mut Office, mut tell: impl FnMut(&str)) -> Result<(), Error> {
        office.settle()?;
        let mut all = std::mem::take(&mut self.all);
        let looked =
            all.iter_mut().filter(|one| one.came.is_none()).try_for_each(|one| self.look(office, one, &mut tell));
        self.all = all;
        looked
    }

    /// Whether each has stopped, or could not be.
    pub fn is_over(&self) -> bool {
        self.all.iter().all(|one| one.came.is_some())
    }

    pub fn stopped(&self) -> Vec<Stopped> {
        self.all.iter().filter_map(|one| one.came.clone()).collect()
    }

    fn look(&self, office: &mut Office, one: &mut Stopping, tell: &mut impl FnMut(&str)) -> Result<(), Error> {
        let asked = one.request.map(|request| asked(office, request)).transpose()?.flatten();
        let state = asked.as_ref().map(|delivery| delivery.state);
        if state == Some(DeliveryState::Failed) && !self.force && one.ended.is_none() {
            resume(office, &self.by, &one.agent, "it said that it must not stop now")?;
            let why = one.request.map(|request| said(office, request)).transpose()?.flatten();
            one.came = Some(one.outcome(StoppedHow::Refused, why));
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
                // One that has just been started finds out by itself that nothing is, and is then gone.
                true if run::is_kept(office.path()?, &one.agent) => {}
                true => one.came = Some(finish(office, one, self.by.via)?),
                false => one.let_go(&waiting),
            }
            return Ok(());
        }
        // Whoever answered has said that it ends, and gets no more than the time to do so.
        let is_late = now_instant() >= self.until || one.answered.is_some_and(|at| at.elapsed() >= one.grace);
        if !is_late {
            return Ok(());
        }
        if runs.is_empty() {
            let why = "it runs in a session of its own, which nobody here started: end it there".to_owned();
            one.came = Some(one.outcome(StoppedHow::Left, Some(why)));
            return Ok(());
        }
        self.end(one, &runs, &supervisors(office, &runs)?, tell);
        Ok(())
    }

    fn end(&self, one: &mut Stopping, runs: &[RunView], ours: &[SessionProcess], tell: &mut impl FnMut(&str)) {
        if ours.is_empty() {
            let hosts: Vec<&str> = runs.iter().map(|run| run.host.as_str()).collect();
            let why = format!("it runs on {}: stop it there", hosts.join(", "));
            one.came = Some(one.outcome(StoppedHow::Left, Some(why)));
            return;
        }
        match one.ended {
            None => {
                tell(&format!("{} did not stop in time: its program is ended", one.agent));
                ours.iter().for_each(|process| signal(process, Signal::TERM));
                one.ended = Some(now_instant());
            }
            Some(at) if !one.killed && at.elapsed() >= one.grace + SUPERVISOR_GRACE => {
                tell(&format!("what watches over {} does not answer either: it is killed", one.agent));
                ours.iter().for_each(|process| signal(process, Signal::KILL));
                one.killed = true;
            }
            Some(_) => {}
        }
    }
}

impl Stopping {
    /// One that waits to start its program again has nothing to wait for.
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

/// Its runs that are watched over; what the dead left is swept first.
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

/// What watches over these runs, as far as it runs here.
fn supervisors(office: &Office, runs: &[RunView]) -> Result<Vec<SessionProcess>, Error> {
    let mut found = Vec::new();
    for run in runs {
        if run.presence(office.store())? == Presence::Running {
            found.push(run.process.clone());
        }
    }
    Ok(found)
}

/// What watched over its last runs and still lives, though none of them does.
fn waiting(office: &Office, agent: &Name) -> Result<Vec<SessionProcess>, Error> {
    const RUNS_MAX: u32 = 20;
    supervisors(office, &views::latest_runs(office.store(), Some(agent), RUNS_MAX)?)
}

/// Whether it runs in a session that nobody here started for it.
fn is_in_session(office: &Office, agent: &Name) -> Result<bool, Error> {
    let session = views::live_session(office.store(), agent)?;
    let Some(session) = session.filter(|session| session.process == Presence::Running) else { return Ok(false) };
    Ok(views::run(office.store(), &session.id)?.is_none())
}

fn asked(office: &Office, request: MessageNo) -> Result<Option<Delivery>, Error> {
    Ok(views::deliveries_of(office.store(), request)?.into_iter().next())
}

/// Why it said no.
fn said(office: &Office, request: MessageNo) -> Result<Option<String>, Error> {
    let track = views::track(office.store(), request, office.now()?)?;
    let result = track.and_then(|track| track.deliveries.into_iter().next()).and_then(|delivery| delivery.result);
    Ok(result.map(|result| result.summary.unwrap_or(result.text)))
}

/// Nothing of it runs any more: what it still holds is handed back, and if it did not answer, it is answered for it.
fn finish(office: &mut Office, one: &Stopping, via: Via) -> Result<Stopped, Error> {
    let left = views::held_by(office.store(), &one.agent)?;
    for held in left.into_iter().filter(|held| held.session.as_ref().is_some_and(|session| one.runs.contains(session)))
    {
        let release = Release { message: held.message, token: held.token };
        let by = Author { actor: one.agent.clone(), session: held.session, via };
        let handed_back = office.proposal(&by, Intent::Release(release), None);
        poste_config::propose(office, &handed_back)?;
    }
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
        stopped.response = answer(office, one, request, &stopped, via)?;
    }
    Ok(stopped)
}

fn answer(
    office: &mut Office,
    one: &Stopping,
    request: MessageNo,
    stopped: &Stopped,
    via: Via,
) -> Result<Option<MessageNo>, Error> {
    let kind = "shutdown_response".parse().expect("a built-in type");
    let ends = Ends { message: request, how: EndsHow::Replied, token: None };
    let mail = Send { reply_to: Some(request), ends: Some(ends), ..Send::plain(kind, Vec::new()) };
    let name = &one.agent;
    let how = match (one.killed, one.ended.is_some(), one.runs.is_empty()) {
        (true, ..) => "did not stop in time, nor did what watched over it; both were killed",
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
    let content = Content {
        subject: format!("{name} is stopped"),
        body: text.as_str().into(),
        payload: RawValue::from_string(payload.to_string()).ok(),
        ..Content::default()
    };
    let proposal = office.proposal(&Author::new(name.clone(), via), Intent::Send(mail), Some(content));
    match poste_config::propose(office, &proposal)?.verdict {
        Verdict::Accepted(effect) => Ok(effect.message()),
        // It answered this very moment.
        Verdict::Rejected(_) => Ok(asked(office, request)?.and_then(|delivery| delivery.answer)),
    }
}

/// Asked anew just before: its number may be somebody else's by now.
fn signal(process: &SessionProcess, signal: Signal) {
    let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid.filter(|_| Presence::of(Some(process)) == Presence::Running) {
        let _ = kill_process(pid, signal);
    }
}
