//! Starts teammates: registers them, lifts their holds, and starts those that are resident.

use std::process::Child;
use std::time::{Duration, Instant};

use poste_config::{Mode, Runners};
use poste_core::fold::Code;
use poste_core::log::HoldReason;
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::text::{Name, Session};
use poste_core::{Error, views};
use poste_verbs::secret::Secrets;
use poste_verbs::{Caller, Desk, Host, Result, Verb, note, register};
use schemars::JsonSchema;
use serde::Serialize;

use super::facts::Member;
use super::now_instant;
use crate::run::{self, NOT_TAKEN, RunFolder, supervisor};
use crate::verbs::resume;

/// How long a program may take to start.
const START_PATIENCE: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartedHow {
    /// Its program was started and is kept running.
    Started,
    /// It was already running.
    Running,
    /// Its supervisor was started, but its program not yet.
    Starting,
    /// A dispatcher starts it when it has mail.
    Ready,
    /// It is only registered: it has no runner here.
    Registered,
    /// The file that says how it is run is not trusted here.
    Untrusted,
    Failed,
}

/// The outcome for one teammate.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Started {
    pub agent: Name,
    pub how: StartedHow,
    /// Whether its registration is new or changed.
    pub registered: bool,
    /// Whether it was stopped or held, and can be started again.
    pub resumed: bool,
    pub run: Option<Session>,
    pub why: Option<String>,
}

/// A start of several teammates. The caller polls until each has started or failed.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Starts {
    pub team: Vec<Started>,
    #[serde(skip)]
    under_way: Vec<Starting>,
}

/// A supervisor that has not started its program yet.
#[derive(Debug)]
struct Starting {
    agent: Name,
    supervisor: Child,
    until: Instant,
}

impl Starts {
    /// Registers a teammate, lifts its hold, and starts its program if it is resident. Repeating it changes nothing.
    pub(crate) fn add(&mut self, desk: &mut Desk<'_>, runners: &Runners, member: &Member) -> Result<&Started> {
        // A run lifts no hold by starting a team.
        let session = running(desk)?;
        let proof = desk.caller.proof;
        let caller = Caller { proof, ..Caller::acting_for(member.name.clone(), session, desk.caller.via) };
        let mut own = Desk::new(desk.office, &caller, desk.host);
        let mut started = Started {
            agent: member.name.clone(),
            how: StartedHow::Registered,
            registered: register(&mut own, runners, member)?,
            resumed: false,
            run: None,
            why: None,
        };
        match &member.config {
            None => {}
            Some(config) if !config.trusted => started.how = StartedHow::Untrusted,
            Some(config) => {
                started.resumed = resume(&mut own, &member.name, "team up")?;
                started.how = StartedHow::Ready;
                if config.mode == Mode::Resident {
                    self.keep_running(desk.office, desk.host, &mut started)?;
                }
            }
        }
        self.team.push(started);
        self.team.last().ok_or_else(|| poste_verbs::Error::internal("no agent was started"))
    }

    fn keep_running(&mut self, office: &Office, host: &Host, started: &mut Started) -> Result<(), Error> {
        let name = &started.agent;
        if let Some((run, _)) = living(office, name)? {
            let has_ended = views::run(office.store(), &run)?.is_some_and(|run| run.ended_at.is_some());
            started.why = has_ended.then(|| "its program ended and is restarted after a pause".to_owned());
            (started.how, started.run) = (StartedHow::Running, Some(run));
            return Ok(());
        }
        let folder = office.path()?;
        let program = host.program.clone().unwrap_or_default();
        match supervisor(&program, folder, name, &[]).current_dir(folder).spawn() {
            Ok(supervisor) => {
                started.how = StartedHow::Starting;
                let until = now_instant() + START_PATIENCE;
                self.under_way.push(Starting { agent: name.clone(), supervisor, until });
            }
            Err(failed) => {
                started.how = StartedHow::Failed;
                started.why = Some(format!("{}: {failed}", program.display()));
            }
        }
        Ok(())
    }

    /// Checks once on each that has not started yet. Returns whether none is left.
    pub fn poll(&mut self, office: &Office) -> Result<bool, Error> {
        for mut starting in std::mem::take(&mut self.under_way) {
            let Some((how, run, why)) = starting.look(office)? else {
                self.under_way.push(starting);
                continue;
            };
            if let Some(started) = self.team.iter_mut().find(|started| started.agent == starting.agent) {
                (started.how, started.run, started.why) = (how, run, why);
            }
            run::reap(starting.supervisor);
        }
        Ok(self.under_way.is_empty())
    }

    /// The error for a script, if any did not start.
    pub fn trouble(&self) -> Option<poste_verbs::Error> {
        let of = |how: StartedHow| {
            let names = self.team.iter().filter(move |one| one.how == how).map(|one| one.agent.as_str());
            names.collect::<Vec<&str>>()
        };
        let (untrusted, failed) = (of(StartedHow::Untrusted), of(StartedHow::Failed));
        if !untrusted.is_empty() {
            let message = format!("not started, because what runs them is not trusted: {}", untrusted.join(", "));
            let hint = note!("review it, then trust it: "[trust]);
            return Some(poste_verbs::Error::refused(message).code("untrusted").hint(hint));
        }
        let first = failed.first()?;
        Some(
            poste_verbs::Error::refused(format!("not started: {}", failed.join(", ")))
                .code("not_started")
                .hint(note!("see what it printed: " [team logs, name = first])),
        )
    }
}

/// The caller's session, if it is a run that is going on.
fn running(desk: &Desk<'_>) -> Result<Option<Session>> {
    let Some(session) = &desk.caller.session else { return Ok(None) };
    let run = views::run(desk.office.store(), session)?;
    Ok(run.filter(|run| run.how.is_none()).map(|run| run.run))
}

fn register(desk: &mut Desk<'_>, runners: &Runners, member: &Member) -> Result<bool> {
    let name = &member.name;
    let Some(known) = desk.office.agent(name)? else {
        return Ok(register::configured(desk.office, runners, name, desk.caller.via)?);
    };
    // An existing role or lead stays; only a missing one is filled in.
    let role = member.config.as_ref().and_then(|config| config.role.as_ref()).filter(|_| known.role.is_none());
    let role = role.and_then(|role| role.as_str().parse().ok());
    // Only a person gives a registered agent a lead.
    let lead = runners.team.lead.clone().filter(|lead| lead != name && known.lead.is_none());
    let lead = lead.filter(|_| desk.caller.proof.is_given());
    let update = register::Input { role, lead, update: true, ..register::Input::of(name.clone()) };
    match update.run(desk) {
        Ok(answered) => Ok(answered.answer.changed),
        // Another process has just done so.
        Err(error) if !error.is_office_fault && desk.office.agent(name)?.is_some_and(|agent| agent.is_active()) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// Lifts a hold that a person or a lead has to lift. Temporary holds and holds of single messages stay.
pub(super) fn resume(desk: &mut Desk<'_>, agent: &Name, reason: &str) -> Result<bool> {
    let holds = views::holds(desk.office.store(), agent, desk.now()?)?;
    let lifted = [HoldReason::Stopped, HoldReason::Failing, HoldReason::Misconfigured];
    let hold = holds.into_iter().find(|hold| hold.message.is_none()).filter(|hold| lifted.contains(&hold.why));
    let Some(hold) = hold else { return Ok(false) };
    let (agent, reason) = (agent.clone(), Some(reason.to_owned()));
    let resume =
        resume::Input { agent, number: None, why: Some(hold.why), reason, id: None, secrets: Secrets::default() };
    match resume.run(desk) {
        Ok(_) => Ok(true),
        Err(error) if error.is(Code::NothingToDo) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The outcome, its run, and the reason.
type Looked = (StartedHow, Option<Session>, Option<String>);

impl Starting {
    /// `None`: not yet.
    fn look(&mut self, office: &Office) -> Result<Option<Looked>, Error> {
        let (name, is_late) = (&self.agent, now_instant() >= self.until);
        let failed = |run: Option<Session>, why: &str| Some((StartedHow::Failed, run, Some(why.to_owned())));
        let ended = self.supervisor.try_wait().ok().flatten();
        Ok(match (living(office, name)?, ended) {
            (Some((run, true)), _) => Some((StartedHow::Started, Some(run), None)),
            // Another process has just started it.
            (Some((run, false)), Some(_)) => Some((StartedHow::Running, Some(run), None)),
            (Some((run, false)), None) if is_late => failed(Some(run), "its program did not start"),
            // Another supervisor is still starting it.
            (None, Some(_)) if run::is_kept(office.path()?, name) && !is_late => None,
            (None, Some(ended)) if ended.code() == Some(i32::from(NOT_TAKEN)) => {
                failed(None, "it was stopped in the meantime")
            }
            (None, Some(_)) => {
                let why = last_words(office, name)?.unwrap_or_else(|| "its supervisor ended immediately".to_owned());
                failed(None, &why)
            }
            (None, None) if is_late => failed(None, "its supervisor did not start"),
            _ => None,
        })
    }
}

/// A run with a live supervisor, and whether its program was started.
fn living(office: &Office, name: &Name) -> Result<Option<(Session, bool)>, Error> {
    let folder = office.path()?;
    for run in views::running(office.store(), name)? {
        let files = RunFolder::of(folder, &run.run);
        if run.presence(office.store())? == Presence::Running || files.is_held() {
            let has_program = files.about().is_some_and(|about| about.program.is_some());
            return Ok(Some((run.run, has_program)));
        }
    }
    // Its program ended, and its supervisor is about to restart it: do not start a second one.
    match views::latest_runs(office.store(), Some(name), 1)?.into_iter().next() {
        Some(last) if last.presence(office.store())? == Presence::Running => Ok(Some((last.run, true))),
        _ => Ok(None),
    }
}

fn last_words(office: &Office, name: &Name) -> Result<Option<String>, Error> {
    if let Some(why) = run::trouble(office.path()?, name) {
        return Ok(Some(why));
    }
    let last = views::latest_runs(office.store(), Some(name), 1)?.into_iter().next();
    Ok(last.and_then(|run| run.said).map(|said| said.lines().take(3).collect::<Vec<_>>().join("; ")))
}
