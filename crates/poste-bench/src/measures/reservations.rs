//! The cost of one more reservation next to few others, or next to ten thousand.

use std::path::Path;

use poste_core::fold::{Code, Verdict};
use poste_core::log::{Intent, Reserve};
use poste_core::office::{Office, Rules};

use crate::office::{READER, create, proposal, submit};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result};

const GROUP: &str = "Reservations";
const FEW: u64 = 100;
/// Patterns per record, and records per agent.
const TOGETHER: u64 = 50;
const RECORDS: u64 = 10;

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let many = if bench.short { 1_000 } else { 10_000 };
    let mut few_held = reserved(&folder.join("few"), FEW)?;
    let mut many_held = reserved(&folder.join("many"), many)?;
    let mut wild_held = reserved(&folder.join("wild"), many)?;
    // Each is refused after all comparisons, so that nothing is stored and the disk is not measured.
    let samples = {
        let few: Action<'_> = Box::new(|| timed(|| refused(&mut few_held, "docs/guide.md", "src/module-0/file-7.rs")));
        let many: Action<'_> =
            Box::new(|| timed(|| refused(&mut many_held, "docs/guide.md", "src/module-0/file-7.rs")));
        let wild: Action<'_> = Box::new(|| timed(|| refused(&mut wild_held, "**/*.md", "**/file-7.rs")));
        in_turns(bench.rounds(500), &mut [few, many, wild])?
    };
    let [few, many_times, wild] = samples.as_slice() else { return Err("three were measured".into()) };
    let p99 = |sample: &crate::sample::Sample| quantity(sample.percentile_us(99.0), "µs");
    report.add(
        Line::new(GROUP, format!("a path against {many} reservations, p50"), many_times.median_us(), "µs")
            .aim(Aim::AtMost(1_000.0))
            .detail(format!("p99 {}; through the office, refused", p99(many_times))),
    );
    let ratio = many_times.median_us() / few.median_us();
    report.add(
        Line::new(GROUP, format!("the same, against that with {FEW}"), ratio, "×")
            .aim(Aim::AtMost(1.5))
            .detail(format!("with {FEW}: p50 {} p99 {}", quantity(few.median_us(), "µs"), p99(few))),
    );
    report.add(
        Line::new(GROUP, format!("a pattern that begins with a wildcard, against {many}, p50"), wild.median_us(), "µs")
            .detail(format!("compared with each of them; p99 {}", p99(wild))),
    );
    Ok(())
}

/// An office in which other agents hold `count` files in many folders.
fn reserved(path: &Path, count: u64) -> Result<Office> {
    let agents: Vec<String> = (0..count.div_ceil(TOGETHER * RECORDS)).map(|nth| format!("holder-{nth}")).collect();
    let mut office = create(path, [READER].into_iter().chain(agents.iter().map(String::as_str)))?;
    for record in 0..count / TOGETHER {
        let patterns = (0..TOGETHER).map(|nth| format!("src/module-{record}/file-{nth}.rs").parse());
        let patterns = patterns.collect::<Result<_, _>>()?;
        let reserve = Reserve { patterns, for_ms: poste_core::limits::RESERVATION_MS_MAX, shared: false };
        let agent = usize::try_from(record / RECORDS)?;
        submit(&mut office, &[proposal(&agents[agent], Intent::Reserve(reserve), None)])?;
    }
    Ok(office)
}

/// Reserves both paths, the second of which another agent holds.
fn refused(office: &mut Office, free: &str, held: &str) -> Result {
    let patterns = vec![free.parse()?, held.parse()?];
    let reserve = Reserve { patterns, for_ms: 60_000, shared: false };
    let outcome = office.propose(&proposal(READER, Intent::Reserve(reserve), None), &Rules::none())?;
    match &outcome.verdict {
        Verdict::Rejected(rejection) if rejection.code == Code::Reserved => Ok(()),
        other => Err(format!("it was to be refused: {other:?}").into()),
    }
}
