//! Today's program and a future one in one office, at the same time and one after the other.

use std::process::Child;

use crate::check;
use crate::desk::{self, Desk, Run};
use crate::rig::{Result, Rig, Tally};

const NEEDS_UPGRADE: i32 = 10;
const EACH: usize = 12;

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let rounds = rig.pick(1, 10);
    tally.expect(rounds + 1);
    for _ in 0..rounds {
        at_once(rig, tally)?;
        if tally.is_enough() {
            return Ok(());
        }
    }
    one_after_the_other(rig, tally)
}

fn office(rig: &Rig) -> Result<Desk> {
    Desk::with_agents(rig.disk.join("versions"), &rig.sound.poste, &["a", "b"])
}

/// Both kinds start together. The newer ones all succeed; an older one succeeds before the migration, or not at all.
fn at_once(rig: &Rig, tally: &Tally) -> Result {
    let desk = office(rig)?;
    let before = check::sound(&desk.office(), &[]).map_err(|broken| broken.to_string())?;
    let mut children: Vec<(bool, String, Child)> = Vec::new();
    for n in 0..EACH {
        for newer in [false, true] {
            let program = if newer { &rig.tortured.next } else { &rig.tortured.poste };
            let id = format!("{}-{n}", if newer { "next" } else { "now" });
            let mut command = desk.command(program, &["send", "b", "news", "--as", "a", "--id", &id]);
            children.push((newer, id, desk::start(&mut command)?));
        }
    }
    let mut acknowledged = Vec::new();
    for (newer, id, child) in children {
        let run = desk::finish(child)?;
        match run.code {
            Some(0) => acknowledged.push(id),
            Some(NEEDS_UPGRADE) if !newer => {}
            _ => tally.violation(format!("{id} ended with {}", run.told())),
        }
    }
    match check::sound(&desk.office(), &acknowledged) {
        Ok(facts) => {
            let grown = facts.records - before.records;
            tally.check(grown == acknowledged.len() as u64, || {
                format!("{grown} records for {} answers", acknowledged.len())
            });
        }
        Err(broken) => tally.violation(format!("old and new at once: {broken}")),
    }
    tally.point();
    Ok(())
}

/// After the migration, the older program can read but not write, and says what to do.
fn one_after_the_other(rig: &Rig, tally: &Tally) -> Result {
    let desk = office(rig)?;
    let (now, next) = (&rig.tortured.poste, &rig.tortured.next);
    desk.must(next, &["send", "b", "news", "--as", "a"])?;
    let before = check::sound(&desk.office(), &[]).map_err(|broken| broken.to_string())?;
    for args in [&["send", "b", "old", "--as", "a"][..], &["claim", "1", "--as", "b"], &["register", "c"]] {
        let run = desk.run(now, args)?;
        let says = run.err.contains("upgrade");
        tally.check(run.code == Some(NEEDS_UPGRADE) && says, || wrote(args, &run));
    }
    let reader = desk.run(now, &["inbox", "--as", "b"])?;
    tally.check(reader.is_ok(), || format!("the older program's reader ended with {}", reader.told()));
    match check::sound(&desk.office(), &[]) {
        Ok(after) => tally.check(after == before, || "the older program has written".to_owned()),
        Err(broken) => tally.violation(format!("after the older program, {broken}")),
    }
    desk.must(next, &["send", "b", "more", "--as", "a"])?;
    tally.point();
    Ok(())
}

fn wrote(args: &[&str], run: &Run) -> String {
    format!("on a newer office, the older program's {} ended with {}", args.join(" "), run.told())
}
