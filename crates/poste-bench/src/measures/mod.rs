//! One file per question. Each adds its lines to the report.

mod broadcast;
mod context;
mod dispatch;
mod growth;
mod handoff;
mod hook;
mod mcp;
mod memory;
mod notify;
mod processes;
mod program;
mod replay;
mod reservations;
mod search;
mod send;
mod waiting;
mod wake;

use std::path::Path;

use crate::report::Report;
use crate::{Bench, Result};

type Measure = fn(&Bench, &Path, &mut Report) -> Result;

/// In the order of the report. A name can be passed to `--only`.
pub(crate) const ALL: &[(&str, Measure)] = &[
    ("send", send::measure),
    ("program", program::measure),
    ("processes", processes::measure),
    ("hook", hook::measure),
    ("wake", wake::measure),
    ("waiting", waiting::measure),
    ("notify", notify::measure),
    ("dispatch", dispatch::measure),
    ("growth", growth::measure),
    ("search", search::measure),
    ("broadcast", broadcast::measure),
    ("reservations", reservations::measure),
    ("handoff", handoff::measure),
    ("context", context::measure),
    ("replay", replay::measure),
    ("mcp", mcp::measure),
    ("memory", memory::measure),
];
