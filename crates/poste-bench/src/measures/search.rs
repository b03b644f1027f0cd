//! Searching a long history. Measured as soon as the program has the command.

use std::path::Path;

use crate::office::{COMMON_WORD, Cache, History, RARE_WORD, READER};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result, succeed};

const GROUP: &str = "Searching";

pub(crate) fn measure(bench: &Bench, _: &Path, report: &mut Report) -> Result {
    let count = if bench.short { 1_000 } else { 1_000_000 };
    let office = Cache::new(&bench.cache)?.office(History::Others, count)?;
    if succeed(&mut bench.poste(&office, READER, &["search", "--help"])).is_err() {
        report.leave_out("search: the program has no such command yet");
        return Ok(());
    }
    // The first search fills the index.
    succeed(&mut bench.poste(&office, READER, &["search", RARE_WORD]))?;
    for (word, what) in [(RARE_WORD, "one message"), (COMMON_WORD, "every second message")] {
        let search: Action<'_> = Box::new(|| timed(|| succeed(&mut bench.poste(&office, READER, &["search", word]))));
        let samples = in_turns(bench.rounds(100), &mut [search])?;
        report.add(
            Line::new(
                GROUP,
                format!("a word of {what} of {count}, whole program, p95"),
                samples[0].percentile_us(95.0),
                "µs",
            )
            .aim(Aim::AtMost(20_000.0))
            .detail(format!("p50 {}", quantity(samples[0].median_us(), "µs"))),
        );
    }
    Ok(())
}
