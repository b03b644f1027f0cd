//! What dead supervisors left: their programs are ended, their runs are over, and their messages come back.
//!
//! Any number may sweep at once: a folder is swept by who holds its lock, and the log takes each end once.

use std::io;
use std::time::Duration;

use poste_core::log::{Body, Content, Intent, MessageNo, Proposal, RunEnd, RunOutcome, SessionProcess};
use poste_core::office::Office;
use poste_core::store::host_name;
use poste_core::store::processes::{self, Presence};
use poste_core::store::tables::RunRow;
use poste_core::text::{Name, RecordId, Session};
use poste_core::{Digest, Error, limits};

use super::folder::{self, Ended, RunFolder};
use super::guard::{Holder, Standing};
use super::{mark, outcome};

/// How long the processes of one run may take to be gone once they were killed.
const NOBODY_LEFT: Duration = Duration::from_secs(10);
/// A run that took no message, on a machine that cannot be asked, is over at the latest after this.
const SURELY_OVER_MS: i64 = limits::LEASE_MS_MAX + limits::HOUR_MS;

/// What a sweep found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Swept {
    /// Runs that are over now, as their supervisors are gone.
    pub lost: Vec<Session>,
    /// Processes of theirs that could not be ended.
    pub not_ended: Vec<u32>,
    /// Folders of old runs that were dropped.
    pub pruned: usize,
}

/// Looks after every run whose supervisor is dead; of one agent, or of all.
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
        looked_after.push(about.run.clone());
        match folder.take_over() {
            Ok(_held) => sweep_folder(office, &folder, &mut swept)?,
            Err(held) if held.kind() == io::ErrorKind::WouldBlock => {
                end_stopped(office, &about.run, &about.supervisor, &mut swept)?;
            }
            // Somebody else dropped it meanwhile.
            Err(_) => {}
        }
    }
    for row in running(office, only)? {
        if !looked_after.contains(&row.run) && is_gone(office, &row)? {
            swept.not_ended.extend(poste_run::end_marked(&mark(&row.run), NOBODY_LEFT));
            end_lost(office, &row, &mut swept)?;
        }
    }
    if only.is_none() {
        swept.pruned = folder::prune(&path).map_err(failed)?;
    }
    Ok(swept)
}

fn running(office: &Office, only: Option<&Name>) -> Result<Vec<RunRow>, Error> {
    let tables = office.store().tables()?;
    match only {
        Some(agent) => tables.running(agent),
        None => tables.all_running(),
    }
}

fn sweep_folder(office: &mut Office, folder: &RunFolder, swept: &mut Swept) -> Result<(), Error> {
    // First nobody works on it any more, then somebody else may.
    swept.not_ended.extend(poste_run::end_marked(&mark(&folder.run), NOBODY_LEFT));
    let row = office.store().tables()?.run(&folder.run)?;
    let ended = match row {
        None => {
            // It died before it took anything.
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

/// A supervisor that somebody stopped (SIGSTOP) keeps nothing: once it lost everything, neither it nor its program may go on.
fn end_stopped(
    office: &mut Office,
    run: &Session,
    supervisor: &SessionProcess,
    swept: &mut Swept,
) -> Result<(), Error> {
    let Some(row) = office.store().tables()?.run(run)?.filter(RunRow::is_running) else { return Ok(()) };
    let is_stopped = Presence::of(Some(supervisor)) == Presence::Running && processes::is_stopped(supervisor.pid);
    if !is_stopped || holds_something(office, &row)? != Some(false) {
        return Ok(());
    }
    swept.not_ended.extend(poste_run::end_marked(&mark(run), NOBODY_LEFT));
    poste_run::end_process(supervisor.pid);
    Ok(())
}

/// Whether a run still holds a message; `None`: it never took one.
fn holds_something(office: &Office, row: &RunRow) -> Result<Option<bool>, Error> {
    let messages = office.store().tables()?.messages_of_run(&row.run)?;
    if messages.is_empty() {
        return Ok(None);
    }
    Ok(Some(!held(office, row, &messages)?.is_empty()))
}

fn held(office: &Office, row: &RunRow, messages: &[MessageNo]) -> Result<Vec<MessageNo>, Error> {
    let holder = Holder { agent: row.agent.clone(), run: row.run.clone(), token: row.position };
    let mut held = Vec::new();
    for number in messages {
        if holder.standing(office, *number)? == Standing::Held {
            held.push(*number);
        }
    }
    Ok(held)
}

/// Of a run whose folder is not here: whether its supervisor is dead.
fn is_gone(office: &Office, row: &RunRow) -> Result<bool, Error> {
    match Presence::of(Some(&row.supervisor)) {
        Presence::Running => Ok(false),
        Presence::Gone => Ok(true),
        // Nothing outlives a boot of its machine.
        Presence::Unknown if row.host == host_name() && processes::is_of_earlier_boot(&row.supervisor) => Ok(true),
        // It cannot be asked, but what it took is not its own any more.
        Presence::Unknown => match holds_something(office, row)? {
            Some(holds) => Ok(!holds),
            None => Ok(office.now()?.since_ms(row.at) > SURELY_OVER_MS),
        },
    }
}

fn took_ms(office: &Office, row: &RunRow) -> Result<u64, Error> {
    Ok(u64::try_from(office.now()?.since_ms(row.at).clamp(0, limits::RUN_NUMBER_MAX)).unwrap_or_default())
}

/// Its messages come back, and the run is over.
fn end_lost(office: &mut Office, row: &RunRow, swept: &mut Swept) -> Result<(), Error> {
    let messages = office.store().tables()?.messages_of_run(&row.run)?;
    let mut proposals = Vec::new();
    for number in held(office, row, &messages)? {
        let (intent, content) = outcome::fail_again(number, row.position, "the supervisor of its run died");
        proposals.push(proposal(office, row, &format!("fail {number}"), intent, content));
    }
    let end = RunEnd {
        run: row.run.clone(),
        how: RunOutcome::Lost,
        code: None,
        took_ms: took_ms(office, row)?,
        cost_micros: None,
    };
    let content = Content { body: Body(b"its supervisor died".to_vec()), ..Content::default() };
    proposals.push(proposal(office, row, "end", Intent::RunEnd(end), Some(content)));
    // A refusal: another one did it in the same moment.
    let outcomes = office.submit(&proposals)?;
    let is_ended = outcomes.last().is_some_and(|outcome| outcome.verdict.clone().accepted().is_ok());
    if is_ended {
        swept.lost.push(row.run.clone());
    }
    Ok(())
}

fn proposal(office: &Office, row: &RunRow, what: &str, intent: Intent, content: Option<Content>) -> Proposal {
    // The same for everybody who sweeps, so that it is one record whoever does.
    let digest = Digest::of(format!("{} {what}", row.run).as_bytes());
    let id: RecordId = format!("lost-{digest}").parse().expect("hexadecimal digits are an id");
    Proposal { id, actor: row.agent.clone(), session: Some(row.run.clone()), sent_at: office.wall(), intent, content }
}
