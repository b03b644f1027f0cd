//! A waiter is woken by the bell, after the commit; and finds the message by itself if the bell was never rung.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::acts::Act;
use crate::acts::Base;
use crate::desk::{self, Desk};
use crate::rig::{Result, Rig, Tally};
use crate::strace;

/// With a commit this slow, a bell that rings too early rings far too early.
const SLOW_SYNC: &str = "inject=fsync,fdatasync:delay_enter=60000";
/// Far below the period in which waiters look without a bell.
const WOKEN_WITHIN: Duration = Duration::from_millis(120);
const FOUND_WITHIN: Duration = Duration::from_secs(8);

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let rounds = rig.pick(4, 30);
    tally.expect(rounds + 1);
    let desk = Desk::with_agents(rig.memory.join("wake"), &rig.sound.poste, &["a", "b"])?;
    let mut delays = Vec::new();
    for round in 0..rounds {
        let options = ["-e", "trace=fsync,fdatasync", "-e", SLOW_SYNC];
        delays.push(one_round(rig, &desk, &send(&format!("slow-{round}")), &options, true)?);
        tally.point();
    }
    delays.sort();
    let (fastest, middle, slowest) = (delays[0], delays[delays.len() / 2], delays[delays.len() - 1]);
    tally.note(format!("answer to woken process: fastest {fastest:?}, median {middle:?}, slowest {slowest:?}"));
    // A busy machine makes some slow; a bell that rings before the commit makes all of them slow.
    tally.check(fastest <= WOKEN_WITHIN, || format!("not woken in time in {rounds} rounds: {fastest:?} at best"));
    no_bell(rig, tally, &desk)
}

fn send(id: &str) -> Act {
    let args = ["send", "b", "news", "--as", "a", "--id", id, "--json"].map(str::to_owned).to_vec();
    Act { name: "send", base: Base::Office, args, input: None, ids: vec![id.to_owned()], migrates: false }
}

/// From the end of the sender to the end of the waiter.
fn one_round(rig: &Rig, desk: &Desk, act: &Act, options: &[&str], ends_well: bool) -> Result<Duration> {
    let program = &rig.tortured.poste;
    let wait = ["wait", "--timeout", "20s", "--as", "b", "--json"];
    let waiter = desk::start(&mut desk.command(program, &wait))?;
    std::thread::sleep(Duration::from_millis(150));
    let waiting = std::thread::spawn(move || desk::finish(waiter).map(|run| (run, Instant::now())));
    let sent = strace::run(desk, program, act, options, Path::new("/dev/null"))?;
    let answered = Instant::now();
    if sent.is_ok() != ends_well {
        return Err(format!("the sender ended with {}", sent.told()));
    }
    let (run, woken) = waiting.join().map_err(|_| "the waiter's thread panicked".to_owned())??;
    if !run.is_ok() {
        return Err(format!("the waiter ended with {}", run.told()));
    }
    Ok(woken.saturating_duration_since(answered))
}

/// The sender dies after its commit and before it rings.
fn no_bell(rig: &Rig, tally: &Tally, desk: &Desk) -> Result {
    let trace = rig.memory.join("wake-trace");
    let calls = strace::record(desk, &rig.tortured.poste, &send("recorded"), &trace)?;
    // That message has to be read before the next can be waited for.
    desk.must(&rig.sound.poste, &["wait", "--timeout", "10s", "--as", "b"])?;
    let rung = calls.iter().find(|call| call.rings_the_bell());
    let rung = rung.ok_or("the bell was not rung")?;
    let (traced, inject) = ("trace=openat", format!("inject=openat:signal=KILL:when={}", rung.nth));
    let took = one_round(rig, desk, &send("no-bell"), &["-e", traced, "-e", &inject], false)?;
    tally.note(format!("without a bell: found after {took:?}"));
    tally.check(took <= FOUND_WITHIN, || format!("without a bell the news were found after {took:?}"));
    tally.point();
    Ok(())
}
