//! Many small worlds: three replicas, one sequencer, a random history and every fault of `poste_testkit::sim`.
//!
//! `POSTE_SEED=n` replays one seed, `POSTE_SEEDS=n` runs more of them.

use std::sync::Mutex;

use poste_core::fold::Verdict;
use poste_core::log::Proposal;
use poste_core::store::clock::Clock as _;
use poste_core::store::table_digest::digest;
use poste_core::{Error, Position};
use poste_testkit::history::{Generator, TimeStep};
use poste_testkit::invariants::{self, Violation};
use poste_testkit::seeds;
use poste_testkit::sim::{FAULT_NAMES, Faults, FaultsMet, SimLog, Simulation};

const SEEDS: u64 = 160;
const REPLICAS: usize = 3;
const STEPS: usize = 60;
/// How often one replica is checked amid the faults.
const STEPS_BETWEEN_LOOKS: usize = 20;
const FULL_CHECK_EVERY: u64 = 4;

#[derive(Debug, Default)]
struct Tally {
    answered: u64,
    accepted: u64,
    repeated: u64,
    given_up: u64,
    ticks_refused: u64,
    ticks: u64,
    faults: FaultsMet,
}

#[test]
fn replicas_agree_whatever_fails_between_them() {
    let tally = Mutex::new(Tally::default());
    seeds::run("simulation", SEEDS, |seed| simulate(seed, &tally));
    if !seeds::is_full_run() {
        return;
    }
    // The simulation must not degrade into one in which nothing happens or nothing fails.
    let tally = tally.into_inner().unwrap();
    assert!(tally.accepted * 100 >= tally.answered * 40, "too little is accepted: {tally:?}");
    assert!(tally.repeated * 100 >= tally.answered, "too few retries found their first try: {tally:?}");
    for fault in FAULT_NAMES {
        assert!(tally.faults.get(fault).is_some_and(|times| *times >= 20), "{fault}: too rare: {tally:?}");
    }
    assert!(tally.given_up > 0, "no proposer ever gave up: {tally:?}");
    assert!(tally.ticks_refused > 0 && tally.ticks > tally.ticks_refused, "ticks never raced: {tally:?}");
}

fn simulate(seed: u64, tally: &Mutex<Tally>) -> Result<(), String> {
    let mut world = Simulation::new(seed, REPLICAS, Faults::ROUGH).map_err(|error| error.to_string())?;
    let mut generator = Generator::new(seed);
    for step in 0..STEPS {
        one_step(&mut world, &mut generator, step).map_err(|why| format!("step {step}: {why}"))?;
    }
    world.heal().map_err(|error| format!("healing: {error}"))?;
    after_healing_everybody_is_heard(&mut world, &mut generator)?;
    let fine = |violations: Result<Vec<Violation>, Error>| none(violations).map_err(|why| format!("healed: {why}"));
    fine(invariants::of_simulation(&world))?;
    let healed = world.replicas[0].store();
    // Another refold costs as much as a replica; recovering lost stores has already tested most of it.
    let looks_closer = seed.is_multiple_of(FULL_CHECK_EVERY) || seeds::is_replay();
    fine(if looks_closer { invariants::full(healed) } else { invariants::quick(healed) })?;
    count(&world, tally).map_err(|error| error.to_string())
}

fn one_step(world: &mut Simulation, generator: &mut Generator, step: usize) -> Result<(), String> {
    let told = |error: Error| error.to_string();
    move_clock(world, generator);
    world.disturb().map_err(told)?;
    let replica = world.some_replica();
    let proposal = generator.next(world.replicas[replica].store(), world.sequencer.now()).map_err(told)?;
    let outcome = world.propose(replica, &proposal).map_err(|error| format!("{error}, proposing {proposal:?}"))?;
    if let Some(outcome) = &outcome {
        generator.learn(&proposal, outcome);
    }
    if step.is_multiple_of(STEPS_BETWEEN_LOOKS) || seeds::is_replay() {
        none(invariants::quick(world.replicas[replica].store()))
            .map_err(|why| format!("{why}, after {proposal:?} → {outcome:?}"))?;
    }
    Ok(())
}

/// The sequencer's time is the log's; it has only a wall clock, which may be set.
fn move_clock(world: &Simulation, generator: &mut Generator) {
    match generator.time_step() {
        TimeStep::None => {}
        TimeStep::Passes(ms) => world.clock.advance(ms),
        TimeStep::WallStep(ms) => world.clock.step_wall(ms),
        TimeStep::Reboot(ms) => world.clock.reboot(ms),
    }
}

/// I11: once the faults have ended, every proposal is answered at the first try.
fn after_healing_everybody_is_heard(world: &mut Simulation, generator: &mut Generator) -> Result<(), String> {
    let given_up = world.given_up;
    for replica in 0..REPLICAS {
        let proposal: Proposal = generator
            .next(world.replicas[replica].store(), world.sequencer.now())
            .map_err(|error| error.to_string())?;
        world.propose(replica, &proposal).map_err(|error| format!("healed: {error}"))?;
    }
    if world.given_up != given_up {
        return Err("somebody was not answered after the faults were over".to_owned());
    }
    world.catch_up().map_err(|error| error.to_string())
}

fn none(violations: Result<Vec<Violation>, Error>) -> Result<(), String> {
    let violations = violations.map_err(|error| format!("checking failed: {error}"))?;
    if violations.is_empty() {
        return Ok(());
    }
    Err(violations.iter().map(Violation::to_string).collect::<Vec<_>>().join("\n  "))
}

fn count(world: &Simulation, tally: &Mutex<Tally>) -> Result<(), Error> {
    let tables = world.replicas[0].store().tables()?;
    let mut tally = tally.lock().unwrap();
    tally.given_up += world.given_up;
    for (fault, times) in world.logs.iter().flat_map(SimLog::faults_met) {
        *tally.faults.entry(fault).or_default() += times;
    }
    for acknowledged in &world.acknowledged {
        tally.answered += 1;
        tally.accepted += u64::from(matches!(acknowledged.outcome.verdict, Verdict::Accepted(_)));
        tally.repeated += u64::from(acknowledged.outcome.repeat);
    }
    for record in world.sequencer.records() {
        if record.sealed.envelope.name == "tick" {
            tally.ticks += 1;
            tally.ticks_refused += u64::from(tables.refusal(record.position)?.is_some());
        }
    }
    Ok(())
}

#[test]
fn the_same_seed_gives_the_same_log() {
    let run = || {
        let mut world = Simulation::new(11, REPLICAS, Faults::ROUGH).unwrap();
        let mut generator = Generator::new(11);
        for step in 0..STEPS {
            one_step(&mut world, &mut generator, step).unwrap();
        }
        world.heal().unwrap();
        (world.sequencer.last(), digest(world.replicas[1].store().conn()).unwrap())
    };
    assert_eq!(run(), run());
}

#[test]
fn an_office_that_follows_can_do_what_an_office_can() {
    let mut world = Simulation::new(5, 2, Faults::NONE).unwrap();
    let mut generator = Generator::new(5);
    for _ in 0..30 {
        world.clock.advance(10);
        let proposal = generator.next(world.replicas[0].store(), world.clock.wall()).unwrap();
        world.propose(0, &proposal).unwrap().expect("nothing fails here");
    }
    let last = world.replicas[0].head().unwrap();
    assert_eq!(world.replicas[1].head().unwrap().position, Position(0), "it has not followed yet");
    world.replicas[1].follow().unwrap();
    assert_eq!(world.replicas[1].head().unwrap(), last);
    let ahead = &world.replicas[0];
    assert_eq!(ahead.now().unwrap(), world.clock.wall());
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.db");
    assert_eq!(ahead.snapshot(&copy).unwrap(), last);
    let copied = rusqlite::Connection::open(&copy).unwrap();
    assert_eq!(digest(&copied).unwrap(), digest(ahead.store().conn()).unwrap());
}
