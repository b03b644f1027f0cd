//! One durable send, a hundred in one commit, and what the disk alone needs for the same bytes.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

use poste_core::log::Sealed;

use crate::office::{READER, WRITER, create, mail_to_reader, submit};
use crate::report::{Aim, Line, Report, quantity};
use crate::sample::{Action, in_turns, timed};
use crate::{Bench, Result};

const GROUP: &str = "Sending";
const TOGETHER: u64 = 100;

pub(crate) fn measure(bench: &Bench, folder: &Path, report: &mut Report) -> Result {
    let mut office = create(&folder.join("single"), [READER, WRITER])?;
    let mut grouped = create(&folder.join("grouped"), [READER, WRITER])?;
    let sealed = Sealed::seal(&mail_to_reader(1), office.machine()?)?;
    let content = sealed.content.as_ref().ok_or("the message has content")?;
    let bytes = [sealed.bytes(), &content.bytes].concat();
    let mut raw = OpenOptions::new().create(true).append(true).open(folder.join("raw"))?;
    let (mut nth, mut nth_grouped) = (0, 0);

    let samples = {
        let append: Action<'_> = Box::new(|| {
            timed(|| {
                raw.write_all(&bytes)?;
                Ok(raw.sync_data()?)
            })
        });
        let send: Action<'_> = Box::new(|| {
            nth += 1;
            let proposal = mail_to_reader(nth);
            timed(|| submit(&mut office, &[proposal]).map(|_| ()))
        });
        let send_group: Action<'_> = Box::new(|| {
            let proposals: Vec<_> = (0..TOGETHER).map(|place| mail_to_reader(nth_grouped + place)).collect();
            nth_grouped += TOGETHER;
            timed(|| submit(&mut grouped, &proposals).map(|_| ()))
        });
        in_turns(bench.rounds(1_500), &mut [append, send, send_group])?
    };
    let [append, send, group] = samples.as_slice() else { return Err("three were measured".into()) };

    // Rare stalls of the disk hit either side and make the mean a matter of luck, so the worse of the two ratios
    // counts.
    let (by_mean, by_median) = (send.rate() / append.rate(), append.median_us() / send.median_us());
    report.add(
        Line::new(GROUP, "durable send, of the rate of a raw fdatasync append", by_mean.min(by_median), "×")
            .aim(Aim::AtLeast(0.7))
            .detail(format!(
                "by the mean {by_mean:.2}×, by the median {by_median:.2}×; send p50 {} p99 {}; append of the same {} bytes \
                 p50 {} p99 {}",
                quantity(send.median_us(), "µs"),
                quantity(send.percentile_us(99.0), "µs"),
                bytes.len(),
                quantity(append.median_us(), "µs"),
                quantity(append.percentile_us(99.0), "µs")
            )),
    );
    let group_rate = group.rate() * TOGETHER as f64;
    report.add(Line::new(GROUP, "group commit of 100, messages", group_rate, "/s").aim(Aim::AtLeast(60_000.0)).detail(
        format!(
            "one commit p50 {} p99 {}",
            quantity(group.median_us(), "µs"),
            quantity(group.percentile_us(99.0), "µs")
        ),
    ));
    report.add(
        Line::new(GROUP, "group commit of 100, of the rate of single sends", group_rate / send.rate(), "×")
            .aim(Aim::AtLeast(15.0))
            .detail(format!("single {}", quantity(send.rate(), "/s"))),
    );
    Ok(())
}
