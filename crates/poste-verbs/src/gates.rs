//! Runs the gates of messages: for `claim` under its lease, for `verify` and whatever else wants to know.

use std::time::Duration;

use poste_core::fold::{Claimed, ClaimedItem, Code};
use poste_core::gates::{self, Errand, Gate, Gates, Program, Ran, Report, Runner, Scene};
use poste_core::log::{Author, Intent, MessageNo, Position, Release};
use poste_core::office::Office;
use poste_core::text::RecordId;
use poste_core::views::{self, MessageView};
use poste_run::{End, Environment, Keep, Output, Stopped, Task, Watch};

use crate::leases::Lease;
use crate::{Caller, Desk, Error, Result};

/// What is kept of the output of one command.
const KEEP: Keep = Keep { head: 2 * 1024, tail: 6 * 1024 };
/// How often it is asked while a command runs whether it goes on, and how its lease stands; a short lease more often.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(200);
const LOOK_AT_LEAST: Duration = Duration::from_millis(50);

/// Runs what applies to a message, for anybody. Nothing is recorded and nobody's lease depends on it. Of a message
/// without gates it tells whether its artifacts are still what was sent.
pub fn look(desk: &Desk<'_>, gates: &Gates, message: &MessageView) -> Result<Report> {
    let scene = Scene::of(desk.office.store(), &desk.caller.files)?;
    let environment = environment(desk.caller, &scene);
    let mut commands = Commands { environment, while_running: &mut || goes_on(desk), every: LOOK_EVERY };
    gates::run(&scene, gates, message, &mut commands).map_err(|error| stopped(desk, error))
}

/// Why these messages must not even be claimed here: their gates may not be run.
pub fn refusal(office: &Office, numbers: &[MessageNo]) -> Result<Option<Error>, poste_core::Error> {
    let gates = poste_config::gates(office)?;
    for number in numbers {
        let Some(message) = views::message(office.store(), *number)? else { continue };
        let blocked = gates.untrusted(&gates.of_message(&message));
        if !blocked.is_empty() {
            return Ok(Some(untrusted(&format!("message {number} was not taken"), &blocked)));
        }
    }
    Ok(None)
}

/// A claim after its gates were run.
#[derive(Debug)]
pub struct Gated {
    /// What is left of it.
    pub claimed: Claimed,
    /// What went back to its sender, and why.
    pub returned: Vec<Report>,
    /// What was released again, since its gates may not be run here.
    pub released: Vec<MessageNo>,
}

/// Runs the gates of everything a claim won, under its lease and outside every lock, and records what they said.
///
/// What is recorded has ids that derive from the claim's. Extensions have fresh ones: each is for its own time.
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
            .ok_or_else(|| Error::internal("a claimed message is not there"))?;
        let own = gates.of_message(&message);
        // A repeated claim finds what it passed before.
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
            let mut keep = || goes_on(desk).and_then(|()| held.keep(desk.office));
            let mut commands = Commands { environment, while_running: &mut keep, every };
            gates::run(&scene, gates, &message, &mut commands).map_err(|error| stopped(desk, error))?
        };
        held.keep(desk.office)?;
        let result = Intent::GateResult(report.result(token));
        let id = claim.then(format_args!("gates-{}", item.number));
        let proposal = desk.proposal(result, Some(report.content()), Some(id))?;
        match desk.decide(&proposal) {
            // The same claim was repeated meanwhile, and ran them sooner.
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

/// The id under which what a claim won is released before anybody has worked on it.
pub(crate) fn release_id(claim: &RecordId, number: MessageNo) -> RecordId {
    claim.then(format_args!("release-{number}"))
}

/// What a claim holds while its gates run.
struct Held {
    by: Author,
    token: Position,
    leases: Vec<Lease>,
    /// With less than this left a lease is extended.
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
        let by = Author { actor: desk.speaker()?, session: desk.caller.session.clone(), via: desk.caller.via };
        Ok(Self { by, token: claimed.token, leases: leases.collect(), half_ms })
    }

    fn look_every(&self) -> Duration {
        let quarter = Duration::from_millis(u64::try_from(self.half_ms / 2).unwrap_or_default());
        quarter.clamp(LOOK_AT_LEAST, LOOK_EVERY)
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

/// Whether a command that runs here goes on.
fn goes_on(desk: &Desk<'_>) -> Result<(), poste_core::Error> {
    match desk.is_cancelled() {
        true => Err(poste_core::Error::Io { path: "gate".into(), source: std::io::ErrorKind::Interrupted.into() }),
        false => Ok(()),
    }
}

fn stopped(desk: &Desk<'_>, error: poste_core::Error) -> Error {
    if desk.is_cancelled() { cancelled() } else { error.into() }
}

/// Whoever asked does not wait any more.
pub(crate) fn cancelled() -> Error {
    Error::refused("the call was cancelled, and the command it ran was ended").code("cancelled")
}

/// Starts the commands of gates.
struct Commands<'a> {
    environment: Environment,
    /// Asked now and then while a command runs; an error ends it.
    while_running: &'a mut dyn FnMut() -> Result<(), poste_core::Error>,
    every: Duration,
}

impl Runner for Commands<'_> {
    fn goes_on(&mut self) -> Result<(), poste_core::Error> {
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
            Ok(()) => Watch::GoOn,
            Err(error) => {
                failed = Some(error);
                Watch::Stop
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if let Ok(poste_run::Finished { stopped: Some(Stopped::Interrupted(_)), .. }) = finished {
            // Who asked this process to end has said nothing about the message.
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
            Err(format!("it took longer than {limit} and was ended"))
        }
        (Some(Stopped::ByWatcher | Stopped::Interrupted(_)), _) => {
            Err("it was ended before it was finished".to_owned())
        }
        (None, End::Exit(0)) => Ok(()),
        (None, End::Exit(code)) => Err(format!("it ended with exit code {code}")),
        (None, End::Signal(signal)) => Err(format!("it was ended by signal {signal}")),
    }
}

/// What every gate's command may know: which office, and for whom.
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

/// Their commands come with the repository, and nobody here has said that they may run.
pub fn untrusted(what: &str, gates: &[&Gate]) -> Error {
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    let message = format!(
        "{what}: the gates ({}) run commands of {}, which is not trusted here",
        names.join(", "),
        poste_config::FILE
    );
    Error::refused(message)
        .code("untrusted")
        .hint(note!("read what it would run, then trust it: " [trust, as = "NAME"] " (somebody of kind human)"))
}
