//! Reports as Markdown pages, and their timelines as diagrams.

mod agent;
mod blocker;
mod broadcast;
mod conversation;
mod day;
mod markdown;
mod mermaid;
mod timeline;

use std::io::{self, Write};

use poste_core::Timestamp;
use poste_core::text::count;
use poste_core::views::{Count, Happening};

/// A report that can be written as a page.
pub trait Report {
    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()>;

    /// The events in order, if the report has them.
    fn timeline(&self) -> &[Happening] {
        &[]
    }
}

/// How a page is written.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    pub moments: Moments,
    pub now: Timestamp,
}

/// How a page shows times. It is read long after it was made, so they are never relative.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moments {
    /// 2026-01-31T12:00:00Z, or 12:00:00 where the day is known
    Short,
    /// 2026-01-31T12:00:00.000Z
    Iso,
    /// Milliseconds since 1970
    Unix,
}

impl Page {
    /// The timeline as a Mermaid sequence diagram.
    pub fn diagram(&self, report: &impl Report) -> String {
        timeline::diagram(self, report.timeline())
    }

    fn moment(&self, at: Timestamp) -> String {
        match self.moments {
            Moments::Short => format!("{}Z", &at.to_string()[..19]),
            Moments::Iso => at.to_string(),
            Moments::Unix => at.ms().to_string(),
        }
    }

    /// Like [`Self::moment`], with the time alone if it is on the same day.
    fn moment_of(&self, at: Timestamp, day: Timestamp) -> String {
        let (text, day) = (at.to_string(), day.to_string());
        match self.moments {
            Moments::Short if text[..10] == day[..10] => text[11..19].to_owned(),
            _ => self.moment(at),
        }
    }
}

/// A count, with a plus sign if counting stopped: `1000+ messages`.
pub fn at_least(number: Count, noun: &str) -> String {
    let text = count(usize::try_from(number.count).unwrap_or(usize::MAX), noun);
    if number.at_least { text.replacen(' ', "+ ", 1) } else { text }
}

/// A fact at the top of a report. The value is already Markdown.
fn write_fact(out: &mut dyn Write, name: &str, value: impl AsRef<str>) -> io::Result<()> {
    writeln!(out, "- {name}: {}", value.as_ref())
}

/// Written below a truncated report, so that it is not taken for complete.
fn write_truncated(out: &mut dyn Write, more: bool) -> io::Result<()> {
    if more { writeln!(out, "\nThis report is truncated; there is more.") } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poste_core::limits::DAY_MS;

    #[test]
    fn a_report_tells_moments() {
        let (day, next) = (Timestamp::from_ms(DAY_MS), Timestamp::from_ms(2 * DAY_MS + 1));
        let page = |moments| Page { moments, now: next };
        assert_eq!(page(Moments::Short).moment(day), "1970-01-02T00:00:00Z");
        assert_eq!(page(Moments::Short).moment_of(day.plus_ms(61_000), day), "00:01:01");
        assert_eq!(page(Moments::Short).moment_of(next, day), "1970-01-03T00:00:00Z");
        assert_eq!(page(Moments::Iso).moment_of(day, day), "1970-01-02T00:00:00.000Z");
        assert_eq!(page(Moments::Unix).moment(next), "172800001");
    }
}
