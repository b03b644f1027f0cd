//! From the commit of an alert to the request at the endpoint that is notified, by a watcher in its own process.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use poste_core::Office;
use poste_core::log::{Content, Intent, Send};
use poste_core::views;
use poste_testkit::endpoints::{HttpEndpoint, Mood};

use crate::office::{READER, WRITER, create, proposal, submit};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::Sample;
use crate::{Bench, Result};

const GROUP: &str = "Telling people";
const PATIENCE: Duration = Duration::from_secs(20);

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let path = folder.join("office");
    let mut office = create(&path, [READER, WRITER])?;
    let endpoint = HttpEndpoint::start(Mood::Takes);
    let rules = format!(
        "[[on]]\nname = \"bench\"\ntype = \"alert\"\nhandler = \"webhook\"\nurl = \"{}\"\nsecret_env = \"BENCH_SECRET\"\n",
        endpoint.url()
    );
    std::fs::write(path.join("local.toml"), rules)?;
    poste_testkit::state::trust(&path);
    let mut command = bench.poste(&path, WRITER, &["watch", "--json"]);
    let watcher = command.env("BENCH_SECRET", "secret of a benchmark").stdin(Stdio::null()).stdout(Stdio::null());
    let watching = Watching(watcher.stderr(Stdio::null()).spawn()?);
    until("the watcher has begun", || Ok(!views::handlers(office.store())?.is_empty()))?;
    let count = bench.rounds(300);
    let mut sample = Sample::default();
    for nth in 0..count {
        // Long enough for the watcher to wait again, and never in step with anything.
        std::thread::sleep(Duration::from_micros(20_000 + (nth as u64 * 7_919) % 5_000));
        let committed = send(&mut office)?;
        until("the alert arrives", || Ok(endpoint.taken().len() > nth))?;
        let arrived = endpoint.taken().last().map(|received| received.at).ok_or("nothing arrived")?;
        sample.push(arrived.saturating_duration_since(committed));
    }
    drop(watching);
    report.add(
        Line::new(
            GROUP,
            "from the commit of an alert to its webhook having arrived, p99",
            sample.percentile_us(99.0) / 1_000.0,
            "ms",
        )
        .aim(Aim::AtMost(100.0))
        .detail(format!(
            "p50 {} p95 {} max {}; taking the rule is one commit of it",
            quantity(sample.median_us(), "µs"),
            quantity(sample.percentile_us(95.0), "µs"),
            quantity(sample.percentile_us(100.0), "µs"),
        )),
    );
    Ok(())
}

/// Stores an alert and returns when it was stored.
fn send(office: &mut Office) -> Result<Instant> {
    let header = Send::plain("alert".parse()?, vec![READER.parse()?]);
    let content = Content { subject: "Disk full".to_owned(), ..Content::default() };
    submit(office, &[proposal(WRITER, Intent::Send(header), Some(content))])?;
    Ok(Instant::now())
}

fn until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result {
    let end = Instant::now() + PATIENCE;
    while !is_so()? {
        if Instant::now() > end {
            return Err(format!("{what}: not in {PATIENCE:?}").into());
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    Ok(())
}

/// A process that is killed with the measurement, however that ends.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
