//! The dispatch loop, woken by changes of the office, by supervisors that end, and by requests to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use poste_config::{Mode, Runners};
use poste_core::error::Error;
use poste_core::fold::{Code, Verdict};
use poste_core::log::{HoldReason, Intent, MessageNo, RunOutcome, RunResume, Via};
use poste_core::office::{Office, Place, Stop, head};
use poste_core::store::{Interest, Interrupt};
use poste_core::text::{Name, Session};
use poste_core::time::Timestamp;
use poste_core::views::{self, RunView};
use rustix::process::{Pid, Signal, kill_process};
use schemars::JsonSchema;
use serde::Serialize;

use super::choose::{Hold, Start, choose};
use super::facts::{Own, Rest, Scope, Starting, read_facts_with};
use super::hold;
use crate::notify::{self, Line, WatchOptions, Watcher};
use crate::run::{self, NOT_TAKEN};
use crate::{speaker, team};
use poste_verbs::actions::Carrier;
use poste_verbs::{register, workflow};

/// Maximum time between two passes: changed files and supervisors on other machines do not ring.
const LOOK_PERIOD: Duration = Duration::from_secs(2);
/// How often the runs of dead supervisors are swept.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);
/// How long after an agent was rung for a lost ring it is rung again, if it is still owed one.
const RING_AGAIN_PERIOD: Duration = Duration::from_secs(60);
/// How long the configuration is cached.
const CONFIG_PERIOD: Duration = Duration::from_millis(250);
/// The first pause, for a message that another supervisor had and for an agent whose supervisor could not run.
const REST_MS: i64 = 1_000;
const REST_MS_MAX: i64 = 60_000;

/// What the loop reports to its caller.
#[derive(Debug)]
pub enum Report<'t> {
    Event(Event),
    /// A pass over the office is complete.
    Looked(&'t Office, &'t Runners),
}

/// Receives what the loop reports. After a pass it may say how soon it wants the next one.
pub type Listener<'l> = dyn FnMut(Report<'_>) -> Option<Duration> + 'l;

/// An event of the dispatcher.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started {
        agent: Name,
        messages: Vec<MessageNo>,
        /// The supervisor.
        pid: u32,
    },
    Ended {
        agent: Name,
        messages: Vec<MessageNo>,
        run: Session,
        how: RunOutcome,
        code: Option<u8>,
        took_ms: u64,
        /// Its messages that are not done: a program may exit with 0 and without an answer.
        undone: Vec<MessageNo>,
    },
    /// Another supervisor was faster.
    NotTaken {
        agent: Name,
        messages: Vec<MessageNo>,
    },
    CouldNotRun {
        agent: Name,
        messages: Vec<MessageNo>,
        reason: String,
    },
    Held {
        #[serde(flatten)]
        hold: Hold,
        /// The alert about it.
        mail: Option<MessageNo>,
    },
    Resumed {
        agent: Name,
    },
    Registered {
        agent: Name,
    },
    /// A rule sent a notification, or could not.
    Watched {
        line: Line,
    },
    /// A supervisor died; the rest of its run was ended.
    Lost {
        run: Session,
    },
    Trouble {
        text: String,
    },
}

/// When the loop ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    Stopped,
    /// Nothing can be started and none of its runs is active.
    Idle,
    /// Everything that can be started now has been.
    Started,
}

/// Lets a signal handler or another thread stop the loop.
#[derive(Debug, Clone, Default)]
pub struct Stopper(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    news: Mutex<News>,
    arrived: Condvar,
    /// Ends the thread that waits for changes.
    over: Interrupt,
}

#[derive(Debug, Default)]
struct News {
    rung: bool,
    exited: Vec<(u32, Option<ExitStatus>)>,
    /// Events of the rules.
    lines: Vec<Line>,
    /// Number of requests to stop.
    asked: u32,
    /// End immediately.
    leaves: bool,
}

impl Stopper {
    /// Starts nothing more, and ends once its runs have ended; a second request stops those.
    pub fn ask(&self) {
        self.0.put(|news| news.asked += 1);
    }

    /// Ends it immediately; its runs continue.
    pub fn leave(&self) {
        self.0.put(|news| news.leaves = true);
    }
}

impl Shared {
    fn news(&self) -> MutexGuard<'_, News> {
        self.news.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, change: impl FnOnce(&mut News)) {
        change(&mut self.news());
        self.arrived.notify_all();
    }

    /// Waits for news, and takes it.
    fn wait(&self, patience: Duration) -> News {
        let news = self.news();
        let nothing = |news: &mut News| {
            !news.rung && news.exited.is_empty() && news.lines.is_empty() && news.asked == 0 && !news.leaves
        };
        let (mut news, _) =
            self.arrived.wait_timeout_while(news, patience, nothing).unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *news)
    }
}

/// Starts supervisors for the pending mail of one office.
pub struct Dispatcher<'l> {
    place: Place,
    office: Office,
    folder: PathBuf,
    /// The path of this program, which is started as a supervisor and to ring.
    program: PathBuf,
    listener: &'l mut Listener<'l>,
    only: Vec<Name>,
    stopper: Stopper,
    /// It also sends the notifications of `[[on]]` rules.
    notifies: bool,
    /// The first request to stop also stops its runs.
    stops_runs: bool,
    own: Own,
    config: Option<(Instant, Runners)>,
    /// The last error, so that it is reported once.
    trouble: Option<String>,
    /// What workflows wait for, as already reported.
    waiting: BTreeSet<String>,
    swept: Option<Instant>,
    /// The newest message that each resident was rung for.
    rung: BTreeMap<Name, MessageNo>,
    /// When each agent was rung for a lost ring, and its oldest message then.
    rung_again: BTreeMap<Name, (MessageNo, Instant)>,
    carrier: Carrier,
    asked: u32,
}

impl std::fmt::Debug for Dispatcher<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dispatcher").field("place", &self.place).field("only", &self.only).finish_non_exhaustive()
    }
}

impl<'l> Dispatcher<'l> {
    pub fn new(place: Place, office: Office, program: PathBuf, listener: &'l mut Listener<'l>) -> Result<Self, Error> {
        let folder = office.path()?;
        let folder = folder.canonicalize().map_err(|error| Error::Io { path: folder.to_owned(), source: error })?;
        // It acts for no agent, so it may ring all of them.
        let carrier = Carrier { program: Some(program.clone()), remote: true, ..Carrier::default() };
        Ok(Self {
            place,
            office,
            folder,
            program,
            listener,
            only: Vec::new(),
            stopper: Stopper::default(),
            notifies: false,
            stops_runs: false,
            own: Own::default(),
            config: None,
            trouble: None,
            waiting: BTreeSet::new(),
            swept: None,
            rung: BTreeMap::new(),
            rung_again: BTreeMap::new(),
            carrier,
            asked: 0,
        })
    }

    pub fn only(&mut self, agents: Vec<Name>) -> &mut Self {
        self.only = agents;
        self
    }

    pub fn notifies(&mut self, notifies: bool) -> &mut Self {
        self.notifies = notifies;
        self
    }

    pub fn stops_runs(&mut self, stops: bool) -> &mut Self {
        self.stops_runs = stops;
        self
    }

    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Runs the loop until it ends.
    pub fn run(&mut self, until: Until) -> Result<(), Error> {
        let watcher = match until {
            Until::Stopped if self.notifies => Some(Watcher::start(self.rules())?),
            _ => None,
        };
        let catches_up = self.notifies && until == Until::Idle;
        if catches_up {
            notify::begin_rules(&self.rules())?;
            self.tell_lines();
        }
        let bell = self.listen();
        let ran = self.turn(until);
        self.stopper.0.over.raise();
        // The thread ends on its own and holds nothing, so it is not joined.
        drop(bell);
        let watched = watcher.map_or(Ok(()), Watcher::stop);
        ran?;
        watched?;
        if catches_up {
            // After the loop, so that its holds and failures are reported, too.
            notify::catch_up(&self.rules())?;
        }
        self.tell_lines();
        Ok(())
    }

    /// The options for the `[[on]]` rules of this machine.
    fn rules(&self) -> WatchOptions {
        let shared = Arc::clone(&self.stopper.0);
        WatchOptions {
            place: self.place.clone(),
            speaker: None,
            only: Vec::new(),
            carrier: self.carrier.clone(),
            report: Arc::new(move |line: &Line| shared.put(|news| news.lines.push(line.clone()))),
        }
    }

    fn tell_lines(&mut self) {
        let lines = std::mem::take(&mut self.stopper.0.news().lines);
        lines.into_iter().for_each(|line| self.tell(Event::Watched { line }));
    }

    fn tell(&mut self, event: Event) {
        (self.listener)(Report::Event(event));
    }

    fn turn(&mut self, until: Until) -> Result<(), Error> {
        loop {
            let (started, look_again) = match self.asked {
                0 => match self.look() {
                    Ok(looked) => looked,
                    Err(error) if until == Until::Stopped => {
                        self.tolerate(error)?;
                        (0, None)
                    }
                    Err(error) => return Err(error),
                },
                _ => (0, None),
            };
            let residents = self.config.as_ref().map(|(_, runners)| runners);
            let is_resident = |name: &Name| {
                residents.and_then(|runners| runners.agents.get(name)).is_some_and(|agent| agent.mode == Mode::Resident)
            };
            // A resident is not waited for, unless it was asked to stop.
            let is_left = |starting: &Starting| is_resident(&starting.agent) && !self.stops();
            let is_idle = self.own.starting.iter().all(is_left);
            let ends = match until {
                Until::Started => true,
                Until::Idle => started == 0 && is_idle,
                Until::Stopped => false,
            };
            if ends || (self.asked > 0 && is_idle) {
                return Ok(());
            }
            let pause = match look_again {
                Some(at) => Duration::from_millis(u64::try_from(at.since_ms(self.office.now()?)).unwrap_or(0)),
                None => LOOK_PERIOD,
            };
            let news = self.stopper.0.wait(pause.clamp(Duration::from_millis(1), LOOK_PERIOD));
            news.lines.into_iter().for_each(|line| self.tell(Event::Watched { line }));
            for (pid, status) in news.exited {
                self.ended(pid, status)?;
            }
            if news.leaves {
                return Ok(());
            }
            if news.asked > 0 {
                self.asked += news.asked;
                if self.stops() {
                    self.stop_runs();
                }
            }
        }
    }

    /// One pass: chooses what to do and does it. Returns the number of changes, and when to look again.
    fn look(&mut self) -> Result<(usize, Option<Timestamp>), Error> {
        self.office.settle()?;
        if self.swept.is_none_or(|at| at.elapsed() >= SWEEP_PERIOD) {
            self.sweep()?;
            self.ring_again()?;
            self.swept = Some(now_instant());
        }
        let advanced = self.advance()?;
        self.carry_out();
        let runners = self.runners()?;
        self.trouble = None;
        self.register(&runners)?;
        let now = self.office.now()?;
        self.own.resting.retain(|rest| rest.until.plus_ms(REST_MS_MAX) > now);
        let snapshot = read_facts_with(&self.office, &runners, Scope { only: &self.only, whole: false }, &self.own)?;
        let choice = choose(&snapshot.facts);
        let mut changed = 0;
        for hold in &choice.holds {
            if let Some(mail) = hold::write(&mut self.office, &runners, hold)? {
                self.tell(Event::Held { hold: hold.clone(), mail });
            }
        }
        for (agent, why) in &choice.resumes {
            changed += usize::from(self.resume(agent, *why)?);
        }
        for ring in &choice.rings {
            self.ring(ring);
        }
        for start in &choice.starts {
            changed += 1;
            self.start(start)?;
        }
        self.carry_out();
        let shown_again = (self.listener)(Report::Looked(&self.office, &runners));
        let shown_again = shown_again.map(|after| now.plus_ms(i64::try_from(after.as_millis()).unwrap_or(i64::MAX)));
        // A resume or a workflow step may allow more starts: look again immediately.
        let at_once = changed > choice.starts.len() || advanced;
        let look_again = [choice.look_again, shown_again, at_once.then_some(now)].into_iter().flatten().min();
        Ok((changed + usize::from(at_once), look_again))
    }

    /// Carries out the actions of its own records and ticks. What workflows wait for is reported by the next pass.
    fn carry_out(&mut self) {
        for text in self.carrier.carry_out(&mut self.office).failures {
            self.tell(Event::Trouble { text });
        }
    }

    /// Ends the runs of dead supervisors, and notifies leads of stuck agents.
    fn sweep(&mut self) -> Result<(), Error> {
        // Within a run, the sweep could end this very process.
        if std::env::var_os(run::RUN).is_some() {
            return Ok(());
        }
        for run in run::sweep(&mut self.office, None)?.lost {
            self.tell(Event::Lost { run });
        }
        team::alerts(&mut self.office)?;
        Ok(())
    }

    /// Returns whether workflows wrote anything. What they wait for is found in every pass, and reported once.
    fn advance(&mut self) -> Result<bool, Error> {
        let advanced = workflow::advance(&mut self.office, Via::Dispatch)?;
        for text in advanced.waiting {
            if self.waiting.insert(text.clone()) {
                self.tell(Event::Trouble { text });
            }
        }
        Ok(advanced.records > 0)
    }

    /// Rings for lost rings: the process that committed may have died before it rang.
    fn ring_again(&mut self) -> Result<(), Error> {
        self.rung_again.retain(|_, (_, at)| at.elapsed() < RING_AGAIN_PERIOD);
        let is_rung = |agent: &Name, oldest| self.rung_again.get(agent).is_some_and(|(rung, _)| *rung == oldest);
        let rung = self.carrier.ring_owed(&self.office, is_rung)?;
        self.rung_again.extend(rung.into_iter().map(|(agent, oldest)| (agent, (oldest, now_instant()))));
        Ok(())
    }

    fn runners(&mut self) -> Result<Runners, Error> {
        if let Some((at, runners)) = &self.config
            && at.elapsed() < CONFIG_PERIOD
        {
            return Ok(runners.clone());
        }
        let runners = poste_config::runners(&self.office)?;
        self.config = Some((now_instant(), runners.clone()));
        Ok(runners)
    }

    /// Reports a passing error once. Until it passes nothing is started, because supervisors would fail as well.
    fn tolerate(&mut self, error: Error) -> Result<(), Error> {
        use Error::{Busy, Config, DiskFull, WalFull};
        if !matches!(error, Busy { .. } | Config { .. } | DiskFull { .. } | WalFull { .. }) {
            return Err(error);
        }
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            self.tell(Event::Trouble { text: text.clone() });
            self.trouble = Some(text);
        }
        Ok(())
    }

    /// Registers configured agents, because others cannot receive mail.
    fn register(&mut self, runners: &Runners) -> Result<(), Error> {
        for (name, config) in &runners.agents {
            let is_wanted = self.only.is_empty() || self.only.contains(name);
            if !is_wanted || !config.trusted || self.office.agent(name)?.is_some() {
                continue;
            }
            if register::configured(&mut self.office, runners, name, Via::Dispatch)? {
                self.tell(Event::Registered { agent: name.clone() });
            }
        }
        Ok(())
    }

    /// Lifts only the hold that no longer applies: messages that are held as a loop stay held.
    fn resume(&mut self, agent: &Name, why: HoldReason) -> Result<bool, Error> {
        let intent = Intent::RunResume(RunResume { agent: agent.clone(), message: None, why: Some(why) });
        let proposal = speaker::proposal(&self.office, agent, intent, None);
        let resumed = matches!(poste_config::propose(&mut self.office, &proposal)?.verdict, Verdict::Accepted(_));
        if resumed {
            self.tell(Event::Resumed { agent: agent.clone() });
        }
        Ok(resumed)
    }

    fn ring(&mut self, ring: &Start) {
        let newest = ring.messages.iter().max().copied();
        if self.rung.get(&ring.agent).copied() < newest {
            self.rung.extend(newest.map(|newest| (ring.agent.clone(), newest)));
            // If the ring fails, the agent finds its mail when it looks.
            let _ = self.carrier.ring_resident(&self.office, &ring.agent);
        }
    }

    fn start(&mut self, start: &Start) -> Result<(), Error> {
        let spawned = run::supervisor(&self.program, &self.folder, &start.agent, &start.messages).spawn();
        let Start { agent, messages } = start.clone();
        match spawned {
            Ok(child) => {
                let pid = child.id();
                self.await_end(child);
                let at = self.office.now()?;
                self.own.starting.push(Starting { pid, agent: agent.clone(), messages: messages.clone(), at });
                self.tell(Event::Started { agent, messages, pid });
            }
            Err(error) => {
                self.rest(&agent, None)?;
                self.tell(Event::CouldNotRun { agent, messages, reason: error.to_string() });
            }
        }
        Ok(())
    }

    /// One small thread per supervisor: it sleeps until the supervisor ends, and reaps it.
    fn await_end(&self, mut child: Child) {
        let shared = Arc::clone(&self.stopper.0);
        std::thread::spawn(move || {
            let status = child.wait().ok();
            shared.put(|news| news.exited.push((child.id(), status)));
        });
    }

    fn ended(&mut self, pid: u32, status: Option<ExitStatus>) -> Result<(), Error> {
        let Some(index) = self.own.starting.iter().position(|starting| starting.pid == pid) else { return Ok(()) };
        let Starting { agent, messages, .. } = self.own.starting.swap_remove(index);
        let code = status.and_then(|status| status.code());
        if code == Some(NOT_TAKEN.into()) {
            for message in &messages {
                self.rest(&agent, Some(*message))?;
            }
            if messages.is_empty() {
                self.rest(&agent, None)?;
            }
            self.tell(Event::NotTaken { agent, messages });
            return Ok(());
        }
        match self.run_of(&agent, pid)? {
            Some(RunView { run, how: Some(how), code, took_ms, messages, .. }) => {
                self.own.resting.retain(|rest| rest.agent != agent);
                let took_ms = took_ms.unwrap_or(0);
                let undone = views::undone(self.office.store(), &agent, &messages)?;
                self.tell(Event::Ended { agent, messages, run, how, code, took_ms, undone });
            }
            // Its supervisor was killed: sweep its run in the next pass, not only after the period.
            Some(RunView { run, messages, started_at, .. }) => {
                self.swept = None;
                let took_ms = u64::try_from(self.office.now()?.since_ms(started_at)).unwrap_or(0);
                let (how, undone) = (RunOutcome::Lost, messages.clone());
                self.tell(Event::Ended { agent, messages, run, how, code: None, took_ms, undone });
            }
            None => {
                self.rest(&agent, None)?;
                let reason = match status {
                    Some(status) => format!("its supervisor ended before the run started ({status})"),
                    None => "its supervisor was lost".to_owned(),
                };
                self.tell(Event::CouldNotRun { agent, messages, reason });
            }
        }
        Ok(())
    }

    fn run_of(&self, agent: &Name, pid: u32) -> Result<Option<RunView>, Error> {
        const RECENT: u32 = 64;
        let runs = views::latest_runs(self.office.store(), Some(agent), RECENT)?;
        Ok(runs.into_iter().find(|run| run.supervisor == pid))
    }

    /// Delays the next start after a failed one, a little longer each time.
    fn rest(&mut self, agent: &Name, message: Option<MessageNo>) -> Result<(), Error> {
        let now = self.office.now()?;
        let before = self.own.resting.iter().position(|rest| rest.agent == *agent && rest.message == message);
        let times = before.map_or(0, |index| self.own.resting.swap_remove(index).times);
        let until = now.plus_ms((REST_MS << times.min(10)).min(REST_MS_MAX));
        self.own.resting.push(Rest { agent: agent.clone(), message, until, times: times + 1 });
        Ok(())
    }

    /// Whether its runs are stopped with it.
    fn stops(&self) -> bool {
        self.asked > 1 || (self.stops_runs && self.asked > 0)
    }

    /// Asks its own supervisors to stop; each releases what it holds and records that.
    fn stop_runs(&self) {
        for starting in &self.own.starting {
            // It has not been reaped yet, so the pid is still its own.
            if let Some(pid) = i32::try_from(starting.pid).ok().and_then(Pid::from_raw) {
                let _ = kill_process(pid, Signal::TERM);
            }
        }
    }

    /// A thread that waits for changes, with its own handle of the office.
    fn listen(&self) -> std::thread::JoinHandle<()> {
        let (place, shared) = (self.place.clone(), Arc::clone(&self.stopper.0));
        let carrier = self.carrier.clone();
        std::thread::spawn(move || {
            const PATIENCE: Duration = Duration::from_secs(1);
            // Without this thread the loop still makes periodic passes.
            let Ok(mut office) = poste_config::open(&place) else { return };
            let mut seen = head(office.store()).ok();
            while !shared.over.is_raised() {
                let changed = office.wait_unless(&Interest::everything(), None, Stop::Raised(&shared.over), |office| {
                    // A tick may have been recorded here.
                    carrier.carry_out(office);
                    let now = head(office.store())?;
                    Ok((Some(now) != seen).then_some(now))
                });
                match changed {
                    Ok(Some(now)) => {
                        seen = Some(now);
                        shared.put(|news| news.rung = true);
                    }
                    Ok(None) => {}
                    Err(_) => shared.over.sleep(PATIENCE),
                }
            }
        })
    }
}

/// Whether a refusal means that another process has already done it.
pub(super) fn is_moot(code: Code) -> bool {
    matches!(code, Code::NothingToDo | Code::AlreadyClaimed | Code::Ended | Code::Archived | Code::Retired)
}

fn now_instant() -> Instant {
    Instant::now()
}
