//! What waiters cost: a send next to a hundred of them, an idle machine, and how long a command takes to end once its
//! mail is there.

use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use poste_core::office::Office;

use super::mcp::Client;
use crate::office::{READER, WRITER, create, mail, mail_to_reader, submit, to};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, Sample, in_turns};
use crate::{Bench, Result, succeed};

const GROUP: &str = "Waiting";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    beside_waiters(bench, folder, report)?;
    to_the_end(bench, folder, report)?;
    to_the_answer(bench, folder, report)?;
    idle_dispatcher(bench, folder, report)
}

/// A send to another agent, and then the same waiters with nothing to do.
fn beside_waiters(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let count = if bench.short { 5 } else { 100 };
    let others: Vec<String> = (0..count).map(|nth| format!("other-{nth}")).collect();
    let agents = || [READER, WRITER].into_iter().chain(others.iter().map(String::as_str));
    let (alone, crowded) = (folder.join("alone"), folder.join("crowded"));
    let (mut to_alone, mut to_crowded) = (create(&alone, agents())?, create(&crowded, agents())?);
    let wait = |name: &String| bench.poste(&crowded, name, &["wait"]).spawn().map(Ended);
    let waiters = others.iter().map(wait).collect::<std::io::Result<Vec<_>>>()?;
    until_listening(&crowded, waiters.len())?;

    let rounds = bench.rounds(200);
    let command = |office: &Path| succeed(&mut bench.poste(office, WRITER, &["send", READER, "Measured"]));
    let mut actions: [Action<'_>; 2] =
        [Box::new(|| at_rest(|| command(&alone))), Box::new(|| at_rest(|| command(&crowded)))];
    let commands = in_turns(rounds, &mut actions)?;
    let call = |office: &mut Office| submit(office, &[mail_to_reader(0)]).map(drop);
    let mut actions: [Action<'_>; 2] =
        [Box::new(|| at_rest(|| call(&mut to_alone))), Box::new(|| at_rest(|| call(&mut to_crowded)))];
    let calls = in_turns(rounds, &mut actions)?;
    for (what, samples) in [("poste send", commands), ("a send by a program that keeps the office open", calls)] {
        let [alone, crowded] = [&samples[0], &samples[1]].map(Sample::median_us);
        report.add(
            Line::new(GROUP, format!("{what} beside {count} waiters, of the time without any"), crowded / alone, "×")
                .aim(Aim::AtMost(1.2))
                .detail(format!("{} against {}, p50", quantity(crowded, "µs"), quantity(alone, "µs"))),
        );
    }

    idle_waiters(bench, &waiters, report)
}

fn idle_waiters(bench: &Bench, waiters: &[Ended], report: &mut Report) -> Result {
    let length = Duration::from_secs(if bench.short { 1 } else { 20 });
    let pids: Vec<u32> = waiters.iter().map(|waiter| waiter.0.id()).collect();
    let Some(used) = used_meanwhile(&pids, length)? else {
        report.leave_out("what idle waiters and dispatchers cost: the kernel does not say how long a process ran");
        return Ok(());
    };
    let share = used.ran.as_secs_f64() / length.as_secs_f64() * 100.0;
    report.add(
        Line::new(GROUP, format!("what {} idle waiters take of a core", waiters.len()), share, "%")
            .aim(Aim::AtMost(0.2))
            .detail(format!("{:.1} wake-ups a second together", used.wake_ups as f64 / length.as_secs_f64())),
    );
    Ok(())
}

/// From the moment the sender knows that its message is stored until `poste wait` has printed it, marked it and ended.
fn to_the_end(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("end");
    let mut office = create(&path, [READER, WRITER])?;
    let mut sample = Sample::default();
    for nth in 0..bench.rounds(300) {
        let mut waiter = Ended(bench.poste(&path, READER, &["wait"]).spawn()?);
        until_listening(&path, 1)?;
        pause(nth);
        submit(&mut office, &[mail_to_reader(nth as u64)])?;
        let stored = Instant::now();
        let status = waiter.0.wait()?;
        sample.push(stored.elapsed());
        if !status.success() {
            return Err(format!("poste wait: {status}").into());
        }
    }
    let [p50, p95, p99] = percentiles(&sample);
    let what = "from the sender's commit to the end of poste wait";
    let line = |percent: f64| Line::new(GROUP, format!("{what}, p{percent}"), sample.percentile_us(percent), "µs");
    report.add(line(50.0).detail(format!("p50 {p50} p95 {p95} p99 {p99}")));
    report.add(line(99.0));
    Ok(())
}

/// The same for a waiting tool call, until its answer arrives.
fn to_the_answer(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("answer");
    let mut office = create(&path, [READER, WRITER])?;
    let mut client = Client::start(&mut bench.poste(&path, READER, &["mcp"]))?;
    let mut sample = Sample::default();
    for nth in 0..bench.rounds(300) {
        client.ask("tools/call", r#"{"name":"wait_for_mail","arguments":{"seconds":20}}"#)?;
        // It cannot be seen from outside that it waits.
        std::thread::sleep(Duration::from_millis(40));
        pause(nth);
        submit(&mut office, &[mail_to_reader(nth as u64)])?;
        let stored = Instant::now();
        client.answer("wait_for_mail")?;
        sample.push(stored.elapsed());
    }
    client.finish()?;
    let [p50, p95, p99] = percentiles(&sample);
    let detail = format!("p50 {p50} p95 {p95} p99 {p99}");
    let what = "from the sender's commit to the answer of wait_for_mail";
    let line = |percent: f64| Line::new(GROUP, format!("{what}, p{percent}"), sample.percentile_us(percent), "µs");
    report.add(line(50.0).aim(Aim::AtMost(2_000.0)).detail(detail));
    report.add(line(99.0).aim(Aim::AtMost(6_000.0)));
    Ok(())
}

/// A dispatcher with an agent and nothing to do.
fn idle_dispatcher(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("dispatch/.poste");
    fs::create_dir_all(path.parent().ok_or("an office stands in a folder")?)?;
    let mut office = create(&path, [READER, WRITER])?;
    fs::write(path.join("local.toml"), format!("[agent.{READER}]\nrun = [\"true\"]\n"))?;
    poste_testkit::state::trust(&path);
    let mut command = bench.poste(&path, WRITER, &["dispatch", "--json"]);
    let dispatcher = Ended(command.env("PATH", std::env::var_os("PATH").unwrap_or_default()).spawn()?);
    until_listening(&path, 1)?;
    // Mail for an agent that it does not start: it is up once it has looked at that mail.
    submit(&mut office, &[mail(to(WRITER), 0)])?;
    let (settling, length) = if bench.short { (200, 1) } else { (3_000, 20) };
    std::thread::sleep(Duration::from_millis(settling));
    let length = Duration::from_secs(length);
    let Some(used) = used_meanwhile(&[dispatcher.0.id()], length)? else { return Ok(()) };
    let seconds = length.as_secs_f64();
    report.add(
        Line::new(GROUP, "how often an idle dispatcher wakes", used.wake_ups as f64 / seconds, "wake-ups/s")
            .aim(Aim::AtMost(2.0))
            .detail(format!("{:.3} % of a core", used.ran.as_secs_f64() / seconds * 100.0)),
    );
    Ok(())
}

/// A process that is killed with the measurement.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until this many waiters of an office can be rung.
fn until_listening(office: &Path, count: usize) -> Result {
    let end = Instant::now() + Duration::from_secs(60);
    let is_named = |entry: &fs::DirEntry| entry.path().extension().is_some_and(|word| word != "new");
    let listening = || fs::read_dir(office.join("waiters")).into_iter().flatten().flatten().filter(is_named).count();
    while listening() < count {
        if Instant::now() > end {
            return Err(format!("{} of {count} waiters listen", listening()).into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Pauses long enough for a waiter that was woken for nothing to sleep again: its work counts towards the send that
/// woke it.
fn at_rest(action: impl FnOnce() -> Result) -> Result<Duration> {
    let took = crate::sample::timed(action);
    std::thread::sleep(Duration::from_millis(20));
    took
}

/// Never in step with anything.
fn pause(nth: usize) {
    std::thread::sleep(Duration::from_micros(3_000 + (nth as u64 * 7_919) % 5_000));
}

fn percentiles(sample: &Sample) -> [String; 3] {
    [50.0, 95.0, 99.0].map(|percent| quantity(sample.percentile_us(percent), "µs"))
}

#[derive(Debug, Clone, Copy, Default)]
struct Used {
    ran: Duration,
    wake_ups: u64,
}

/// What processes and their threads used during `length`; `None` if the kernel does not report it.
fn used_meanwhile(pids: &[u32], length: Duration) -> Result<Option<Used>> {
    let Some(before) = used(pids) else { return Ok(None) };
    std::thread::sleep(length);
    let Some(after) = used(pids) else { return Err("a process ended that was to idle".into()) };
    Ok(Some(Used { ran: after.ran.saturating_sub(before.ran), wake_ups: after.wake_ups - before.wake_ups }))
}

/// From `schedstat`: time on a processor in nanoseconds, time in the queue, and how often it got a processor.
fn used(pids: &[u32]) -> Option<Used> {
    let mut used = Used::default();
    for pid in pids {
        for thread in fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten() {
            let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
            let mut numbers = text.split_whitespace().map(str::parse::<u64>);
            used.ran += Duration::from_nanos(numbers.next()?.ok()?);
            used.wake_ups += numbers.nth(1)?.ok()?;
        }
    }
    Some(used)
}
