//! A hundred processes that send at once, compared with one that sends as much.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::children::{Ready, SEND};
use crate::office::{READER, WRITER, create};
use crate::report::{Aim, Line, Report, quantity};
use crate::{Bench, Result};

const GROUP: &str = "Many at once";

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let (processes, each) = if bench.short { (5, 2) } else { (100, 20) };
    let (mut many, mut one) = (Vec::new(), Vec::new());
    for round in 0..if bench.short { 1 } else { 3 } {
        one.push(send_all(&folder.join(format!("one-{round}")), 1, processes * each)?);
        many.push(send_all(&folder.join(format!("many-{round}")), processes, each)?);
    }
    one.sort_unstable();
    many.sort_unstable();
    let (one, many) = (one[one.len() / 2], many[many.len() / 2]);
    let us = |time: Duration| quantity(time.as_secs_f64() * 1e6, "µs");
    report.add(
        Line::new(
            GROUP,
            format!("{processes} processes × {each} sends, of the time of one × {}", processes * each),
            many.as_secs_f64() / one.as_secs_f64(),
            "×",
        )
        .aim(Aim::AtMost(1.6))
        .detail(format!("{} against {}, medians of three", us(many), us(one))),
    );
    Ok(())
}

/// From the moment they may begin until the last one has ended.
fn send_all(path: &Path, processes: u64, each: u64) -> Result<Duration> {
    create(path, [READER, WRITER])?;
    let mut children = (0..processes).map(|_| Ready::spawn(SEND, path, each)).collect::<Result<Vec<_>>>()?;
    let started = Instant::now();
    children.iter_mut().try_for_each(Ready::go)?;
    for child in children {
        child.finish()?;
    }
    Ok(started.elapsed())
}
