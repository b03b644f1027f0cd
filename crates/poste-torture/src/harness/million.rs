//! One million records: replay, digest, file size, growth.

use poste_core::log::Proposal;
use poste_core::office::{Place, Rules};
use poste_core::store::Options;
use poste_core::store::clock::SystemClock;
use poste_core::views;
use std::sync::Arc;
use std::time::Instant;

use crate::desk::Desk;
use crate::letters;
use crate::rig::{Result, Rig, Tally};

const BATCH: usize = 500;
const STAGES: usize = 4;

pub(crate) fn run(rig: &Rig, tally: &Tally) -> Result {
    let records = rig.pick(8_000, 1_000_000);
    let desk = Desk::with_agents(rig.disk.join("million"), &rig.sound.poste, &["a", "b"])?;
    let place = Place { path: desk.office(), clock: Arc::new(SystemClock), options: Options::default() };
    let text = |error: poste_core::Error| error.to_string();
    let mut office = place.open().map_err(text)?;
    tally.expect(STAGES + 1);
    let (mut sizes, mut seconds) = (Vec::new(), Vec::new());
    for stage in 0..STAGES {
        let started = Instant::now();
        for batch in 0..records / STAGES / BATCH {
            let letters = (0..BATCH)
                .map(|n| letters::letter(&format!("{stage}-{batch}-{n}"), "a", "b", "message", 200))
                .collect::<Result<Vec<Proposal>>>()?;
            office.submit(&letters, &Rules::none()).map_err(text)?;
        }
        seconds.push(started.elapsed().as_secs_f64());
        sizes.push(size_of(&desk)?);
        tally.point();
    }
    let stored = (records / STAGES / BATCH * BATCH * STAGES) as f64;
    tally.note(format!(
        "{stored} messages in {:.1} s ({:.0}/s, {BATCH} a commit); {:.1} MiB, {:.0} bytes a message",
        seconds.iter().sum::<f64>(),
        stored / seconds.iter().sum::<f64>(),
        sizes[STAGES - 1] / 1_048_576.0,
        sizes[STAGES - 1] / stored,
    ));
    is_linear(tally, &sizes, &seconds);
    let started = Instant::now();
    let report = views::verify(office.store(), |_| {}).map_err(text)?;
    let took = started.elapsed().as_secs_f64();
    tally.note(format!(
        "verified in {took:.1} s ({:.0} records/s: chain, content, refold, digest)",
        report.records as f64 / took
    ));
    tally.check(report.problems.is_empty(), || report.summary());
    tally.check(report.records as f64 >= stored, || format!("only {} records", report.records));
    tally.point();
    Ok(())
}

/// Database and WAL together.
fn size_of(desk: &Desk) -> Result<f64> {
    let database = std::fs::metadata(desk.database()).map_err(|error| error.to_string())?.len();
    Ok((database + desk.wal_bytes()) as f64)
}

/// Every quarter adds as much as the one before, within a fifth. The time is reported but not judged, because machines
/// differ.
fn is_linear(tally: &Tally, sizes: &[f64], seconds: &[f64]) {
    let added: Vec<f64> =
        sizes.iter().enumerate().map(|(n, size)| size - if n == 0 { 0.0 } else { sizes[n - 1] }).collect();
    let (second, last) = (added[1], added[STAGES - 1]);
    tally.check((last / second - 1.0).abs() < 0.2, || format!("growth is not linear: {added:?} bytes a quarter"));
    let shown: Vec<String> = added.iter().map(|bytes| format!("{:.1}", bytes / 1_048_576.0)).collect();
    let times: Vec<String> = seconds.iter().map(|seconds| format!("{seconds:.1}")).collect();
    tally.note(format!("each quarter: {} MiB in {} s", shown.join(", "), times.join(", ")));
}
