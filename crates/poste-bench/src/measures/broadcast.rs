//! One record, many deliveries.

use std::path::Path;

use poste_core::address::Address;

use crate::office::{WRITER, create, mail, submit};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result};

const GROUP: &str = "Broadcast";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let sizes: &[(u64, Option<Aim>)] =
        if bench.short { &[(20, None)] } else { &[(1_000, Some(Aim::AtMost(30_000.0))), (10_000, None)] };
    for (agents, aim) in sizes {
        let names: Vec<String> = (0..*agents).map(|nth| format!("agent-{nth}")).collect();
        let path = folder.join(format!("to-{agents}"));
        let mut office = create(&path, std::iter::once(WRITER).chain(names.iter().map(String::as_str)))?;
        let mut nth = 0;
        let broadcast: Action<'_> = Box::new(|| {
            nth += 1;
            let proposal = mail(Address::Everyone, nth);
            timed(|| submit(&mut office, &[proposal]).map(|_| ()))
        });
        let samples = in_turns(bench.rounds(20), &mut [broadcast])?;
        let mut line = Line::new(GROUP, format!("to {agents} agents, p50"), samples[0].median_us(), "µs")
            .detail(format!("p95 {}", quantity(samples[0].percentile_us(95.0), "µs")));
        if let Some(aim) = aim {
            line = line.aim(*aim);
        }
        report.add(line);
    }
    Ok(())
}
