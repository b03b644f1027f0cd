//! Many processes at once: hundreds of senders, and fifty claimers for one item, a thousand times.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::time::Instant;

use poste_core::fold::{Code, Verdict};
use poste_core::log::{Claim, Intent, MessageNo};
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::clock::SystemClock;

use crate::check;
use crate::desk::{self, Desk};
use crate::letters;
use crate::rig::{Result, Rig, Tally};

const CLAIMERS: usize = 50;
const CONFLICT: i32 = 5;

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let senders = rig.pick(150, 500);
    let races = rig.pick(1, 10);
    // A sabotaged program is raced as processes, because the library in this process is sound.
    let rounds = if rig.stops_early { 0 } else { rig.pick(60, 1_000) };
    tally.expect(senders + races + rounds);
    senders_at_once(rig, tally, senders)?;
    let desk = office_of_claimers(rig)?;
    process_races(rig, tally, &desk, races)?;
    claimers_in_rounds(tally, &desk.office(), rounds)?;
    everybody_is_told(rig, tally, &desk)?;
    if let Err(broken) = check::sound(&desk.office(), &[]) {
        tally.violation(format!("after the races, {broken}"));
    }
    Ok(())
}

fn senders_at_once(rig: &Rig, tally: &Tally, count: usize) -> Result {
    let desk = Desk::with_agents(rig.disk.join("crowd"), &rig.sound.poste, &["a", "b"])?;
    let started = Instant::now();
    let children: Vec<(String, Child)> = (0..count)
        .map(|number| {
            let id = format!("crowd-{number}");
            let args = ["send", "b", "news", "--as", "a", "--id", &id, "--lock-timeout", "60s", "--json"];
            Ok((id.clone(), desk::start(&mut desk.command(&rig.tortured.poste, &args))?))
        })
        .collect::<Result<_>>()?;
    let (mut acknowledged, mut numbers) = (Vec::new(), BTreeSet::new());
    for (id, child) in children {
        let run = desk::finish(child)?;
        tally.point();
        match run.answer().and_then(|answer| answer["number"].as_u64()) {
            Some(number) if run.is_ok() => {
                acknowledged.push(id);
                tally.check(numbers.insert(number), || format!("number {number} was given twice"));
            }
            _ => tally.violation(format!("one of {count} senders ended with {}", run.told())),
        }
    }
    tally.note(format!("{count} processes sent at once in {:.2} s", started.elapsed().as_secs_f64()));
    let contiguous: BTreeSet<u64> = (1..=acknowledged.len() as u64).collect();
    tally.check(numbers == contiguous, || "the numbers have gaps".to_owned());
    if let Err(broken) = check::sound(&desk.office(), &acknowledged) {
        tally.violation(format!("{count} senders at once: {broken}"));
    }
    Ok(())
}

fn claimer(number: usize) -> String {
    format!("claimer-{number}")
}

fn office_of_claimers(rig: &Rig) -> Result<Desk> {
    let names: Vec<String> = (0..CLAIMERS).map(claimer).collect();
    let mut agents = vec!["lead"];
    agents.extend(names.iter().map(String::as_str));
    Desk::with_agents(rig.disk.join("claimers"), &rig.sound.poste, &agents)
}

/// Whole processes race for one message.
fn process_races(rig: &Rig, tally: &Tally, desk: &Desk, races: usize) -> Result {
    for _ in 0..races {
        let send = ["send", "role:worker", "take it", "--type", "directive", "--as", "lead"];
        let number = desk.json(&rig.sound.poste, &send)?["number"].to_string();
        let children = (0..CLAIMERS)
            .map(|claimer_number| {
                let name = claimer(claimer_number);
                desk::start(&mut desk.command(&rig.tortured.poste, &["claim", &number, "--as", &name]))
            })
            .collect::<Result<Vec<Child>>>()?;
        let mut winners = 0;
        for child in children {
            let run = desk::finish(child)?;
            winners += usize::from(run.is_ok());
            tally.check(run.is_ok() || run.code == Some(CONFLICT), || format!("a claimer ended with {}", run.told()));
        }
        tally.check(winners == 1, || format!("{winners} of {CLAIMERS} processes won the same claim"));
        tally.point();
    }
    Ok(())
}

/// Fifty connections, one per thread, race round after round. SQLite would not see a difference to processes, which are
/// slower to start.
fn claimers_in_rounds(tally: &Tally, office: &Path, rounds: usize) -> Result {
    if rounds == 0 {
        return Ok(());
    }
    let started = Instant::now();
    let place = Place { path: office.to_owned(), clock: Arc::new(SystemClock), options: Options::default() };
    let barrier = Barrier::new(CLAIMERS + 1);
    let (number, winners) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let race = |name: String| -> Result {
        let mut office = place.open().map_err(|error| error.to_string())?;
        for round in 0..rounds {
            barrier.wait();
            let message = Some(MessageNo(number.load(SeqCst) as u64));
            let claim = Intent::Claim(Claim { message, max: 1, lease_ms: None, types: Vec::new() });
            let outcome = letters::proposal(&format!("race-{round}-{name}"), &name, claim)
                .and_then(|proposal| office.propose(&proposal, &Rules::none()).map_err(|error| error.to_string()));
            match outcome {
                Ok(outcome) => match outcome.verdict {
                    Verdict::Accepted(_) => drop(winners.fetch_add(1, SeqCst)),
                    Verdict::Rejected(why) if why.code == Code::AlreadyClaimed => {}
                    Verdict::Rejected(why) => tally.violation(format!("{name} was refused: {}", why.reason)),
                },
                Err(error) => tally.violation(format!("{name} could not claim: {error}")),
            }
            barrier.wait();
        }
        Ok(())
    };
    let lead = || -> Result {
        let mut office = place.open().map_err(|error| error.to_string())?;
        for round in 0..rounds {
            let sent = letters::send(&mut office, &format!("round-{round}"), "lead", "role:worker", "directive")?;
            number.store(usize::try_from(sent.0).unwrap_or(0), SeqCst);
            winners.store(0, SeqCst);
            barrier.wait();
            barrier.wait();
            let won = winners.load(SeqCst);
            tally.check(won == 1, || format!("{won} of {CLAIMERS} won message {sent}"));
            tally.point();
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let race = &race;
        let threads: Vec<_> = (0..CLAIMERS).map(|number| scope.spawn(move || race(claimer(number)))).collect();
        let led = lead();
        for thread in threads {
            thread.join().map_err(|_| "a claimer panicked".to_owned())??;
        }
        led
    })?;
    tally.note(format!("{CLAIMERS} claimers x {rounds} rounds in {:.1} s", started.elapsed().as_secs_f64()));
    Ok(())
}

/// One message for everyone: fifty deliveries, in the order in which every machine folds them.
fn everybody_is_told(rig: &Rig, tally: &Tally, desk: &Desk) -> Result {
    let told = desk.run(&rig.tortured.poste, &["broadcast", "well done", "--as", "lead", "--json"])?;
    let deliveries = told.answer().and_then(|answer| answer["deliveries"].as_array().map(Vec::len));
    tally.check(deliveries == Some(CLAIMERS), || format!("a broadcast ended with {}", told.told()));
    Ok(())
}
