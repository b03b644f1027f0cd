//! Starting teammates: they are registered, let go on, and those that are kept running are started.

use std::path::Path;
use std::time::{Duration, Instant};

use poste_core::config::Mode;
use poste_core::fold::{Code, Verdict};
use poste_core::log::{Content, HoldReason, Intent, Register, RunResume};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::text::{Name, Session};
use poste_core::{Error, views};
use schemars::JsonSchema;
use serde::Serialize;

use super::facts::Member;
use crate::run::{self, NOT_TAKEN, RunFolder, supervisor};
use crate::speaker;

/// A program that is not there by then did not start.
const START_PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartedHow {
    /// Its program was started and is kept running.
    Started,
    /// It ran already.
    Running,
    /// A dispatcher starts it for its mail.
    Ready,
    /// It runs by itself: nothing is configured for it here.
    Registered,
    /// What `poste.toml` runs for it was trusted by nobody here.
    Untrusted,
    Failed,
}

/// What became of one teammate.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Started {
    pub agent: Name,
    pub how: StartedHow,
    /// It was not registered like this before.
    pub registered: bool,
    /// It was stopped, or held for its failures, and may go on now.
    pub resumed: bool,
    pub run: Option<Session>,
    pub why: Option<String>,
}

/// Registers a teammate, lets it go on, and starts its program if that is kept running. Doing so again changes nothing.
pub fn start(office: &mut Office, program: &Path, member: &Member, lead: Option<&Name>) -> Result<Started, Error> {
    let registered = register(office, member, lead)?;
    let mut started = Started {
        agent: member.name.clone(),
        how: StartedHow::Registered,
        registered,
        resumed: false,
        run: None,
        why: None,
    };
    let Some(config) = &member.config else { return Ok(started) };
    if !config.trusted {
        started.how = StartedHow::Untrusted;
        return Ok(started);
    }
    started.resumed = resume(office, &member.name, &member.name, "team up")?;
    started.how = StartedHow::Ready;
    if config.mode == Mode::Resident {
        let (how, run, why) = keep_running(office, program, &member.name)?;
        (started.how, started.run, started.why) = (how, run, why);
    }
    Ok(started)
}

fn register(office: &mut Office, member: &Member, lead: Option<&Name>) -> Result<bool, Error> {
    let known = office.agent(&member.name)?;
    let lead = lead.filter(|lead| **lead != member.name).cloned();
    let role = member.config.as_ref().and_then(|config| config.role.as_ref());
    let role = role.and_then(|role| role.as_str().parse().ok());
    let header = match known {
        None => Register { role, lead, ..Register::default() },
        // What somebody said of it before stands; what nobody said is filled in.
        Some(known) => {
            let role = role.filter(|_| known.role.is_none());
            let lead = lead.filter(|_| known.lead.is_none());
            if known.is_active() && role.is_none() && lead.is_none() {
                return Ok(false);
            }
            Register { role, lead, update: true, ..Register::default() }
        }
    };
    let proposal = speaker::proposal(office, &member.name, Intent::Register(header), None);
    match office.propose(&proposal)?.verdict {
        Verdict::Accepted(_) => Ok(true),
        // Somebody else did so this moment.
        Verdict::Rejected(_) if office.agent(&member.name)?.is_some_and(|agent| agent.is_active()) => Ok(false),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

/// Lifts what only a person or a lead lifts. What holds it for a time, or holds single messages, stays.
pub(super) fn resume(office: &mut Office, by: &Name, name: &Name, reason: &str) -> Result<bool, Error> {
    let hold = views::holds(office.store(), name, office.now()?)?.into_iter().find(|hold| hold.message.is_none());
    let lifted = [HoldReason::Stopped, HoldReason::Failing, HoldReason::Misconfigured];
    let Some(hold) = hold.filter(|hold| lifted.contains(&hold.why)) else { return Ok(false) };
    let intent = Intent::RunResume(RunResume { agent: name.clone(), message: None, why: Some(hold.why) });
    let content = Content { body: reason.into(), ..Content::default() };
    let proposal = speaker::proposal(office, by, intent, Some(content));
    match office.propose(&proposal)?.verdict {
        Verdict::Accepted(_) => Ok(true),
        Verdict::Rejected(rejection) if rejection.code == Code::NothingToDo => Ok(false),
        Verdict::Rejected(rejection) => Err(rejection.into()),
    }
}

type Kept = (StartedHow, Option<Session>, Option<String>);

fn keep_running(office: &mut Office, program: &Path, name: &Name) -> Result<Kept, Error> {
    if let Some((run, _)) = living(office, name)? {
        let has_ended = views::run(office.store(), &run)?.is_some_and(|run| run.ended_at.is_some());
        let why = has_ended.then(|| "its program ended and is started again after a pause".to_owned());
        return Ok((StartedHow::Running, Some(run), why));
    }
    let folder = office.path()?.to_owned();
    let mut child = match supervisor(program, &folder, name, &[]).current_dir(&folder).spawn() {
        Ok(child) => child,
        Err(failed) => return Ok((StartedHow::Failed, None, Some(format!("{}: {failed}", program.display())))),
    };
    let until = Instant::now() + START_PATIENCE;
    let found = loop {
        let ended = child.try_wait().ok().flatten();
        match living(office, name)? {
            Some((run, true)) => break (StartedHow::Started, Some(run), None),
            // Somebody else started it this moment.
            Some((run, _)) if ended.is_some() => break (StartedHow::Running, Some(run), None),
            // Somebody else has begun with it, and has not got so far.
            None if ended.is_some() && run::is_kept(&folder, name) && Instant::now() < until => {
                std::thread::sleep(PAUSE);
            }
            None if ended.is_some_and(|ended| ended.code() == Some(i32::from(NOT_TAKEN))) => {
                break (StartedHow::Failed, None, Some("somebody stopped it meanwhile".to_owned()));
            }
            None if ended.is_some() => {
                let why = last_words(office, name)?.unwrap_or_else(|| "its supervisor ended at once".to_owned());
                break (StartedHow::Failed, None, Some(why));
            }
            Some((run, false)) if Instant::now() >= until => {
                break (StartedHow::Failed, Some(run), Some("its program does not start".to_owned()));
            }
            None if Instant::now() >= until => {
                break (StartedHow::Failed, None, Some("its supervisor does not start".to_owned()));
            }
            _ => std::thread::sleep(PAUSE),
        }
    };
    // A process that lives on must not keep what is left of it.
    std::thread::spawn(move || child.wait());
    Ok(found)
}

/// A run of it that is watched over, and whether its program was started.
fn living(office: &Office, name: &Name) -> Result<Option<(Session, bool)>, Error> {
    let folder = office.path()?;
    for run in views::running(office.store(), name)? {
        let files = RunFolder::of(folder, &run.run);
        if run.presence(office.store())? == Presence::Running || files.is_held() {
            let has_program = files.about().is_some_and(|about| about.program.is_some());
            return Ok(Some((run.run, has_program)));
        }
    }
    // It crashed, and whatever watches over it waits to start it again: a second one would only add to that.
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
