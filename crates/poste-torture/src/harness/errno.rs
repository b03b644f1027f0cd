//! System calls that fail: at the n-th call, and from the n-th on.
//!
//! There must be no panic and no signal, and the exit code must be documented and true: success only for what is there,
//! "it failed" only for what is not, "unknown" and "disk full" for the rest. Without the fault, the same command
//! succeeds.

use crate::acts::{Act, Bases, acts};
use crate::aftermath;
use crate::check::{self, Facts};
use crate::desk::Run;
use crate::rig::{Result, Rig, Tally, on_every_core};
use crate::strace::{self, Call};

const UNKNOWN_OUTCOME: i32 = 8;
const DISK_FULL: i32 = 9;
const SHORT_POINTS: usize = 12;

/// What may happen to a call. With `onward`, also to all later ones of its name: a disk that stays full.
#[derive(Debug, Clone, Copy)]
struct Fault {
    errno: &'static str,
    onward: bool,
}

const fn once(errno: &'static str) -> Fault {
    Fault { errno, onward: false }
}

const fn onward(errno: &'static str) -> Fault {
    Fault { errno, onward: true }
}

fn faults(call: &str) -> &'static [Fault] {
    const WRITE: &[Fault] = &[
        once("ENOSPC"),
        onward("ENOSPC"),
        once("EDQUOT"),
        onward("EDQUOT"),
        once("EIO"),
        onward("EIO"),
        once("EROFS"),
        once("EINTR"),
    ];
    const OPEN: &[Fault] =
        &[once("ENOSPC"), once("EIO"), once("EMFILE"), onward("EMFILE"), once("EROFS"), once("EINTR")];
    const SYNC: &[Fault] = &[once("EIO"), onward("EIO"), once("ENOSPC"), once("EDQUOT"), once("EINTR")];
    const NAME: &[Fault] = &[once("ENOSPC"), once("EIO"), once("EROFS"), once("EDQUOT")];
    const READ: &[Fault] = &[once("EIO"), onward("EIO"), once("EINTR")];
    const LOCK: &[Fault] = &[once("EINTR"), once("EIO")];
    match call {
        "pwrite64" | "write" | "ftruncate" => WRITE,
        "open" | "openat" => OPEN,
        "fsync" | "fdatasync" => SYNC,
        "rename" | "renameat" | "mkdir" | "mkdirat" | "unlink" | "unlinkat" | "linkat" => NAME,
        "pread64" | "read" => READ,
        "flock" => LOCK,
        _ => &[],
    }
}

/// What to inject into which call. Of calls in a row that do the same to the same file, like the pages of a commit, the
/// first and the last suffer every fault, and those between take turns: none is left out, and no fault strikes all.
fn strikes(calls: &[Call]) -> impl Iterator<Item = (&Call, Fault)> {
    let same = |one: &Call, next: &Call| one.name == next.name && one.file() == next.file();
    calls.chunk_by(same).flat_map(|row| {
        row.iter().enumerate().flat_map(move |(n, call)| {
            let faults = faults(&call.name);
            let is_edge = n == 0 || n + 1 == row.len();
            let turn = move |i: usize| is_edge || i == n % faults.len();
            faults.iter().enumerate().filter(move |(i, _)| turn(*i)).map(move |(_, fault)| (call, *fault))
        })
    })
}

struct Point<'a> {
    act: &'a Act,
    call: Call,
    fault: Fault,
    once: &'a Facts,
}

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    run_acts(rig, tally, |_| true)
}

pub(crate) fn run_acts(rig: &Rig, tally: &Tally, wanted: impl Fn(&Act) -> bool) -> Result {
    let folder = rig.memory.join("errno");
    let acts: Vec<Act> = acts(&folder.join("files"))?.into_iter().filter(|act| wanted(act)).collect();
    let bases = Bases::make(rig, &folder.join("bases"))?;
    let mut rng = rig.rng("errno");
    let mut recorded = Vec::new();
    for act in &acts {
        let desk = bases.copy(act.base, &folder.join("recorded"))?;
        let calls = strace::record(&desk, act.program(&rig.tortured), act, &folder.join("trace"))?;
        let once = check::sound(&desk.office(), &act.ids).map_err(|broken| broken.to_string())?;
        recorded.push((act, own_calls(calls), once));
    }
    let mut points = Vec::new();
    for (act, calls, once) in &recorded {
        let strike = |(call, fault): (&Call, Fault)| Point { act, call: call.clone(), fault, once };
        let of_act: Vec<Point<'_>> = strikes(calls).map(strike).collect();
        points.extend(if rig.is_short() { Rig::sample(&mut rng, of_act, SHORT_POINTS) } else { of_act });
    }
    if rig.stops_early {
        points.reverse(); // a fault shows first in what is done last
    }
    tally.expect(points.len());
    on_every_core(&points, tally, |core, point| {
        let desk = bases.copy(point.act.base, &folder.join(format!("core-{core}")))?;
        let trace = folder.join(format!("trace-{core}"));
        let Fault { errno, onward } = point.fault;
        let program = point.act.program(&rig.tortured);
        let (run, struck) = strace::fail_at(&desk, program, point.act, &point.call, errno, onward, &trace)?;
        let judged = if struck { judge(point, &run, aftermath::is_kept(&desk, point.act, &run)) } else { Ok(false) };
        let judged = match judged {
            Ok(were_there) if struck => aftermath::goes_on(rig, &desk, point.act, were_there, point.once)?,
            other => other.map(|_| ()),
        };
        if let Err(violation) = judged {
            let plus = if onward { " and onward" } else { "" };
            tally.violation(format!("{}, {errno} at {}{plus}: {violation}", point.act.name, point.call));
        }
        tally.point();
        Ok(())
    })
}

/// The program's own calls. Before it first looks for the office, the loader is at work, whose failures are not ours.
fn own_calls(calls: Vec<Call>) -> Vec<Call> {
    let first = calls.iter().position(|call| call.line.contains("/.poste")).unwrap_or(0);
    calls.into_iter().skip(first).collect()
}

/// Checks that the end of the command tells the truth. Returns whether its records are there.
fn judge(point: &Point<'_>, run: &Run, kept: Result<bool>) -> Result<bool> {
    if !run.is_documented() {
        return Err(format!("ended with {}", run.told()));
    }
    let were_there = kept?;
    let code = run.code.unwrap_or_default();
    // SQLite recognizes a full disk by ENOSPC from a write. It treats a quota, or an open or a sync without room, as an
    // I/O error.
    let is_full = point.fault.errno == "ENOSPC" && matches!(point.call.name.as_str(), "pwrite64" | "write");
    let may_be_silent = point.call.name == "write" && point.fault.onward;
    if code != 0 && run.err.trim().is_empty() && !may_be_silent && !is_talk(&point.call) {
        return Err(format!("exit {code}, and no word why"));
    }
    // There is no room for any write from there on, so there may be no room to show what was stored, either.
    let is_unshown = may_be_silent && were_there && code == UNKNOWN_OUTCOME;
    if is_full && !matches!(code, 0 | DISK_FULL) && !is_unshown && !is_talk(&point.call) {
        return Err(format!("no room, and yet {}", run.told()));
    }
    let says_no = !matches!(code, 0 | UNKNOWN_OUTCOME | DISK_FULL);
    let says_half = run.err.contains("redacted, but not yet erased from every file");
    if says_no && were_there && !says_half && !aftermath::acknowledges(run) && !is_talk(&point.call) {
        return Err(format!("it is there, and yet {}", run.told()));
    }
    Ok(were_there)
}

/// Printing the answer or the error. If that fails, the exit code is the only way to report.
fn is_talk(call: &Call) -> bool {
    call.name == "write" && (call.line.contains("write(1<") || call.line.contains("write(2<"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_in_a_row_take_turns_and_every_call_suffers() {
        let call = |nth, file| Call { name: "pwrite64".into(), nth, line: format!("pwrite64({file}, ...") };
        let mut calls: Vec<Call> = (1..=20).map(|nth| call(nth, "5</wal>")).collect();
        calls.push(call(21, "6</db>"));
        let struck = |nth| strikes(&calls).filter(|(call, _)| call.nth == nth).count();
        assert_eq!([struck(1), struck(20), struck(21)], [8; 3]);
        assert!((2..20).all(|nth| struck(nth) == 1));
        let between: Vec<_> = strikes(&calls[1..19]).map(|(_, Fault { errno, onward })| (errno, onward)).collect();
        let missing = faults("pwrite64").iter().find(|fault| !between.contains(&(fault.errno, fault.onward)));
        assert!(missing.is_none(), "{missing:?}");
    }
}
