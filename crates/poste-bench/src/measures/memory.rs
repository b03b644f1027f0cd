//! The peak memory of commands: in a small office, and with a hundred thousand waiting messages.

use std::path::Path;

use crate::children::peak_kb;
use crate::office::{Cache, History, READER, WRITER};
use crate::report::{Aim, Line, Report};
use crate::{Bench, Result};

const GROUP: &str = "Memory";

/// The agents and the commands they run. A command added here is measured in both offices.
const COMMANDS: &[(&str, &[&str])] = &[
    (WRITER, &["send", READER, "Step 1", "Ready."]),
    (READER, &["inbox", "--limit", "20"]),
    (READER, &["track", "10"]),
    (READER, &["read", "10"]),
    (READER, &["claim"]),
    (READER, &["wait", "--timeout", "1s"]),
    (READER, &["log", "show", "10"]),
];

pub(crate) fn measure(bench: &Bench, _: &Path, report: &mut Report) -> Result {
    let backlog = if bench.short { 2_000 } else { 100_000 };
    let cache = Cache::new(&bench.cache)?;
    let sizes = [
        (1_000, 20.0, "the peak of a command".to_owned()),
        (backlog, 60.0, format!("the peak of a command with a backlog of {backlog}")),
    ];
    for (count, aim, what) in sizes {
        let office = cache.office(History::Pending, count)?;
        let mut peaks = Vec::new();
        for (speaker, arguments) in COMMANDS {
            let kb = peak_kb(&bench.poste(&office, speaker, arguments))?;
            peaks.push((kb as f64 / 1024.0, arguments[0]));
        }
        let worst = peaks.iter().map(|(mb, _)| *mb).fold(0.0, f64::max);
        let detail: Vec<String> = peaks.iter().map(|(mb, name)| format!("{name} {mb:.1}")).collect();
        report.add(Line::new(GROUP, what, worst, "MB").aim(Aim::AtMost(aim)).detail(detail.join(", ")));
    }
    Ok(())
}
