//! Cleans up after dead supervisors: ends their programs and runs, and makes their messages pending.
//!
//! Any number of processes may sweep at once: a folder is swept by the holder of its lock, and the log accepts each end
//! once.

use std::io;
use std::time::{Duration, Instant};

use poste_config::AgentConfig;
use poste_core::log::{Author, Body, Content, Intent, MessageNo, Proof, Proposal, Retire, RunEnd, RunOutcome, Via};
use poste_core::office::Office;
use poste_core::store::processes::{self, Presence};
use poste_core::store::tables::RunRow;
use poste_core::text::{Name, Session};
use poste_core::views::{self, Holder, Standing};
use poste_core::{Digest, Error, Timestamp, limits};

use super::folder::{self, Ended, RunFolder};
use super::supervise::subagent_name;
use super::{mark, outcome};

/// How long the processes of one run may take to end after they were killed.
const KILL_PATIENCE: Duration = Duration::from_secs(10);
/// When a run that took no message counts as ended, if its machine cannot be checked.
const SURELY_OVER_MS: i64 = limits::LEASE_MS_MAX + limits::HOUR_MS;

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Runs that were ended because their supervisors are dead.
    pub lost: Vec<Session>,
    /// Their processes that could not be ended.
    pub not_ended: Vec<u32>,
    /// Number of folders of old runs that were deleted.
    pub pruned: usize,
}

/// Ends every run whose supervisor is dead, of one agent or of all.
pub fn sweep(office: &mut Office, only: Option<&Name>) -> Result<Swept, Error> {
    let path = office.path()?.to_owned();
    let failed = |source: io::Error| Error::Io { path: path.join(folder::RUNS), source };
    let mut swept = Swept::default();
    let mut looked_after = Vec::new();
    for folder in folder::live(&path).map_err(failed)? {
        let Some(about) = folder.about() else { continue };
        if only.is_some_and(|only| *only != about.agent) {
            continue;
        }
        if look_after(office, &folder, &mut swept)? {
            looked_after.push(about.run);
        }
    }
    for row in views::running_rows(office.store(), only)? {
        if !looked_after.contains(&row.run) {
            look_after_row(office, &row, &mut swept)?;
        }
    }
    // Skipped at the start of a single agent, unless it was not done for long.
    if only.is_none() || folder::is_overfull(&path) {
        swept.pruned = folder::prune(&path).map_err(failed)?;
    }
    Ok(swept)
}

/// Sweeps every active run of any agent that took one of these messages, and returns one that lost its message and may
/// still work on it. A message becomes pending not only by a sweep, but also when a lease ends, and then nothing has
/// checked that its last worker has ended.
pub(crate) fn sweep_messages(office: &mut Office, messages: &[MessageNo]) -> Result<Option<RunRow>, Error> {
    let path = office.path()?.to_owned();
    let mut swept = Swept::default();
    let mut still = None;
    for number in messages {
        for row in views::running_rows_of(office.store(), *number)? {
            if !look_after(office, &RunFolder::of(&path, &row.run), &mut swept)? {
                look_after_row(office, &row, &mut swept)?;
            }
        }
        for row in views::running_rows_of(office.store(), *number)? {
            if holder(&row).standing(office.store(), *number)?.is_lost() {
                still = Some(row);
            }
        }
    }
    Ok(still)
}

/// Sweeps a run by its folder. False: the folder says nothing. In a copied office no process holds the folder of a run
/// that continues elsewhere.
fn look_after(office: &mut Office, folder: &RunFolder, swept: &mut Swept) -> Result<bool, Error> {
    let row = views::run_row(office.store(), &folder.run)?.filter(RunRow::is_running);
    if let Some(row) = row
        && !is_own(office, &row)?
    {
        return Ok(false);
    }
    match folder.take_over() {
        Ok(_held) => sweep_folder(office, folder, swept)?,
        Err(held) if held.kind() == io::ErrorKind::WouldBlock => end_stuck(office, folder, swept)?,
        Err(_) => return Ok(false),
    }
    Ok(true)
}

/// Sweeps a run by the log alone.
fn look_after_row(office: &mut Office, row: &RunRow, swept: &mut Swept) -> Result<(), Error> {
    if is_gone(office, row)? {
        end_processes(office, &row.run, swept)?;
        end_lost(office, row, swept)?;
    }
    Ok(())
}

fn is_own(office: &Office, row: &RunRow) -> Result<bool, Error> {
    Ok(row.machine == *office.machine()?)
}

/// Ends the remaining processes of a run on this machine.
fn end_processes(office: &Office, run: &Session, swept: &mut Swept) -> Result<(), Error> {
    swept.not_ended.extend(poste_run::end_marked(&mark(office.machine()?, run), KILL_PATIENCE));
    Ok(())
}

fn sweep_folder(office: &mut Office, folder: &RunFolder, swept: &mut Swept) -> Result<(), Error> {
    // The old worker must have ended before another agent may start.
    end_processes(office, &folder.run, swept)?;
    let row = views::run_row(office.store(), &folder.run)?;
    let ended = match row {
        None => {
            // It died before its claim.
            let _ = folder.remove();
            return Ok(());
        }
        Some(row) if row.is_running() => {
            end_lost(office, &row, swept)?;
            let why = Some("its supervisor died".to_owned());
            Ended { how: RunOutcome::Lost, code: None, took_ms: took_ms(office, &row)?, why }
        }
        Some(row) => {
            let end = row.end.ok_or_else(|| Error::Damaged(format!("run {} has no end", row.run)))?;
            Ended { how: end.how, code: end.code, took_ms: end.took_ms, why: None }
        }
    };
    let _ = folder.write_end(&ended);
    Ok(())
}

/// A live supervisor that no longer holds anything has to end soon. One that was suspended (SIGSTOP) cannot, and one
/// that hangs does not: kill it and its program.
fn end_stuck(office: &mut Office, folder: &RunFolder, swept: &mut Swept) -> Result<(), Error> {
    // By the log, because the program can write to the folder.
    let Some(row) = views::run_row(office.store(), &folder.run)?.filter(RunRow::is_running) else { return Ok(()) };
    if presence(office, &row)? != Presence::Running || holds_something(office, &row)? != Some(false) {
        return Ok(());
    }
    if !processes::is_stopped(row.supervisor.pid) && office.now()? < over_at_latest(office, &row)? {
        return Ok(());
    }
    end_processes(office, &row.run, swept)?;
    poste_run::end_process(row.supervisor.pid);
    let until = Instant::now() + KILL_PATIENCE;
    while Instant::now() < until {
        if let Ok(_held) = folder.take_over() {
            return sweep_folder(office, folder, swept);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// When the supervisor of a run that holds nothing must have ended: one lease after it lost its last message, or, if
/// its program finished them all and is cleaning up, one lease after the time limit of the program.
fn over_at_latest(office: &Office, row: &RunRow) -> Result<Timestamp, Error> {
    let lease_ms = views::lease_ms(office.store())?;
    let mut since = row.at;
    for number in views::messages_of_run(office.store(), &row.run)? {
        since = since.max(holder(row).let_go_at(office.store(), number)?.unwrap_or(row.at));
    }
    let work_ms = match config(office, &row.agent) {
        _ if lost_something(office, row)? => 0,
        Some(config) => config.time_limit_ms.saturating_add(config.grace_ms),
        None => SURELY_OVER_MS,
    };
    Ok(since.max(row.at.plus_ms(work_ms)).plus_ms(lease_ms))
}

/// Whether a run still holds a message; `None`: it never took one.
fn holds_something(office: &Office, row: &RunRow) -> Result<Option<bool>, Error> {
    let messages = views::messages_of_run(office.store(), &row.run)?;
    if messages.is_empty() {
        return Ok(None);
    }
    Ok(Some(!held(office, row, &messages)?.is_empty()))
}

fn lost_something(office: &Office, row: &RunRow) -> Result<bool, Error> {
    for number in views::messages_of_run(office.store(), &row.run)? {
        if holder(row).standing(office.store(), number)?.is_lost() {
            return Ok(true);
        }
    }
    Ok(false)
}

fn holder(row: &RunRow) -> Holder {
    Holder { agent: row.agent.clone(), run: row.run.clone(), token: row.position }
}

/// The configuration on this machine. If it cannot be read, the office's settings apply.
fn config(office: &Office, agent: &Name) -> Option<AgentConfig> {
    poste_config::runners(office).ok()?.agents.remove(agent)
}

fn held(office: &Office, row: &RunRow, messages: &[MessageNo]) -> Result<Vec<MessageNo>, Error> {
    let mut held = Vec::new();
    for number in messages {
        if holder(row).standing(office.store(), *number)? == Standing::Held {
            held.push(*number);
        }
    }
    Ok(held)
}

fn presence(office: &Office, row: &RunRow) -> Result<Presence, Error> {
    office.store().presence(&row.machine, Some(&row.supervisor))
}

/// Whether the supervisor of a run without a folder here is dead.
fn is_gone(office: &Office, row: &RunRow) -> Result<bool, Error> {
    let is_own = is_own(office, row)?;
    match presence(office, row)? {
        Presence::Running => Ok(false),
        Presence::Gone => Ok(true),
        // No process survives a reboot.
        Presence::Unknown if is_own && processes::is_of_earlier_boot(&row.supervisor) => Ok(true),
        // It cannot be checked, but it may no longer hold what it took.
        Presence::Unknown => match holds_something(office, row)? {
            // It finished everything on another machine and is cleaning up: that machine records its end, unless it is
            // lost.
            Some(false) if !is_own && !lost_something(office, row)? => {
                Ok(office.now()? >= over_at_latest(office, row)?)
            }
            Some(holds) => Ok(!holds),
            None => Ok(office.now()?.since_ms(row.at) > SURELY_OVER_MS),
        },
    }
}

fn took_ms(office: &Office, row: &RunRow) -> Result<u64, Error> {
    Ok(u64::try_from(office.now()?.since_ms(row.at).clamp(0, limits::RUN_NUMBER_MAX)).unwrap_or_default())
}

/// Fails its messages, so that they are retried, and ends the run.
fn end_lost(office: &mut Office, row: &RunRow, swept: &mut Swept) -> Result<(), Error> {
    let messages = views::messages_of_run(office.store(), &row.run)?;
    let mut proposals = Vec::new();
    let config = config(office, &row.agent);
    for number in held(office, row, &messages)? {
        let delivery = holder(row).delivery(office.store(), number)?;
        let attempts = delivery.map_or(0, |delivery| delivery.attempts);
        let why = "the supervisor of its run died";
        let (intent, content) = outcome::of_unread(config.as_ref(), number, attempts, row.position, why);
        proposals.push(proposal(office, row, &format!("fail {number}"), intent, content)?);
    }
    if let Some(name) = subagent(office, row)? {
        let retire = Intent::Retire(Retire { name: name.clone() });
        proposals.push(Proposal { actor: name, ..proposal(office, row, "retire", retire, None)? });
    }
    let end = RunEnd {
        run: row.run.clone(),
        how: RunOutcome::Lost,
        code: None,
        took_ms: took_ms(office, row)?,
        cost_micros: None,
    };
    let content = Content { body: Body(b"its supervisor died".to_vec()), ..Content::default() };
    proposals.push(proposal(office, row, "end", Intent::RunEnd(end), Some(content))?);
    // A refusal means that another process has just done it.
    let outcomes = poste_config::submit(office, &proposals)?;
    let is_ended = outcomes.last().is_some_and(|outcome| outcome.verdict.clone().accepted().is_ok());
    if is_ended {
        swept.lost.push(row.run.clone());
    }
    Ok(())
}

/// The subagent's name, which is retired with the run. It is derived from the run, so that no other name can be
/// retired.
fn subagent(office: &Office, row: &RunRow) -> Result<Option<Name>, Error> {
    let Some(name) = subagent_name(&row.agent, &row.run) else { return Ok(None) };
    let agent = office.agent(&name)?;
    Ok(agent.filter(|agent| agent.is_active() && agent.registered_at >= row.at).map(|agent| agent.name))
}

fn proposal(
    office: &Office,
    row: &RunRow,
    what: &str,
    intent: Intent,
    content: Option<Content>,
) -> Result<Proposal, Error> {
    // The same id for every process that sweeps, so that only one record is stored. Any agent can compute it and use it
    // first; then all of them use the next one.
    let digest = Digest::of(format!("{} {what}", row.run).as_bytes());
    let id = office.free_id(&format!("lost-{digest}"))?;
    let author =
        Author { actor: row.agent.clone(), session: Some(row.run.clone()), via: Via::Dispatch, proof: Proof::None };
    Ok(Proposal { id, ..office.proposal(&author, intent, content) })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use poste_core::Address;
    use poste_core::log::{Register, RunStart, Send, SessionProcess};
    use poste_core::office::Place;
    use poste_core::store::Options;
    use poste_core::store::clock::SystemClock;

    use super::*;

    #[test]
    fn a_dead_run_ends_even_if_an_agent_took_the_id_of_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".poste");
        let place = Place { path, clock: Arc::new(SystemClock), options: Options::default() };
        place.create().unwrap();
        let mut office = place.open().unwrap();
        let mut say = |who: &str, session: Option<&str>, id: Option<String>, intent: Intent| {
            let session = session.map(|session| session.parse().unwrap());
            let author = Author { actor: who.parse().unwrap(), session, via: Via::Cli, proof: Proof::None };
            let mut proposal = office.proposal(&author, intent, None);
            proposal.id = id.map_or(proposal.id, |id| id.parse().unwrap());
            poste_config::propose(&mut office, &proposal).unwrap().verdict.accepted().unwrap()
        };
        for name in ["worker", "squatter"] {
            say(name, None, None, Intent::Register(Register::default()));
        }
        // Its pid now belongs to another process.
        let gone = SessionProcess { started_ms: Some(0), ..processes::written_down(std::process::id()) };
        let start = RunStart {
            run: "r1".parse().unwrap(),
            messages: Vec::new(),
            lease_ms: None,
            limit: None,
            runner: String::new(),
            host: "here".to_owned(),
            supervisor: gone,
        };
        say("worker", Some("r1"), None, Intent::RunStart(start));
        let id = format!("lost-{}", Digest::of(b"r1 end"));
        let to = vec![Address::Agent("worker".parse().unwrap())];
        say("squatter", None, Some(id), Intent::Send(Send::plain("message".parse().unwrap(), to)));
        assert_eq!(sweep(&mut office, None).unwrap().lost, ["r1".parse::<Session>().unwrap()]);
    }
}
