//! After a command was struck: what it acknowledged is there, and the office still works.

use serde_json::Value;

use crate::acts::{Act, Base};
use crate::check::{self, Broken, Facts};
use crate::desk::{self, Desk, Run};
use crate::rig::{Result, Rig};

/// Checks that what was acknowledged is there and the office is sound. Returns whether the command's records are there.
pub(crate) fn is_kept(desk: &Desk, act: &Act, run: &Run) -> Result<bool> {
    let answered = acknowledges(run);
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

/// Whether the caller was told that it is stored. An aborted batch reports what it has stored, perhaps nothing.
pub(crate) fn acknowledges(run: &Run) -> bool {
    let count = |answer: &Value, field: &str| answer.get(field).and_then(Value::as_u64);
    run.is_ok()
        || run.answer().is_some_and(|answer| match (count(&answer, "sent"), count(&answer, "repeats")) {
            (Some(sent), Some(repeats)) => sent + repeats > 0,
            _ => true,
        })
}

/// Checks that repeating the command has no second effect, and that the next command works. The inner error is a
/// violation.
pub(crate) fn goes_on(rig: &Rig, desk: &Desk, act: &Act, were_there: bool, once: &Facts) -> Result<Result> {
    let again = undisturbed(rig, desk, act)?;
    if !again.is_ok() {
        return Ok(Err(format!("the same command again ended with {}", again.told())));
    }
    if let Err(violation) = says_repeat(&again, were_there) {
        return Ok(Err(violation));
    }
    let facts = match check::sound(&desk.office(), &act.ids) {
        Ok(facts) => facts,
        Err(broken) => return Ok(Err(format!("after the same command again, {broken}"))),
    };
    if facts != *once {
        return Ok(Err(format!("not the effect of one: {facts:?} instead of {once:?}")));
    }
    next_command(rig, desk, act)
}

pub(crate) fn undisturbed(rig: &Rig, desk: &Desk, act: &Act) -> Result<Run> {
    let mut command = desk.command(act.program(&rig.tortured), &act.args);
    if let Some(input) = &act.input {
        desk::input_from(&mut command, input)?;
    }
    desk::finish(desk::start(&mut command)?)
}

/// The answer to a repeated command says that it is a repeat exactly when it is one.
fn says_repeat(again: &Run, were_there: bool) -> Result {
    let answer = again.answer().ok_or_else(|| format!("no answer: {}", again.out))?;
    let repeat = answer.get("repeat").and_then(Value::as_bool);
    let repeats = answer.get("repeats").and_then(Value::as_u64).map(|repeats| repeats > 0);
    // Claim and done do not say so.
    match repeat.or(repeats) {
        Some(says) if says != were_there => {
            Err(format!("it was there: {were_there}, and the same command again says repeat: {says}"))
        }
        _ => Ok(()),
    }
}

fn next_command(rig: &Rig, desk: &Desk, act: &Act) -> Result<Result> {
    let args: &[&str] = match act.base {
        Base::Empty => &["register", "c"],
        Base::Office | Base::LongWal | Base::Finished | Base::Archived | Base::Coordinated => {
            &["send", "b", "next", "--as", "a"]
        }
    };
    let next = desk.run(act.program(&rig.tortured), args)?;
    if !next.is_ok() {
        return Ok(Err(format!("the next command ended with {}", next.told())));
    }
    if let Err(broken) = check::sound(&desk.office(), &act.ids) {
        return Ok(Err(format!("after the next command, {broken}")));
    }
    let doctor = desk.run(act.program(&rig.sound), &["doctor", "--json"])?;
    Ok(if doctor.is_ok() { Ok(()) } else { Err(format!("doctor is not content: {}", doctor.out)) })
}
