//! How the time of the log is derived from the clocks of a machine.

use poste_core::Timestamp;
use poste_core::limits::{DAY_MS, HOUR_MS, MINUTE_MS};
use poste_core::store::clock::{Boot, Clock, Reading, Remembered, read};

#[derive(Debug)]
struct Fixed(i64, &'static str, i64);
impl Clock for Fixed {
    fn wall(&self) -> Timestamp {
        Timestamp::from_ms(self.0)
    }
    fn boot(&self) -> Boot {
        Boot { id: self.1.to_owned(), ms: self.2 }
    }
}

const T: i64 = 1_800_000_000_000;

fn at(wall: i64, boot_id: &'static str, boot_ms: i64) -> Reading {
    let remembered = Remembered { boot: Boot { id: "a".into(), ms: 1_000 }, at: Timestamp::from_ms(T) };
    read(&Fixed(wall, boot_id, boot_ms), Timestamp::from_ms(T), Some(&remembered))
}

#[test]
fn the_wall_clock_is_believed_while_both_clocks_agree() {
    assert_eq!(at(T + 5_000, "a", 6_000), Reading::Now(Timestamp::from_ms(T + 5_000)));
}

#[test]
fn a_clock_set_back_lets_time_go_on_by_the_boot_clock() {
    assert_eq!(at(T - HOUR_MS, "a", 6_000), Reading::Now(Timestamp::from_ms(T + 5_000)));
}

#[test]
fn a_frozen_wall_clock_never_goes_back() {
    assert_eq!(at(T, "a", 6_000), Reading::Now(Timestamp::from_ms(T)));
}

#[test]
fn leaps_are_taken_up_to_a_day_and_refused_beyond() {
    let ahead = 9 * MINUTE_MS;
    assert_eq!(at(T + ahead, "a", 1_000), Reading::Now(Timestamp::from_ms(T + ahead)));
    let ahead = 3 * HOUR_MS;
    assert_eq!(at(T + ahead, "a", 1_000), Reading::Leap { at: Timestamp::from_ms(T + ahead), leap_ms: ahead });
    let ahead = DAY_MS + 1;
    assert!(matches!(at(T + ahead, "a", 1_000), Reading::TooFar { .. }));
    assert_eq!(at(T + ahead, "a", 1_000).for_views(), Timestamp::from_ms(T));
}

#[test]
fn sleep_is_no_leap_because_the_boot_clock_goes_on() {
    assert_eq!(at(T + DAY_MS, "a", 1_000 + DAY_MS), Reading::Now(Timestamp::from_ms(T + DAY_MS)));
}

#[test]
fn after_a_reboot_downtime_is_no_leap() {
    assert_eq!(at(T + 30 * DAY_MS, "b", 10), Reading::Now(Timestamp::from_ms(T + 30 * DAY_MS)));
    assert_eq!(at(T - HOUR_MS, "b", 10), Reading::Now(Timestamp::from_ms(T)));
}

#[test]
fn back_and_forth_again_is_no_leap() {
    // The clock was set back an hour, records were dated by the boot clock, then the clock was corrected.
    assert_eq!(at(T + 2_000, "a", 3_000), Reading::Now(Timestamp::from_ms(T + 2_000)));
}
