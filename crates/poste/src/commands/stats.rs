use std::io::{self, Write};

use poste_core::time::length;
use poste_core::views::{Durations, GroupStats, Stats};
use poste_verbs::stats;
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::context::Cx;
use crate::ui::{self, Answer, Paint, Ui};

/// Count mail and measure when it is shown, claimed and done
///
/// Messages of archived conversations are counted, but their times are no longer measured.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste stats\n  poste stats --since 7d --by agent\n  poste stats --since 1h --json"
)]
pub(crate) struct Args {
    /// How far back: 24h, 7d, or a time
    #[arg(long, value_name = "TIME", default_value = "24h")]
    since: String,
    /// Group by type or by agent
    #[arg(long, value_enum, default_value_t)]
    by: By,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
enum By {
    #[default]
    Type,
    Agent,
}

/// People see one grouping; JSON has both.
#[derive(Debug, Serialize, JsonSchema)]
struct Grouped {
    #[serde(flatten)]
    stats: Stats,
    #[serde(skip)]
    by_agent: bool,
}

impl Answer for Grouped {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let stats = &self.stats;
        let window = length(stats.until.since_ms(stats.since));
        let count = |number: u64, noun| ui::count(usize::try_from(number).unwrap_or(usize::MAX), noun);
        writeln!(out, "{} in {window}, {} an hour", count(stats.messages, "message"), stats.messages_per_hour)?;
        if ui.terminal {
            writeln!(out, "{}", ui.paint(Paint::Dim, &chart(&stats.volume)))?;
        }
        let all = &stats.all;
        let bad = all.failed + all.dead + all.expired + all.returned;
        writeln!(
            out,
            "{}: {} done, {} pending, {} claimed, {bad} ended badly",
            count(all.deliveries, "delivery"),
            all.done,
            all.pending,
            all.claimed
        )?;
        writeln!(out)?;
        let groups = if self.by_agent { &stats.by_agent } else { &stats.by_type };
        let most = groups.iter().map(|group| group.deliveries).max().unwrap_or(0);
        let title = if self.by_agent { "AGENT" } else { "TYPE" };
        let header = [title, "MAIL", "DONE", "BAD", "SHOWN p50/p90", "CLAIMED p50/p90", "DONE p50/p90/p99"];
        let rows = |bars: bool| groups.iter().map(|group| row(group, most, bars)).collect::<Vec<_>>();
        // Rather no bars than bars that are cut off: the numbers next to them would be cut off too.
        let with_bars = rows(ui.terminal);
        let fits = ui.fits(&header, &with_bars);
        ui.lines(out, &header, if fits { with_bars } else { rows(false) })
    }
}

fn row(group: &GroupStats, most: u64, bars: bool) -> Vec<String> {
    let bar = if bars { format!(" {}", bar(group.deliveries, most)) } else { String::new() };
    vec![
        group.name.clone(),
        format!("{}{bar}", group.deliveries),
        group.done.to_string(),
        (group.failed + group.dead + group.expired + group.returned).to_string(),
        percentiles(&group.shown, false),
        percentiles(&group.taken, false),
        percentiles(&group.finished, true),
    ]
}

fn percentiles(durations: &Durations, with_p99: bool) -> String {
    let p99 = durations.p99_ms.filter(|_| with_p99);
    let values = [durations.p50_ms, durations.p90_ms, p99].into_iter().flatten();
    let text = values.map(|ms| if ms < 1_000 { format!("{ms}ms") } else { length(ms) }).collect::<Vec<_>>().join("/");
    if text.is_empty() { "-".to_owned() } else { text }
}

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// One block per value, scaled to the largest; a space for 0.
fn chart(values: &[u64]) -> String {
    let most = values.iter().copied().max().unwrap_or(0).max(1);
    let block = |value: u64| match value {
        0 => ' ',
        _ => BLOCKS[usize::try_from(((value * 8).div_ceil(most)).clamp(1, 8) - 1).unwrap_or(0)],
    };
    values.iter().map(|value| block(*value)).collect()
}

/// A bar whose length is the share of the largest value.
fn bar(value: u64, most: u64) -> String {
    const LENGTH_MAX: u64 = 12;
    let length = if most == 0 { 0 } else { (value * LENGTH_MAX).div_ceil(most) };
    "■".repeat(usize::try_from(length).unwrap_or(0))
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let (mut office, answered) = cx.call_verb_here(stats::Input { since: args.since })?;
    cx.show(&mut office, answered.map(|stats| Grouped { stats, by_agent: args.by == By::Agent }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charts_are_as_high_as_their_values() {
        assert_eq!(chart(&[0, 1, 4, 8]), " ▁▄█");
        assert_eq!(chart(&[0, 0]), "  ");
        assert_eq!(bar(0, 10), "");
        assert_eq!(bar(1, 100), "■");
        assert_eq!(bar(100, 100).chars().count(), 12);
    }
}
