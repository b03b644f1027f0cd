//! A writer stopped while it holds the lock: the others name it, readers continue, and all recover when it continues or
//! is killed.

use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::acts::{Act, Bases, acts};
use crate::check;
use crate::desk::{self, Desk};
use crate::rig::{Result, Rig, Tally};
use crate::strace::{self, Call};

const BUSY: i32 = 6;
const COMES_UP_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy)]
enum Then {
    Woken,
    Killed,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let folder = rig.memory.join("stopped");
    let bases = Bases::make(rig, &folder.join("bases"))?;
    let all = acts(&folder.join("files"))?;
    let act = all.iter().find(|act| act.name == "send").ok_or("there is no command send")?;
    let recorded = bases.copy(act.base, &folder.join("recorded"))?;
    let calls = under_the_lock(strace::record(&recorded, act.program(&rig.sound), act, &folder.join("trace"))?);
    let calls = Rig::sample(&mut rig.rng("stopped"), calls, rig.pick(2, 40));
    tally.expect(2 * calls.len());
    for call in &calls {
        for then in [Then::Woken, Then::Killed] {
            let desk = bases.copy(act.base, &folder.join("desk"))?;
            if let Err(violation) = torture(rig, &desk, act, call, then)? {
                tally.violation(format!("stopped before {call}, then {then:?}: {violation}"));
            }
            tally.point();
            if tally.is_enough() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Writes and syncs between taking the lock and ringing the bell.
fn under_the_lock(calls: Vec<Call>) -> Vec<Call> {
    let locked = calls.into_iter().skip_while(|call| call.name != "flock");
    let until_bell = locked.take_while(|call| !call.rings_the_bell());
    // The first write after the lock is the holder's name, so errors name it from the second on.
    until_bell.filter(|call| matches!(call.name.as_str(), "pwrite64" | "fsync" | "fdatasync")).skip(1).collect()
}

fn torture(rig: &Rig, desk: &Desk, act: &Act, call: &Call, then: Then) -> Result<Result> {
    let program = act.program(&rig.tortured);
    let traced = format!("trace={}", call.name);
    let inject = format!("inject={}:signal=STOP:when={}", call.name, call.nth);
    let options = ["-e", &traced, "-e", &inject];
    let strace = desk::start(&mut strace::command(desk, program, act, &options, Path::new("/dev/null"))?)?;
    let Some(stopped) = wait_until_stopped(&strace) else {
        let run = desk::finish(strace)?;
        return Ok(Err(format!("it never stopped, {}", run.told())));
    };
    let judged = others(rig, desk, stopped);
    let signal = match then {
        Then::Woken => Signal::CONT,
        Then::Killed => Signal::KILL,
    };
    kill_process(stopped, signal).map_err(|error| error.to_string())?;
    let run = desk::finish(strace)?;
    if let Err(violation) = judged? {
        return Ok(Err(violation));
    }
    if matches!(then, Then::Woken) && !run.is_ok() {
        return Ok(Err(format!("woken, it ended with {}", run.told())));
    }
    let after = desk.run(&rig.tortured.poste, &["send", "b", "after", "--as", "a"])?;
    if !after.is_ok() {
        return Ok(Err(format!("afterwards a send ended with {}", after.told())));
    }
    let acknowledged: &[String] = if run.is_ok() { &act.ids } else { &[] };
    Ok(check::sound(&desk.office(), acknowledged).map(|_| ()).map_err(|broken| broken.to_string()))
}

/// A writer is told which process is in the way; a reader is not blocked.
fn others(rig: &Rig, desk: &Desk, stopped: Pid) -> Result<Result> {
    let program = &rig.tortured.poste;
    let other = desk.run(program, &["send", "b", "beside", "--as", "a", "--lock-timeout", "300ms"])?;
    let named = format!("pid {} ", stopped.as_raw_nonzero());
    if other.code != Some(BUSY) || !other.err.contains(&named) {
        return Ok(Err(format!("beside {named}a send ended with {}", other.told())));
    }
    let reader = desk.run(program, &["inbox", "--as", "b"])?;
    Ok(if reader.is_ok() { Ok(()) } else { Err(format!("a reader ended with {}", reader.told())) })
}

/// The traced process, once it is in a lasting stop.
fn wait_until_stopped(strace: &Child) -> Option<Pid> {
    let started = Instant::now();
    let mut stops_in_a_row = 0;
    while started.elapsed() < COMES_UP_WITHIN {
        std::thread::sleep(Duration::from_millis(10));
        let traced = traced_by(strace.id());
        match traced {
            Some(pid) if is_stopped(pid) => stops_in_a_row += 1,
            _ => stops_in_a_row = 0,
        }
        if stops_in_a_row >= 10 {
            return traced;
        }
    }
    None
}

fn status(pid: &str) -> String {
    std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default()
}

fn traced_by(tracer: u32) -> Option<Pid> {
    let wanted = format!("TracerPid:\t{tracer}\n");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    pids.find(|pid| status(pid).contains(&wanted)).and_then(|pid| Pid::from_raw(pid.parse().ok()?))
}

fn is_stopped(pid: Pid) -> bool {
    let text = status(&pid.as_raw_nonzero().to_string());
    text.contains("State:\tT") || text.contains("State:\tt")
}
