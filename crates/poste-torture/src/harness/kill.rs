//! SIGKILL before every system call of every command that writes.
//!
//! Afterwards: what was answered is there, the office is sound, the same command again has exactly the effect of
//! one, and the next command works.

use std::path::Path;

use crate::acts::{Act, Base, Bases, acts};
use crate::check::{self, Broken, Facts};
use crate::desk::{Desk, Run};
use crate::rig::{Result, Rig, Tally, on_every_core};
use crate::strace::{self, Call};

/// Calls after which the disk or the outside world is different: where the short form looks first.
const TELLING: &[&str] =
    &["pwrite64", "write", "fsync", "fdatasync", "ftruncate", "rename", "unlink", "flock", "mkdir", "openat", "close"];
const SHORT_POINTS: usize = 9;

struct Point<'a> {
    act: &'a Act,
    call: Call,
    /// What the office holds after the command ran once, undisturbed.
    once: &'a Facts,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    run_acts(rig, tally, |_| true)
}

/// Only some commands: to catch a sabotage faster.
pub(crate) fn run_acts(rig: &Rig, tally: &Tally, wanted: impl Fn(&Act) -> bool) -> Result {
    let folder = rig.memory.join("kill");
    let acts: Vec<Act> = acts(&folder.join("files"))?.into_iter().filter(|act| wanted(act)).collect();
    let bases = Bases::make(rig, &folder.join("bases"))?;
    let mut rng = rig.rng("kill");
    let mut recorded = Vec::new();
    for act in &acts {
        let desk = bases.copy(act.base, &folder.join("recorded"))?;
        let calls = strace::record(&desk, act.program(&rig.tortured), act, &folder.join("trace"))?;
        match check::sound(&desk.office(), &act.ids) {
            Ok(once) => recorded.push((act, calls, once)),
            Err(broken) => tally.violation(format!("{}, undisturbed: {broken}", act.name)),
        }
    }
    let mut points = Vec::new();
    for (act, calls, once) in &recorded {
        // Killing the exec kills strace's own child; the program has not begun.
        let calls: Vec<Call> = calls.iter().filter(|call| call.name != "execve").cloned().collect();
        let calls = if rig.is_short() {
            let telling = calls.into_iter().filter(|call| TELLING.contains(&call.name.as_str())).collect();
            Rig::sample(&mut rng, telling, SHORT_POINTS)
        } else {
            calls
        };
        points.extend(calls.into_iter().map(|call| Point { act, call, once }));
    }
    tally.expect(points.len());
    on_every_core(&points, tally, |core, point| {
        let desk = bases.copy(point.act.base, &folder.join(format!("core-{core}")))?;
        if let Err(violation) = torture(rig, &desk, point)? {
            tally.violation(format!("{} killed before {}: {violation}", point.act.name, point.call));
        }
        tally.point();
        Ok(())
    })
}

/// One kill and everything after it. The inner error is a violation.
fn torture(rig: &Rig, desk: &Desk, point: &Point<'_>) -> Result<Result> {
    let act = point.act;
    let program = act.program(&rig.tortured);
    let run = strace::kill_before(desk, program, act, &point.call)?;
    // A call that was not reached this time: then it must have gone well.
    if !run.was_killed() && !run.is_ok() {
        return Ok(Err(format!("neither killed nor done, {}", run.told())));
    }
    let were_there = match after_the_kill(desk, act, &run) {
        Ok(were_there) => were_there,
        Err(violation) => return Ok(Err(violation)),
    };
    let again = rerun(desk, rig, act)?;
    if !again.is_ok() {
        return Ok(Err(format!("the same command again ended with {}", again.told())));
    }
    if let Err(violation) = same_effect(&again, were_there) {
        return Ok(Err(violation));
    }
    let facts = match check::sound(&desk.office(), &act.ids) {
        Ok(facts) => facts,
        Err(broken) => return Ok(Err(format!("after the same command again, {broken}"))),
    };
    if let Err(violation) = compare(&facts, point.once) {
        return Ok(Err(violation));
    }
    next_command(desk, rig, act)
}

/// Checks what the kill left. Says whether the command's records were there.
fn after_the_kill(desk: &Desk, act: &Act, run: &Run) -> Result<bool> {
    let answered = run.answer().is_some();
    let acknowledged: &[String] = if answered { &act.ids } else { &[] };
    match check::sound(&desk.office(), acknowledged) {
        Ok(_) => {}
        Err(Broken::NoOffice(_)) if act.base == Base::Empty && !answered => return Ok(false),
        Err(broken) => return Err(format!("answered: {answered}, {broken}")),
    }
    let present = check::present(&desk.office(), &act.ids)?;
    if present.iter().any(|there| *there != present[0]) {
        return Err(format!("only a part of one transaction is there: {present:?}"));
    }
    Ok(present.first().copied().unwrap_or(false))
}

fn rerun(desk: &Desk, rig: &Rig, act: &Act) -> Result<Run> {
    let mut command = desk.command(act.program(&rig.tortured), &act.args);
    if let Some(input) = &act.input {
        crate::desk::input_from(&mut command, input)?;
    }
    crate::desk::finish(crate::desk::start(&mut command)?)
}

/// The answer to the repeat says that it is one, exactly when it is.
fn same_effect(again: &Run, were_there: bool) -> Result {
    let answer = again.answer().ok_or_else(|| format!("no answer: {}", again.out))?;
    let (repeat, repeats) = (answer.get("repeat"), answer.get("repeats"));
    let says = match (repeat.and_then(serde_json::Value::as_bool), repeats.and_then(serde_json::Value::as_u64)) {
        (Some(repeat), _) => repeat,
        (None, Some(repeats)) => repeats > 0,
        (None, None) => return Ok(()), // claim and done do not say
    };
    if says == were_there {
        return Ok(());
    }
    Err(format!("it was there: {were_there}, and the same command again says repeat: {says}"))
}

/// One effect, however often it was tried.
fn compare(facts: &Facts, once: &Facts) -> Result {
    if facts == once {
        return Ok(());
    }
    Err(format!("not the effect of one: {facts:?} instead of {once:?}"))
}

fn next_command(desk: &Desk, rig: &Rig, act: &Act) -> Result<Result> {
    let args: &[&str] = match act.base {
        Base::Empty => &["register", "c"],
        Base::Office | Base::LongWal => &["send", "b", "next", "--as", "a"],
    };
    let next = desk.run(act.program(&rig.tortured), args)?;
    if !next.is_ok() {
        return Ok(Err(format!("the next command ended with {}", next.told())));
    }
    Ok(check::sound(&desk.office(), &act.ids).map(|_| ()).map_err(|broken| format!("after the next command, {broken}")))
}

/// Whether strace may do here what it has to.
pub(crate) fn strace_works(folder: &Path) -> Result {
    let trace = folder.join("trace-of-true");
    let status = std::process::Command::new("strace").args(["-f", "-qq", "-o"]).arg(&trace).arg("true").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("strace is not allowed to trace here ({status})")),
        Err(error) => Err(format!("strace does not start: {error}")),
    }
}
