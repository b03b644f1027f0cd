//! Runs the gates of messages: for `claim` under its lease, and for `verify` and `handoff accept` without one.

use std::time::Duration;

use poste_core::fold::{Claimed, ClaimedItem, Code};
use poste_core::gates::{self, Errand, Gate, Gates, Program, Ran, Report, Runner, Scene};
use poste_core::log::{Author, Intent, MessageNo, Position, Proof, Release};
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views::{self, MessageView};
use poste_run::{End, Environment, Keep, Output, Stopped, Task, Watch};

use crate::leases::Lease;
use crate::{Caller, Desk, Error, Result, trust};

/// How much output of a command is kept.
const KEEP: Keep = Keep { head: 2 * 1024, tail: 6 * 1024 };
/// How often a running command is checked for cancellation and its lease extended. Short leases are checked more often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOK_EVERY_MIN: Duration = Duration::from_millis(50);

/// Runs the gates that apply to a message, without a claim and without recording the result. For a message without
/// gates, checks whether its artifacts are unchanged.
pub fn run_unclaimed(desk: &Desk<'_>, gates: &Gates, message: &MessageView) -> Result<Report> {
    let scene = Scene::of(desk.office.store(), &desk.caller.files)?;
    let environment = environment(desk.caller, &scene);
    let mut commands = Commands { environment, while_running: &mut || check_cancelled(desk), every: LOOK_EVERY };
    gates::run(&scene, gates, message, &mut commands).map_err(|error| stopped(desk, error))
}

/// The error if these messages must not be claimed here because their gates are not trusted.
pub fn refusal(office: &Office, numbers: &[MessageNo]) -> Result<Option<Error>, poste_core::Error> {
    let gates = poste_config::gates(office)?;
    for number in numbers {
        let Some(message) = views::message(office.store(), *number)? else { continue };
        let blocked = gates.untrusted(&gates.of_message(&message));
        if !blocked.is_empty() {
            return Ok(Some(untrusted(office, &format!("message {number} was not claimed"), &blocked)));
        }
    }
    Ok(None)
}

/// A claim after its gates were run.
#[derive(Debug)]
pub struct Gated {
    /// The messages that are still claimed.
    pub claimed: Claimed,
    /// Messages that went back to their senders, and why.
    pub returned: Vec<Report>,
    /// Messages that were released again, because their gates are not trusted here.
    pub released: Vec<MessageNo>,
}

/// Runs the gates of all claimed messages, under the lease and outside any lock, and records the results.
///
/// Results have ids derived from the claim's id. Extensions have fresh ids, since each one is a new write.
pub fn of_claim(
    desk: &mut Desk<'_>,
    gates: &Gates,
    claim: &RecordId,
    claimed: Claimed,
    lease_ms: Option<i64>,
) -> Result<Gated> {
    let mut gated = Gated { claimed, returned: Vec::new(), released: Vec::new() };
    if gates.gates.is_empty() {
        return Ok(gated);
    }
    let scene = Scene::of(desk.office.store(), &desk.caller.files)?;
    let token = gated.claimed.token;
    let mut held = Held::new(desk, &gated.claimed, lease_ms)?;
    for item in gated.claimed.items.clone() {
        let message = views::message(desk.office.store(), item.number)?
            .ok_or_else(|| Error::internal("a claimed message is missing"))?;
        let own = gates.of_message(&message);
        // A repeated claim does not run gates that it has passed.
        if own.is_empty() || passed(desk, &held, item.number)? {
            continue;
        }
        if !gates.untrusted(&own).is_empty() {
            let release = Release { message: item.number, token: Some(token) };
            let proposal = desk.proposal(Intent::Release(release), None, Some(release_id(claim, item.number)))?;
            desk.decide(&proposal)?;
            held.forget(item.number);
            gated.released.push(item.number);
            continue;
        }
        let every = held.look_every();
        let report = {
            let environment = environment(desk.caller, &scene);
            let mut keep = || check_cancelled(desk).and_then(|()| held.keep(desk.office));
            let mut commands = Commands { environment, while_running: &mut keep, every };
            gates::run(&scene, gates, &message, &mut commands).map_err(|error| stopped(desk, error))?
        };
        held.keep(desk.office)?;
        let result = Intent::GateResult(report.result(token));
        let id = claim.then(format_args!("gates-{}", item.number));
        let proposal = desk.proposal(result, Some(report.content()), Some(id))?;
        match desk.decide(&proposal) {
            // Another repeat of the same claim ran them first.
            Err(error) if error.is(Code::IdConflict) && passed(desk, &held, item.number)? => continue,
            decided => decided?,
        };
        if !report.passed {
            held.forget(item.number);
            gated.returned.push(report);
        }
    }
    gated.claimed = held.claimed();
    Ok(gated)
}

fn passed(desk: &Desk<'_>, held: &Held, number: MessageNo) -> Result<bool> {
    Ok(views::passed_gates(desk.office.store(), &held.by.actor, number, held.token)?)
}

/// The id for releasing a claimed message before any work on it.
pub(crate) fn release_id(claim: &RecordId, number: MessageNo) -> RecordId {
    claim.then(format_args!("release-{number}"))
}

/// The leases of a claim while its gates run.
struct Held {
    by: Author,
    token: Position,
    leases: Vec<Lease>,
    /// A lease with less than this left is extended.
    half_ms: i64,
}

impl Held {
    fn new(desk: &Desk<'_>, claimed: &Claimed, lease_ms: Option<i64>) -> Result<Self> {
        let (now, boot_ms) = (desk.now()?, desk.office.boot().ms);
        let left = |item: &ClaimedItem| item.lease_until.since_ms(now);
        let half_ms = lease_ms.or(claimed.items.iter().map(left).min()).unwrap_or_default() / 2;
        let leases = claimed.items.iter().map(|item| Lease {
            message: item.number,
            token: Some(claimed.token),
            lease_ms,
            least_ms: half_ms,
            until: item.lease_until,
            boot_until_ms: boot_ms.saturating_add(left(item)),
        });
        let by = Author {
            actor: desk.speaker()?,
            session: desk.caller.session.clone(),
            via: desk.caller.via,
            proof: Proof::None,
        };
        Ok(Self { by, token: claimed.token, leases: leases.collect(), half_ms })
    }

    fn look_every(&self) -> Duration {
        let quarter = Duration::from_millis(u64::try_from(self.half_ms / 2).unwrap_or_default());
        quarter.clamp(LOOK_EVERY_MIN, LOOK_EVERY)
    }

    fn forget(&mut self, number: MessageNo) {
        self.leases.retain(|lease| lease.message != number);
    }

    fn keep(&mut self, office: &mut Office) -> Result<(), poste_core::Error> {
        self.leases.iter_mut().try_for_each(|lease| lease.keep(office, &self.by))
    }

    fn claimed(self) -> Claimed {
        let items = self.leases.iter().map(|lease| ClaimedItem { number: lease.message, lease_until: lease.until });
        Claimed { token: self.token, items: items.collect() }
    }
}

/// An error once the call was cancelled.
fn check_cancelled(desk: &Desk<'_>) -> Result<(), poste_core::Error> {
    match desk.is_cancelled() {
        true => Err(poste_core::Error::Io { path: "gate".into(), source: std::io::ErrorKind::Interrupted.into() }),
        false => Ok(()),
    }
}

fn stopped(desk: &Desk<'_>, error: poste_core::Error) -> Error {
    if desk.is_cancelled() { cancelled() } else { error.into() }
}

/// The error for a call whose caller no longer waits.
pub(crate) fn cancelled() -> Error {
    Error::refused("the call was cancelled, and its command was stopped").code("cancelled")
}

/// Starts the commands of gates.
struct Commands<'a> {
    environment: Environment,
    /// Called regularly while a command runs. An error stops it.
    while_running: &'a mut dyn FnMut() -> Result<(), poste_core::Error>,
    every: Duration,
}

impl Runner for Commands<'_> {
    fn check_running(&mut self) -> Result<(), poste_core::Error> {
        (self.while_running)()
    }

    fn run(&mut self, errand: &Errand) -> Result<Ran, poste_core::Error> {
        let mut task = match &errand.program {
            Program::Words(words) => Task::new(words.first().cloned().unwrap_or_default(), words.iter().skip(1)),
            Program::Shell(line) => Task::shell(line),
        };
        let mut environment = self.environment.clone();
        for (name, value) in &errand.variables {
            environment.set(*name, value.clone());
        }
        let limit = Duration::from_millis(u64::try_from(errand.timeout_ms).unwrap_or_default());
        task.folder(&errand.folder).environment(environment).limit(limit);
        task.output(Output::Together).keep(KEEP).watch_every(self.every);
        let mut failed = None;
        let finished = task.run_watched(&mut |_| match (self.while_running)() {
            Ok(()) => Watch::Continue,
            Err(error) => {
                failed = Some(error);
                Watch::Stop
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if let Ok(poste_run::Finished { stopped: Some(Stopped::Interrupted(_)), .. }) = finished {
            // Stopping this process says nothing about the message.
            let source = std::io::ErrorKind::Interrupted.into();
            return Err(poste_core::Error::Io { path: errand.folder.clone(), source });
        }
        Ok(match finished {
            Ok(finished) => Ran {
                found: found(&finished, limit),
                output: finished.stdout.text(),
                duration_ms: u64::try_from(finished.duration.as_millis()).unwrap_or(u64::MAX),
            },
            Err(error) => {
                let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                Ran { found: Err(format!("{error}{cause}")), output: String::new(), duration_ms: 0 }
            }
        })
    }
}

fn found(finished: &poste_run::Finished, limit: Duration) -> Result<(), String> {
    match (finished.stopped, finished.end) {
        (Some(Stopped::TimedOut), _) => {
            let limit = poste_config::length_text(i64::try_from(limit.as_millis()).unwrap_or(i64::MAX));
            Err(format!("timed out after {limit}"))
        }
        (Some(Stopped::ByWatcher | Stopped::Interrupted(_)), _) => Err("it was stopped before it finished".to_owned()),
        (None, End::Exit(0)) => Ok(()),
        (None, End::Exit(code)) => Err(format!("it ended with exit code {code}")),
        (None, End::Signal(signal)) => Err(format!("it was killed by signal {signal}")),
    }
}

/// The environment of every gate's command: the office, the agent and its session.
fn environment(caller: &Caller, scene: &Scene<'_>) -> Environment {
    let mut environment = Environment::default();
    environment.set("POSTE_HOME", scene.office());
    if let Some(speaker) = &caller.actor {
        environment.set("POSTE_AGENT", speaker.as_str());
    }
    if let Some(session) = &caller.session {
        environment.set("POSTE_SESSION", session.as_str());
    }
    environment
}

/// The gates run commands of files that are not trusted on this machine.
pub fn untrusted(office: &Office, what: &str, gates: &[&Gate]) -> Error {
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    trust::untrusted(office, &format!("{what}: the commands of its gates ({}) are not trusted here", names.join(", ")))
}
