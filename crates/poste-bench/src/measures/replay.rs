//! Replaying a whole log, and what a message costs on disk.

use poste_core::store::table_digest::refold;
use std::path::Path;
use std::time::Instant;

use crate::office::{Cache, History, file_bytes, place};
use crate::report::{Aim, Line, Report};
use crate::{Bench, Result};

const GROUP: &str = "The whole log";

pub(crate) fn measure(bench: &Bench, _: &Path, report: &mut Report) -> Result {
    let count = if bench.short { 1_000 } else { 1_000_000 };
    let path = Cache::new(&bench.cache)?.office(History::Pending, count)?;
    let office = place(&path).open()?;
    let records = poste_core::office::head(office.store())?.0;
    let started = Instant::now();
    let fresh = refold(office.store(), |_| {})?;
    let took = started.elapsed();
    if poste_core::office::head(&fresh)?.0 != records {
        return Err("the refolded log ends elsewhere".into());
    }
    drop(fresh);
    report.add(
        Line::new(GROUP, "replay, records", records as f64 / took.as_secs_f64(), "/s")
            .aim(Aim::AtLeast(200_000.0))
            .detail(format!("{records} records in {:.1} s, into memory", took.as_secs_f64())),
    );
    let per_message = file_bytes(&path) as f64 / count as f64;
    report.add(
        Line::new(GROUP, "file size, a message", per_message, "bytes").detail("pending, with a body of 240 bytes"),
    );
    Ok(())
}
