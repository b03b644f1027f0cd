//! SIGKILL before every system call of every command that writes.
//!
//! Afterwards, what was acknowledged is there, the office is sound, repeating the command has no second effect, and the
//! next command works.

use std::path::Path;

use crate::acts::{Act, Bases, acts};
use crate::aftermath;
use crate::check::{self, Facts};
use crate::desk::Desk;
use crate::rig::{Result, Rig, Tally, on_every_core};
use crate::strace::{self, Call};

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

/// Runs only some commands, to catch a sabotage faster.
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
        let calls = strace::where_to_kill(rig, &mut rng, calls, SHORT_POINTS);
        points.extend(calls.into_iter().map(|call| Point { act, call, once }));
    }
    if rig.stops_early {
        points.reverse(); // a fault shows first in what is done last
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
    let run = strace::kill_before(desk, act.program(&rig.tortured), act, &point.call)?;
    // If the call was not reached this time, the command must have succeeded.
    if !run.was_killed() && !run.is_ok() {
        return Ok(Err(format!("neither killed nor done, {}", run.told())));
    }
    match aftermath::is_kept(desk, act, &run) {
        Ok(were_there) => aftermath::goes_on(rig, desk, act, were_there, point.once),
        Err(violation) => Ok(Err(violation)),
    }
}

/// Whether strace is allowed to do what it has to.
pub(crate) fn strace_works(folder: &Path) -> Result {
    let trace = folder.join("trace-of-true");
    let status = std::process::Command::new("strace").args(["-f", "-qq", "-o"]).arg(&trace).arg("true").status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("strace is not allowed to trace here ({status})")),
        Err(error) => Err(format!("strace does not start: {error}")),
    }
}
