//! Times and durations as people write them.

use poste_core::Timestamp;
use poste_core::limits::{DAY_MS, MINUTE_MS};
use poste_core::time::{When, parse_day, parse_duration_ms, parse_past, parse_when};

#[test]
fn a_day_begins_and_ends_at_midnight() {
    let now = Timestamp::from_ms(1_767_225_600_000 + 90 * MINUTE_MS);
    let midnight = Timestamp::from_ms(1_767_225_600_000);
    assert_eq!(parse_day("today", now), Ok((midnight, midnight.plus_ms(DAY_MS))));
    assert_eq!(parse_day("yesterday", now), Ok((midnight.plus_ms(-DAY_MS), midnight)));
    assert_eq!(parse_day("2026-01-01", now), parse_day("today", now));
    for bad in ["", "tomorrow", "2026-01-02", "2026-13-01", "2026-01-01T00:00:00Z", "1d"] {
        assert!(parse_day(bad, now).is_err(), "{bad}");
    }
}

#[test]
fn durations_and_moments_are_read_as_people_write_them() {
    assert_eq!(parse_duration_ms("10m"), Ok(600_000));
    assert_eq!(parse_duration_ms("1h 30m"), Ok(5_400_000));
    assert_eq!(parse_duration_ms("1d"), Ok(86_400_000));
    assert_eq!(parse_duration_ms("2 weeks"), Ok(1_209_600_000));
    assert_eq!(parse_duration_ms("250ms"), Ok(250));
    for bad in ["", "10", "soon", "-5m", "1e9h", "99999999999999999999h"] {
        assert!(parse_duration_ms(bad).is_err(), "{bad}");
    }
    assert_eq!(parse_when("2026-01-01T00:00:00Z"), Ok(When::At(Timestamp::from_ms(1_767_225_600_000))));
    assert_eq!(parse_when("45s"), Ok(When::InMs(45_000)));
    assert!(parse_when("yesterday").is_err());
    assert_eq!(parse_past("2026-01-01"), parse_when("2026-01-01T00:00:00Z"));
    assert_eq!(parse_past("45s"), Ok(When::InMs(45_000)));
    assert!(parse_past("2026-01-01T00:00:00").is_err(), "a time of day needs an offset");
    assert!(parse_past("2026-13-01").is_err());
}

#[test]
fn time_never_overflows_and_always_prints() {
    assert_eq!(Timestamp::MAX.plus_ms(i64::MAX), Timestamp::MAX);
    assert_eq!(Timestamp::from_ms(i64::MIN), Timestamp::ZERO);
    assert_eq!(Timestamp::from_ms(1_767_225_600_001).to_string(), "2026-01-01T00:00:00.001Z");
    assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.000Z");
}
