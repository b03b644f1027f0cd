//! Tests the harnesses themselves: programs with one fault each, and the harness that has to notice it.

use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use crate::harness::{
    clocks, crowd, damage, errno, full_disk, kill, long_reader, power, replaced, stopped, versions, wake,
};
use crate::rig::{Form, Programs, Result, Rig, Tally};

/// A fault built into the program, by its name in `POSTE_SABOTAGE`, and the harness that must notice it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bite {
    pub sabotage: &'static str,
    pub what: &'static str,
    pub harness: &'static str,
    form: Form,
    /// Whether it is part of the short form.
    pub is_short: bool,
    run: fn(&Rig, &Tally) -> Result,
}

/// The result of one sabotage.
#[derive(Debug)]
pub(crate) struct Bitten {
    pub bite: Bite,
    /// The first violation, if the sabotage was noticed.
    pub caught: Option<String>,
    pub error: Option<String>,
    /// Points and images until then.
    pub after: u64,
    pub took: Duration,
}

macro_rules! act {
    ($harness:ident, $name:literal) => {
        |rig, tally| $harness::run_acts(rig, tally, |act| act.name == $name)
    };
}

macro_rules! story {
    ($name:literal) => {
        |rig, tally| power::run_stories(rig, tally, &[$name])
    };
}

const fn bite(
    sabotage: &'static str,
    what: &'static str,
    harness: &'static str,
    form: Form,
    run: fn(&Rig, &Tally) -> Result,
) -> Bite {
    Bite { sabotage, what, harness, form, is_short: false, run }
}

impl Bite {
    const fn short(self) -> Self {
        Self { is_short: true, ..self }
    }
}

use Form::{Full, Short};

pub(crate) const ALL: &[Bite] = &[
    bite("synchronous-normal", "commits without a sync", "power", Full, story!("day")).short(),
    bite("blob-after-record", "the record first, its blob later", "power", Full, story!("day")),
    bite("blob-unsynced", "a blob without a sync", "power", Full, story!("day")),
    bite("blob-folder-unsynced", "a blob's name without a sync", "power", Full, story!("day")),
    bite("archive-unsynced", "an archive without a sync", "power", Full, story!("archive")),
    bite("wal-not-erased", "what is redacted stays in the WAL", "kill", Short, act!(kill, "redact")),
    bite("ok-before-commit", "the answer comes before the commit", "kill", Full, act!(kill, "send")).short(),
    bite("no-dedupe", "an id seen before is not looked up", "kill", Full, act!(kill, "send")),
    bite("cursor-outside-transaction", "the cursor is moved after the commit", "kill", Full, act!(kill, "send")),
    bite("clock-in-fold", "the fold reads the clock", "kill", Full, act!(kill, "claim")),
    bite("migration-in-pieces", "a migration outside a transaction", "kill", Full, act!(kill, "migrate")),
    bite("commit-error-ignored", "a failed commit is answered as done", "errno", Full, act!(errno, "send")),
    bite("room-unchecked", "a full disk is found out by SIGBUS", "full-disk", Short, full_disk::run),
    bite("order-of-a-map", "the fold takes a map's order", "crowd", Short, crowd::run),
    bite("lock-not-taken", "writers do not take the lock", "stopped", Short, stopped::run),
    bite("no-checkpoint", "the WAL is never emptied", "long-reader", Short, long_reader::run),
    bite("token-unchecked", "any token will do", "clocks", Short, clocks::run).short(),
    bite("lost-tick", "what is due is not settled", "clocks", Short, clocks::run),
    bite("time-backwards", "time follows the wall clock back", "clocks", Short, clocks::run),
    bite("leap-taken", "a leap of a year is taken unasked", "clocks", Short, clocks::run),
    bite("version-unchecked", "an older program writes a newer file", "versions", Short, versions::run),
    bite("identity-unchecked", "a replaced office is written", "replaced", Short, replaced::run),
    bite("office-made-anew", "a missing office is created silently", "replaced", Short, replaced::run),
    bite("content-unchecked", "verify does not read content", "damage", Short, damage::run),
    bite("tables-unchecked", "verify does not compare tables", "damage", Short, damage::run),
    bite("bell-before-commit", "the bell rings before the commit", "wake", Short, wake::run),
];

/// Tortures the sabotaged program until a violation is found.
pub(crate) fn run(rig: &Rig, programs: &Path, bite: Bite) -> Bitten {
    let started = Instant::now();
    let tally = Tally::new(bite.harness, true);
    let rig = Rig {
        sound: rig.sound.clone(),
        tortured: Programs::sabotaged(programs, bite.sabotage),
        stops_early: true,
        form: bite.form,
        seed: rig.seed,
        memory: rig.memory.join(bite.sabotage),
        disk: rig.disk.join(bite.sabotage),
    };
    let made = [&rig.memory, &rig.disk].into_iter().try_for_each(std::fs::create_dir_all);
    let ran = made.map_err(|error| error.to_string()).and_then(|()| (bite.run)(&rig, &tally));
    tally.finish();
    let _ = [&rig.memory, &rig.disk].into_iter().try_for_each(std::fs::remove_dir_all);
    Bitten {
        bite,
        caught: tally.violations().into_iter().next(),
        error: ran.err(),
        after: tally.points.load(Relaxed) + tally.images.load(Relaxed),
        took: started.elapsed(),
    }
}

/// The sabotaged program without a sabotage is sound. This shows that the fault is noticed, not the program.
pub(crate) fn control(rig: &Rig, programs: &Path) -> Vec<String> {
    let sound = Rig {
        sound: rig.sound.clone(),
        tortured: Programs::sabotaged(programs, ""),
        stops_early: false,
        form: Short,
        seed: rig.seed,
        memory: rig.memory.join("control"),
        disk: rig.disk.join("control"),
    };
    type Harness = fn(&Rig, &Tally) -> Result;
    let harnesses: &[(&'static str, Harness)] =
        &[("kill", kill::run), ("clocks", clocks::run), ("damage", damage::run), ("stopped", stopped::run)];
    let mut violations = Vec::new();
    for (name, run) in harnesses {
        let tally = Tally::new(name, false);
        let made = [&sound.memory, &sound.disk].into_iter().try_for_each(std::fs::create_dir_all);
        let ran = made.map_err(|error| error.to_string()).and_then(|()| run(&sound, &tally));
        tally.finish();
        violations.extend(ran.err());
        violations.extend(tally.violations());
    }
    violations
}
