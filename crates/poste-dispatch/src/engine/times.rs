//! Times in this machine's time zone: quiet hours, schedules and budget periods.

use jiff::tz::TimeZone;
use jiff::{ToSpan, Unit, Zoned};
use poste_config::{BudgetTime, Quiet, schedule};
use poste_core::time::Timestamp;

const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: i64 = 24 * 60;

fn zoned(at: Timestamp, zone: &TimeZone) -> Zoned {
    at.to_jiff().to_zoned(zone.clone())
}

fn stamp(at: &Zoned) -> Timestamp {
    Timestamp::from_ms(at.timestamp().as_millisecond())
}

/// The end of the quiet hours, if `now` is in them.
pub(super) fn quiet_until(quiet: Quiet, now: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let local = zoned(now, zone);
    let minute = u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
    if !quiet.holds_at(minute) {
        return None;
    }
    // If the clocks change in between, this is an hour early, which costs one more check, or an hour late.
    let minutes = (i64::from(quiet.to) - i64::from(minute)).rem_euclid(DAY_MINUTES);
    let into = now.ms() % MINUTE_MS;
    Some(now.plus_ms(minutes * MINUTE_MS - into))
}

/// The last time of a schedule, which may be now, and its next one.
pub(super) fn occurrences(text: &str, now: Timestamp, zone: &TimeZone) -> (Option<Timestamp>, Option<Timestamp>) {
    // It was validated when the file was read.
    let Ok(cron) = schedule(text) else { return (None, None) };
    let local = zoned(now, zone);
    let last = cron.find_previous_occurrence(&local, true).ok();
    let next = cron.find_next_occurrence(&local, false).ok();
    (last.map(|at| stamp(&at)), next.map(|at| stamp(&at)))
}

/// When the hour or the day of a budget began.
pub(super) fn budget_since(per: BudgetTime, now: Timestamp, zone: &TimeZone) -> Timestamp {
    let local = zoned(now, zone);
    let began = match per {
        BudgetTime::Day => local.start_of_day(),
        BudgetTime::Hour => local.round(jiff::ZonedRound::new().smallest(Unit::Hour).mode(jiff::RoundMode::Trunc)),
    };
    began.map_or(now, |began| stamp(&began))
}

/// When the next hour or day of a budget begins.
pub(super) fn budget_until(per: BudgetTime, now: Timestamp, zone: &TimeZone) -> Timestamp {
    let began = zoned(budget_since(per, now, zone), zone);
    let next = match per {
        BudgetTime::Day => began.checked_add(1.day()),
        BudgetTime::Hour => began.checked_add(1.hour()),
    };
    next.map_or(now.plus_ms(60 * MINUTE_MS), |next| stamp(&next))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::from_ms(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
    }

    fn berlin() -> TimeZone {
        TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap()
    }

    #[test]
    fn quiet_hours_use_the_machines_time_zone() {
        let night = Quiet { from: 22 * 60, to: 7 * 60 };
        assert_eq!(quiet_until(night, at("2026-06-01T20:30:10Z"), &berlin()), Some(at("2026-06-02T05:00:00Z")));
        assert_eq!(quiet_until(night, at("2026-06-02T04:59:59.900Z"), &berlin()), Some(at("2026-06-02T05:00:00Z")));
        assert_eq!(quiet_until(night, at("2026-06-02T05:00:00Z"), &berlin()), None);
        assert_eq!(quiet_until(night, at("2026-06-01T19:59:59Z"), &berlin()), None);
    }

    #[test]
    fn a_schedule_has_a_last_and_a_next_time() {
        let found = occurrences("0 9 * * *", at("2026-06-01T08:00:00Z"), &berlin());
        assert_eq!(found, (Some(at("2026-06-01T07:00:00Z")), Some(at("2026-06-02T07:00:00Z"))));
        let found = occurrences("*/30 * * * *", at("2026-06-01T08:30:00Z"), &TimeZone::UTC);
        assert_eq!(found, (Some(at("2026-06-01T08:30:00Z")), Some(at("2026-06-01T09:00:00Z"))));
    }

    #[test]
    fn a_budget_is_for_an_hour_or_a_day() {
        let now = at("2026-06-01T22:45:10Z");
        assert_eq!(budget_since(BudgetTime::Hour, now, &berlin()), at("2026-06-01T22:00:00Z"));
        assert_eq!(budget_until(BudgetTime::Hour, now, &berlin()), at("2026-06-01T23:00:00Z"));
        assert_eq!(budget_since(BudgetTime::Day, now, &berlin()), at("2026-06-01T22:00:00Z"));
        assert_eq!(budget_until(BudgetTime::Day, now, &berlin()), at("2026-06-02T22:00:00Z"));
    }
}
