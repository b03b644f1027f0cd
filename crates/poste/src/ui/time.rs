//! Times for people.

use clap::ValueEnum;
use poste_core::Timestamp;
use poste_core::limits::{DAY_MS, MINUTE_MS, SECOND_MS};
use poste_core::time::length;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Default)]
pub(crate) enum TimeStyle {
    /// 3m ago, in 2h
    #[default]
    Relative,
    /// 2026-01-31T12:00:00.000Z
    Iso,
    /// Milliseconds since 1970
    Unix,
}

impl TimeStyle {
    pub(crate) fn format(self, at: Timestamp, now: Timestamp) -> String {
        match self {
            Self::Relative => {
                let ms = now.since_ms(at);
                match ms {
                    -999..=999 => "now".to_owned(),
                    1_000.. => format!("{} ago", length(ms)),
                    // A lease of ten minutes that began a moment ago ends in ten minutes, not in nine.
                    _ => format!("in {}", length(-ms + half_unit(-ms))),
                }
            }
            Self::Iso => at.to_string(),
            Self::Unix => at.ms().to_string(),
        }
    }
}

impl TimeStyle {
    /// How long something has been so: `for 3m`, or since when.
    pub(crate) fn since(self, at: Timestamp, now: Timestamp) -> String {
        match self {
            Self::Relative if now.since_ms(at) < SECOND_MS => "since just now".to_owned(),
            Self::Relative => format!("for {}", length(now.since_ms(at))),
            Self::Iso | Self::Unix => format!("since {}", self.format(at, now)),
        }
    }
}

/// In a report, which is read long after it was made, a moment is told as such and not by how long ago it was.
impl TimeStyle {
    pub(crate) fn moment(self, at: Timestamp) -> String {
        match self {
            Self::Relative => format!("{}Z", &at.to_string()[..19]),
            Self::Iso | Self::Unix => self.format(at, at),
        }
    }

    /// As [`Self::moment`], with the time alone on a day that is known.
    pub(crate) fn moment_of(self, at: Timestamp, day: Timestamp) -> String {
        let (text, day) = (at.to_string(), day.to_string());
        match self {
            Self::Relative if text[..10] == day[..10] => text[11..19].to_owned(),
            _ => self.moment(at),
        }
    }
}

fn half_unit(ms: i64) -> i64 {
    match ms {
        ..MINUTE_MS => SECOND_MS / 2,
        MINUTE_MS..DAY_MS => MINUTE_MS / 2,
        _ => DAY_MS / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use poste_core::limits::HOUR_MS;

    #[test]
    fn a_report_tells_moments() {
        let (day, next) = (Timestamp::from_ms(DAY_MS), Timestamp::from_ms(2 * DAY_MS + 1));
        assert_eq!(TimeStyle::Relative.moment(day), "1970-01-02T00:00:00Z");
        assert_eq!(TimeStyle::Relative.moment_of(day.plus_ms(61_000), day), "00:01:01");
        assert_eq!(TimeStyle::Relative.moment_of(next, day), "1970-01-03T00:00:00Z");
        assert_eq!(TimeStyle::Iso.moment_of(day, day), "1970-01-02T00:00:00.000Z");
        assert_eq!(TimeStyle::Unix.moment(next), "172800001");
    }

    #[test]
    fn relative_times_read_naturally() {
        let now = Timestamp::from_ms(10 * DAY_MS);
        let at = |ms: i64| TimeStyle::Relative.format(now.plus_ms(ms), now);
        assert_eq!(at(0), "now");
        assert_eq!(at(-5_000), "5s ago");
        assert_eq!(at(-90 * MINUTE_MS), "1h 30m ago");
        assert_eq!(at(2 * HOUR_MS), "in 2h");
        assert_eq!(at(-3 * DAY_MS), "3d ago");
        assert_eq!(at(10 * MINUTE_MS - 30), "in 10m");
        assert_eq!(at(59_700), "in 1m");
        assert_eq!(TimeStyle::Relative.since(now.plus_ms(-5_000), now), "for 5s");
    }
}
