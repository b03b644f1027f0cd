//! Reports as Markdown, to keep or to pass on, and what happened as a diagram.

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

/// Something that can be written as a page.
pub trait Report {
    fn write(&self, page: &Page, out: &mut dyn Write) -> io::Result<()>;

    /// What happened, in order, where a report tells that.
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

/// How a page, which is read long after it was made, tells when something was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moments {
    /// 2026-01-31T12:00:00Z, or 12:00:00 on a day that is known
    Short,
    /// 2026-01-31T12:00:00.000Z
    Iso,
    /// Milliseconds since 1970
    Unix,
}

impl Page {
    /// What happened as a sequence diagram in the language of Mermaid.
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

    /// As [`Self::moment`], with the time alone on a day that is known.
    fn moment_of(&self, at: Timestamp, day: Timestamp) -> String {
        let (text, day) = (at.to_string(), day.to_string());
        match self.moments {
            Moments::Short if text[..10] == day[..10] => text[11..19].to_owned(),
            _ => self.moment(at),
        }
    }
}

/// A count with a sign where counting stopped: `1000+ messages`.
pub fn at_least(number: Count, noun: &str) -> String {
    let text = count(usize::try_from(number.count).unwrap_or(usize::MAX), noun);
    if number.at_least { text.replacen(' ', "+ ", 1) } else { text }
}

/// A line of facts at the top of a report. The value is Markdown already.
fn fact(out: &mut dyn Write, name: &str, value: impl AsRef<str>) -> io::Result<()> {
    writeln!(out, "- {name}: {}", value.as_ref())
}

/// Said below whatever was cut, so that nobody takes it for the whole.
fn tell_more(out: &mut dyn Write, more: bool) -> io::Result<()> {
    if more { writeln!(out, "\nThere is more than this report tells.") } else { Ok(()) }
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
