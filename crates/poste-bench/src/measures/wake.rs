//! From a commit in one process to the waiter in another that has read the message.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::children::{Ready, WAIT, monotonic_ns};
use crate::office::{READER, WRITER, create, mail_to_reader, submit};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::Sample;
use crate::{Bench, Result};

const GROUP: &str = "Waking";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("office");
    let mut office = create(&path, [READER, WRITER])?;
    let count = bench.rounds(500) as u64;
    let mut waiter = Ready::spawn(WAIT, &path, count)?;
    waiter.go()?;
    let mut sent = BTreeMap::new();
    for nth in 0..count {
        // Long enough for the waiter to wait again, and never in step with anything.
        std::thread::sleep(Duration::from_micros(6_000 + (nth * 7_919) % 5_000));
        let proposal = mail_to_reader(nth);
        let before = monotonic_ns();
        let outcome = submit(&mut office, &[proposal])?.pop().and_then(|outcome| outcome.position);
        sent.insert(outcome.ok_or("the message has a position")?.0, (before, monotonic_ns()));
    }
    let (mut from_start, mut from_return) = (Sample::default(), Sample::default());
    for line in waiter.finish()?.lines() {
        let (position, woken) = line.split_once(' ').ok_or("the waiter prints two numbers")?;
        let woken: i128 = woken.parse()?;
        let (before, after) = sent.get(&position.parse::<u64>()?).ok_or("woken by what was not sent")?;
        let since = |at: &i128| Duration::from_nanos(u64::try_from(woken - at).unwrap_or(0));
        from_start.push(since(before));
        from_return.push(since(after));
    }
    report.add(
        Line::new(
            GROUP,
            "from the start of a send to its waiter having read it, p99",
            from_start.percentile_us(99.0),
            "µs",
        )
        .aim(Aim::AtMost(5_000.0))
        .detail(format!(
            "p50 {} p95 {} max {}; the commit itself is part of it. From the moment the sender knows: p50 {} p99 {}",
            quantity(from_start.median_us(), "µs"),
            quantity(from_start.percentile_us(95.0), "µs"),
            quantity(from_start.percentile_us(100.0), "µs"),
            quantity(from_return.median_us(), "µs"),
            quantity(from_return.percentile_us(99.0), "µs")
        )),
    );
    Ok(())
}
