//! Times for people.

use clap::ValueEnum;
use poste_core::Timestamp;
use poste_core::limits::{DAY_MS, MINUTE_MS, SECOND_MS};
use poste_core::time::length;
use poste_verbs::report::page::Moments;

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

    /// How long a state has lasted: `for 3m`, or since when.
    pub(crate) fn since(self, at: Timestamp, now: Timestamp) -> String {
        match self {
            Self::Relative if now.since_ms(at) < SECOND_MS => "since just now".to_owned(),
            Self::Relative => format!("for {}", length(now.since_ms(at))),
            Self::Iso | Self::Unix => format!("since {}", self.format(at, now)),
        }
    }
}

/// The time style of a report.
impl From<TimeStyle> for Moments {
    fn from(style: TimeStyle) -> Self {
        match style {
            TimeStyle::Relative => Self::Short,
            TimeStyle::Iso => Self::Iso,
            TimeStyle::Unix => Self::Unix,
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
