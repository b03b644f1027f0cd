//! Which process holds the write lock, and which ones keep the write-ahead log from being emptied.

use super::fix::Fix;
use super::{Finding, Opened, Scene};
use crate::error::Error;
use crate::limits::SECOND_MS;
use crate::store::processes::{self, Openers, Process};
use crate::store::{LockState, WAL_BYTES_MAX};
use crate::text::size;
use crate::time::length;

/// After this, other writers give up waiting for the lock.
const HELD_MS_MAX: i64 = 10 * SECOND_MS;
/// A writer empties the log above [`WAL_BYTES_MAX`]. Far above that, something prevents it.
const WAL_BYTES_FAR: u64 = 8 * WAL_BYTES_MAX;

pub(super) fn write_lock(scene: &mut Scene<'_>) -> Result<(), Error> {
    let Some(lock) = LockState::look(&scene.office)? else { return Ok(()) };
    let process = lock.pid.and_then(processes::process);
    let found = judge(&lock, process, scene.request.verbose);
    scene.findings.extend(found);
    Ok(())
}

fn judge(lock: &LockState, process: Option<Process>, verbose: bool) -> Option<Finding> {
    let holder = lock.holder.as_deref().unwrap_or("an unknown process");
    let since = lock.age_ms.map(|age_ms| format!(" for {}", length(age_ms))).unwrap_or_default();
    if !lock.held {
        // The kernel freed the lock; only the text is left.
        let gone = verbose && lock.holder.is_some() && process.is_none();
        let meaning = "It is free; the file names the last writer. Nothing needs to be done.";
        return gone.then(|| Finding::note("lock", format!("the write lock was last held by {holder}"), meaning));
    }
    match process {
        Some(process) if process.stopped => Some(
            Finding::problem(
                "lock",
                format!("{holder} holds the write lock{since} and is stopped: {}", process.command),
                "Nothing can be written until it continues or ends. Ending it loses no stored mail.",
            )
            .advice(format!(
                "let it continue, or end it: kill -KILL {} (a stopped process receives no other signal)",
                process.pid
            ))
            .command(format!("kill -CONT {}", process.pid)),
        ),
        _ if lock.age_ms.is_none_or(|age_ms| age_ms < HELD_MS_MAX) => None,
        Some(process) => Some(
            Finding::warning(
                "lock",
                format!("{holder} has held the write lock{since}: {}", process.command),
                "Other writers give up after 10 seconds, or POSTE_LOCK_TIMEOUT, and name the holder.",
            )
            .advice("check what it does; ending it loses no stored mail")
            .command(format!("kill {}", process.pid)),
        ),
        None => Some(
            Finding::warning(
                "lock",
                format!("the write lock is held{since}, and its last known holder, {holder}, is not here"),
                "Another process holds it: another user's, one in another container, or one that is not poste.",
            )
            .advice("find it: fuser -v on write.lock, or look in the other container"),
        ),
    }
}

/// A long read keeps the write-ahead log from being emptied.
pub(super) fn write_ahead_log(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let bytes = opened.store.wal_bytes();
    if bytes <= WAL_BYTES_FAR {
        return Ok(());
    }
    let database = scene.place.path.join("office.db");
    let openers = processes::who_has_open(&database).map_err(|error| Error::io(&database, error))?;
    scene.add(large_wal(bytes, &openers));
    Ok(())
}

fn large_wal(bytes: u64, openers: &Openers) -> Finding {
    const SHOWN_MAX: usize = 5;
    let what = format!("office.db-wal has {}; a writer empties it above {}", size(bytes), size(WAL_BYTES_MAX));
    let hidden = match openers.hidden {
        0 => String::new(),
        hidden => format!(" {hidden} processes of other users could not be inspected."),
    };
    if openers.processes.is_empty() {
        let meaning = format!("The last writer was killed, or a reader held it until a moment ago.{hidden}");
        return Finding::note("wal", what, meaning).with_fix(Fix::Checkpoint);
    }
    let names: Vec<String> = openers.processes.iter().take(SHOWN_MAX).map(Process::to_string).collect();
    let meaning = format!(
        "One of these does not finish reading, which slows down every command that opens the office: {}.{hidden}",
        names.join(", ")
    );
    let oldest = openers.processes[0].pid;
    Finding::warning("wal", what, meaning)
        .advice("end the oldest one that should not be running; the next writer empties the file")
        .command(format!("kill {oldest}"))
        .with_fix(Fix::Checkpoint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    fn held(age_ms: i64) -> LockState {
        LockState { held: true, holder: Some("pid 7 (poste send)".to_owned()), pid: Some(7), age_ms: Some(age_ms) }
    }

    fn process(stopped: bool) -> Option<Process> {
        Some(Process { pid: 7, command: "poste send".to_owned(), stopped, running_ms: Some(90_000) })
    }

    #[test]
    fn a_lock_is_judged_by_its_holder() {
        let severity = |lock: &LockState, process| judge(lock, process, false).map(|finding| finding.severity);
        assert_eq!(severity(&held(5), process(false)), None, "an ordinary writer is no problem");
        assert_eq!(severity(&held(HELD_MS_MAX), process(false)), Some(Severity::Warning));
        assert_eq!(severity(&held(5), process(true)), Some(Severity::Problem));
        let stopped = judge(&held(5), process(true), false).unwrap();
        assert!(stopped.advice.is_some_and(|advice| advice.contains("kill -KILL 7")), "a signal it can receive");
        assert_eq!(severity(&held(HELD_MS_MAX), None), Some(Severity::Warning));
        let free = LockState { held: false, ..held(HELD_MS_MAX) };
        assert_eq!(severity(&free, None), None, "the name of a dead process is harmless");
        assert_eq!(judge(&free, None, true).map(|finding| finding.severity), Some(Severity::Note));
    }

    #[test]
    fn a_long_reader_is_named() {
        let openers = Openers { processes: process(false).into_iter().collect(), hidden: 2 };
        let finding = large_wal(WAL_BYTES_FAR + 1, &openers);
        assert!(finding.meaning.contains("pid 7 (poste send, for 1m)"), "{finding:?}");
        assert!(finding.meaning.contains("2 processes of other users"));
        assert_eq!(finding.command.as_deref(), Some("kill 7"));
        assert_eq!(large_wal(WAL_BYTES_FAR + 1, &Openers::default()).severity, Severity::Note);
    }
}
