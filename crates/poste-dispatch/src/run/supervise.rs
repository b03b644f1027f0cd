//! The supervisor of a run: one process that does nothing else.

mod finish;
mod prepare;

use std::io;
use std::mem::ManuallyDrop;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use poste_config::{AgentConfig, AnswerBy, Mode, Preset};
use poste_core::fold::{Claimed, Effect, Outcome, Verdict};
use poste_core::log::{Author, Content, Intent, MessageNo, Proof, Proposal, RunOutcome, RunStart, Via};
use poste_core::office::{Office, Place};
use poste_core::store::{host_name, processes};
use poste_core::text::{Name, RecordId, Session};
use poste_core::views::{self, Holder, MessageView};
use poste_core::{Error, Timestamp, limits};
use poste_run::{HeldBack, Keep, StartError, Watch, Watcher};

use finish::result;
use prepare::Prepared;

use poste_verbs::actions::Carrier;
use poste_verbs::{Host, gates, register};

use super::conversation::{self, Conversation};
use super::folder::{self, About, Ended, RunFolder};
use super::guard::{Guard, Terms};
use super::outcome::ProgramResult;
use super::preset;
use super::sweep::{self, sweep};

/// How long it retries to record its start, and its end, while the office cannot be written.
const START_PATIENCE: Duration = Duration::from_secs(30);
const END_PATIENCE: Duration = Duration::from_secs(600);
/// How long a new run waits for one that lost the message to end.
const LETTING_GO: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// How much output is kept in memory: the answer is in there.
const STDOUT: Keep = Keep { head: 4 * 1024 * 1024, tail: 64 * 1024 };
/// How much output is kept in the folder.
const TRANSCRIPT: Keep = Keep { head: 256 * 1024, tail: 768 * 1024 };
const TRANSCRIPT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// The kernel accepts no longer argument and no longer variable.
const WORD_BYTES_MAX: usize = 120 * 1024;
/// The pause before a resident is restarted, doubled each time …
const RESTART: Duration = Duration::from_secs(1);
const RESTART_MAX: Duration = Duration::from_secs(300);
/// … unless it ran for this long.
const RAN_WELL: Duration = Duration::from_secs(60);

/// What a supervisor was started for.
#[derive(Debug, Clone)]
pub struct RunRequest {
    pub agent: Name,
    /// Empty: to look through the inbox.
    pub messages: Vec<MessageNo>,
    pub run: Session,
    /// The path of this program, which is also the step between the supervisor and the agent's program.
    pub program: PathBuf,
}

/// The outcome of a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunResult {
    /// It was started, and its end is in the log.
    Ended(RunOutcome),
    /// It did not get the messages: another supervisor has them, or the concurrency limit is reached.
    NotTaken(String),
}

/// Why nothing was started.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("{0}")]
    Office(#[from] Error),
    #[error("no runner for {0}")]
    NotConfigured(Name),
    #[error("the command for {0} is not trusted here")]
    Untrusted(Name),
    #[error("{0}")]
    Refused(String),
    #[error("{0}: {1}")]
    Folder(PathBuf, io::Error),
}

/// Runs the program of an agent to its end. The reason for a failed start is also written to a file of the agent,
/// because the caller may not read it.
pub fn supervise(place: &Place, request: &RunRequest, host: &Host) -> Result<RunResult, RunError> {
    let result = attempt(place, request, host);
    match &result {
        Ok(RunResult::Ended(_)) => folder::forget_trouble(&place.path, &request.agent),
        Ok(RunResult::NotTaken(_)) => {}
        Err(error) => folder::note_trouble(&place.path, &request.agent, &error.to_string()),
    }
    result
}

fn attempt(place: &Place, request: &RunRequest, host: &Host) -> Result<RunResult, RunError> {
    let own = |failed: io::Error| RunError::Folder(PathBuf::from("/proc/self"), failed);
    // Held to the end of the process: whatever signal arrives, the outcome is recorded first, and then reported by the
    // exit code.
    let signals = ManuallyDrop::new(HeldBack::new().map_err(own)?);
    poste_run::adopt_orphans().map_err(own)?;
    let mut office = open(place)?;
    let runners = poste_config::runners(&office)?;
    let config = runners.agents.get(&request.agent).cloned();
    let config = config.ok_or_else(|| RunError::NotConfigured(request.agent.clone()))?;
    if !config.trusted {
        return Err(RunError::Untrusted(request.agent.clone()));
    }
    // What is left of a dead run must have ended before the next one starts.
    patiently(START_PATIENCE, || sweep(&mut office, Some(&request.agent)))?;
    let carrier = Carrier {
        program: Some(request.program.clone()),
        caller: Some(request.agent.clone()),
        session: Some(request.run.clone()),
        ..Carrier::default()
    };
    // The agent may be configured but not registered yet.
    patiently(START_PATIENCE, || register::configured(&mut office, &runners, &request.agent, Via::Dispatch))?;
    carrier.carry_out(&mut office);
    let mut supervisor = Supervisor { place, office, config, request, host, signals: &signals, carrier };
    if supervisor.config.mode == Mode::Resident { supervisor.keep_running() } else { supervisor.once(&request.run) }
}

/// Whether the error may pass soon.
fn is_passing(error: &Error) -> bool {
    matches!(
        error,
        Error::Busy { .. } | Error::WalFull { .. } | Error::Unknown { .. } | Error::DiskFull { .. } | Error::Io { .. }
    )
}

/// Retries until it succeeds, fails with an error that does not pass, or the time is up.
fn patiently<T>(patience: Duration, mut step: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let until = Instant::now() + patience;
    let mut pause = PAUSE;
    loop {
        match step() {
            Err(error) if is_passing(&error) && Instant::now() < until => {
                std::thread::sleep(pause);
                pause = (pause * 2).min(PAUSE_MAX);
            }
            result => return result,
        }
    }
}

fn open(place: &Place) -> Result<Office, Error> {
    patiently(START_PATIENCE, || {
        let mut office = poste_config::open(place)?;
        poste_config::sync_policy(&mut office)?;
        office.settle()?;
        Ok(office)
    })
}

struct Supervisor<'a> {
    place: &'a Place,
    office: Office,
    config: AgentConfig,
    request: &'a RunRequest,
    host: &'a Host,
    signals: &'a HeldBack,
    carrier: Carrier,
}

/// A run that is in the log.
struct Started {
    record: RecordId,
    claimed: Claimed,
    at: Timestamp,
}

/// The state of a run.
struct Run {
    run: Session,
    folder: RunFolder,
    about: About,
    /// The id of the record that started it.
    record: RecordId,
    claimed: Claimed,
    lease_ms: i64,
    /// The boot clock before its start was published.
    boot_ms: i64,
    messages: Vec<MessageView>,
    /// The name of the program: for a subagent, one that is retired with the run.
    name: Name,
}

impl Supervisor<'_> {
    fn proposal(&self, actor: &Name, run: &Session, intent: Intent, content: Option<Content>) -> Proposal {
        let author =
            Author { actor: actor.clone(), session: Some(run.clone()), via: Via::Dispatch, proof: Proof::None };
        self.office.proposal(&author, intent, content)
    }

    fn store(&mut self, patience: Duration, proposals: &[Proposal]) -> Result<Vec<Outcome>, Error> {
        let mut again = false;
        patiently(patience, || {
            if std::mem::replace(&mut again, true) && self.office.store().check_identity().is_err() {
                self.office = poste_config::open(self.place)?;
            }
            let outcomes = poste_config::submit(&mut self.office, proposals)?;
            self.carrier.carry_out(&mut self.office);
            Ok(outcomes)
        })
    }

    /// Keeps a resident running: each start is a separate run.
    fn keep_running(&mut self) -> Result<RunResult, RunError> {
        let office = self.office.path()?.to_owned();
        // Between two starts no run is active that would keep a second supervisor away.
        let _kept = match folder::keep(&office, &self.request.agent) {
            Ok(kept) => kept,
            Err(held) if held.kind() == io::ErrorKind::WouldBlock => {
                return Ok(RunResult::NotTaken(format!("{} is already kept running", self.request.agent)));
            }
            Err(failed) => return Err(RunError::Folder(office, failed)),
        };
        let first = self.config.backoff_ms.and_then(|ms| u64::try_from(ms).ok()).map_or(RESTART, Duration::from_millis);
        let mut pause = first;
        for start in 1_u64.. {
            let run = match start {
                1 => self.request.run.clone(),
                _ => format!("{}~{start}", self.request.run).parse().unwrap_or_else(|_| self.request.run.clone()),
            };
            let began = Instant::now();
            let result = self.once(&run)?;
            if self.signals.signal().is_some() || matches!(result, RunResult::NotTaken(_)) {
                return Ok(result);
            }
            pause = if began.elapsed() >= RAN_WELL { first } else { pause };
            let until = Instant::now() + pause;
            while Instant::now() < until {
                if self.signals.signal().is_some() {
                    return Ok(result);
                }
                std::thread::sleep(PAUSE);
            }
            pause = (pause * 2).min(RESTART_MAX);
        }
        unreachable!("more restarts than a u64 counts")
    }

    fn once(&mut self, run: &Session) -> Result<RunResult, RunError> {
        let wanted = self.wanted()?;
        if let Some(why) = self.previous_run(&wanted)? {
            return Ok(RunResult::NotTaken(why));
        }
        if let Some(refusal) = gates::refusal(&self.office, &wanted)? {
            return Err(RunError::Refused(refusal.message));
        }
        let about = About {
            run: run.clone(),
            agent: self.request.agent.clone(),
            messages: wanted,
            runner: self.runner(),
            supervisor: processes::written_down(std::process::id()),
            program: None,
            started_at: self.office.wall(),
        };
        // Created before the claim, so that a sweep finds this run if the process dies after it.
        let path = self.office.path()?.to_owned();
        let (folder, held) =
            RunFolder::create(&path, &about).map_err(|failed| RunError::Folder(path.clone(), failed))?;
        let boot_ms = self.office.boot().ms;
        let Started { record, claimed, at } = match self.start(&about)? {
            Ok(started) => started,
            Err(why) => {
                let _ = folder.remove();
                return Ok(RunResult::NotTaken(why));
            }
        };
        let how = self.work(Run {
            run: run.clone(),
            folder,
            about,
            lease_ms: Guard::lease_ms(&claimed, at),
            boot_ms,
            record,
            claimed,
            messages: Vec::new(),
            name: self.request.agent.clone(),
        })?;
        drop(held);
        Ok(RunResult::Ended(how))
    }

    fn runner(&self) -> String {
        match (&self.config.run, self.config.preset) {
            (Some(words), Preset::Command) => {
                let first = words.first().map(Path::new).and_then(Path::file_name);
                let name: String = first.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                name.chars().filter(|sign| !sign.is_control()).take(limits::LABEL_BYTES_MAX / 4).collect()
            }
            (_, preset) => preset.word().to_owned(),
        }
    }

    /// The messages to claim: those it was started for, or the claimable ones in the inbox, including mail of urgency
    /// `later`.
    fn wanted(&self) -> Result<Vec<MessageNo>, Error> {
        if !self.request.messages.is_empty() || self.config.mode == Mode::Resident {
            return Ok(self.request.messages.clone());
        }
        let Some(agent) = self.office.agent(&self.request.agent)? else { return Ok(Vec::new()) };
        views::claimable(self.office.store(), &agent, self.config.batch)
    }

    /// Makes sure that no other run still works on these messages. A run that lost one is swept if dead, and waited for
    /// if not.
    fn previous_run(&mut self, wanted: &[MessageNo]) -> Result<Option<String>, RunError> {
        let until = Instant::now() + LETTING_GO;
        loop {
            let still = patiently(START_PATIENCE, || sweep::sweep_messages(&mut self.office, wanted))?;
            self.carrier.carry_out(&mut self.office);
            let Some(row) = still else { return Ok(None) };
            if Instant::now() >= until || self.signals.signal().is_some() {
                return Ok(Some(format!("run {} of {} lost the message and has not ended yet", row.run, row.agent)));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Records the start and claims the messages. The inner error says why nothing was claimed.
    fn start(&mut self, about: &About) -> Result<Result<Started, String>, RunError> {
        let start = RunStart {
            run: about.run.clone(),
            messages: about.messages.clone(),
            lease_ms: None,
            limit: Some(self.config.concurrency),
            runner: about.runner.clone(),
            host: host_name(),
            supervisor: about.supervisor.clone(),
        };
        let by_itself = preset::ways(&self.config).answer == AnswerBy::Poste || self.config.mode == Mode::Resident;
        if about.messages.is_empty() && !by_itself {
            return Ok(Err(format!("no mail to start {} for", about.agent)));
        }
        let proposal = self.proposal(&about.agent, &about.run, Intent::RunStart(start), None);
        let record = proposal.id.clone();
        let outcome = self.store(START_PATIENCE, &[proposal])?.pop();
        Ok(match outcome.map(|outcome| (outcome.verdict, outcome.at)) {
            Some((Verdict::Accepted(Effect::Claimed(claimed)), at)) => Ok(Started { record, claimed, at }),
            Some((Verdict::Rejected(rejection), _)) => Err(rejection.to_string()),
            Some((Verdict::Accepted(_), _)) | None => {
                return Err(Error::Damaged("the start had an unexpected effect".to_owned()).into());
            }
        })
    }

    /// From here on the run is in the log, so its end must be recorded, too.
    fn work(&mut self, mut run: Run) -> Result<RunOutcome, RunError> {
        let result = match self.prepare(&mut run) {
            Ok(task) => self.follow(&mut run, task),
            // The signal itself may have prevented the start.
            Err(why) if self.signals.signal().is_some() => {
                ProgramResult { how: RunOutcome::Stopped, ..ProgramResult::not_started(why) }
            }
            Err(why) => ProgramResult::not_started(why),
        };
        if !result.answer.is_empty() {
            // The log has it, too; this copy is for people who look into the folder.
            let _ = run.folder.write_answer(&result.answer);
        }
        let result = self.finish(&run, result)?;
        let (how, took_ms) = (result.how, result.took_ms());
        let _ = run.folder.write_end(&Ended { how, code: result.code, took_ms, why: result.problem });
        Ok(how)
    }

    fn guard<'a>(&'a mut self, run: &'a Run) -> Guard<'a> {
        let holder = self.holder(run);
        let terms = Terms { lease_ms: run.lease_ms, boot_ms: run.boot_ms, grace_ms: self.config.grace_ms };
        Guard::new(&mut self.office, &self.carrier, holder, &run.claimed, terms, (&run.folder, run.about.clone()))
    }

    fn follow(&mut self, run: &mut Run, prepared: Prepared) -> ProgramResult {
        let Prepared { mut task, ways, folder, last } = prepared;
        let mut guard = self.guard(run);
        task.watch_every(guard.look_every());
        // Gates and git may have taken long: if the lease was lost, do not start.
        let finished = match guard.look(Duration::ZERO) {
            Watch::Continue => Some(task.run_under(&mut guard)),
            Watch::Stop | Watch::End => None,
        };
        let (why, gives_back) = (guard.why.take(), guard.gives_back);
        let result = match finished {
            None => {
                let why = why.unwrap_or_else(|| "the lease was lost".to_owned());
                return ProgramResult { how: RunOutcome::LeaseLost, gives_back, ..ProgramResult::not_started(why) };
            }
            Some(Err(error)) => ProgramResult::not_started(start_error(&error)),
            Some(Ok(finished)) => {
                let limit_ms = self.config.time_limit_ms;
                let result = result(&finished, why, &self.config, ways.answer, &run.folder, limit_ms);
                ProgramResult { gives_back, ..result }
            }
        };
        self.remember(run, &result, folder, last);
        result
    }

    /// Lets the next run resume the conversation.
    fn remember(&self, run: &Run, result: &ProgramResult, folder: PathBuf, last: Option<Conversation>) {
        let Ok(office) = self.office.path() else { return };
        if !self.config.resume {
            return;
        }
        match (&result.problem, &result.conversation, last) {
            (None, Some(id), _) => {
                let runner = run.about.runner.clone();
                let conversation = Conversation { id: id.clone(), runner, folder, failures: 0 };
                conversation::keep(office, &self.request.agent, &conversation);
            }
            (Some(problem), _, Some(last)) => {
                let said = format!("{problem}\n{}", result.printed);
                conversation::failed(office, &self.request.agent, last, &said);
            }
            _ => {}
        }
    }

    fn holder(&self, run: &Run) -> Holder {
        Holder { agent: self.request.agent.clone(), run: run.run.clone(), token: run.claimed.token }
    }
}

/// The name of a subagent's run.
pub(crate) fn subagent_name(agent: &Name, run: &Session) -> Option<Name> {
    let tail: String = run.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
    let tail = &tail[tail.len().saturating_sub(8)..];
    let base: String = agent.as_str().chars().take(limits::NAME_BYTES_MAX / 2).collect();
    format!("{base}-{}", tail.to_ascii_lowercase()).parse().ok()
}

fn length(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or_default())
}

fn start_error(error: &StartError) -> String {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    format!("{error}{cause}")
}
