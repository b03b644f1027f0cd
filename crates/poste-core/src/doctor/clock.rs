//! The machine's clock.

use serde_json::json;

use super::{Finding, Opened, Scene};
use crate::error::Error;
use crate::limits::CLOCK_LEAP_MS_MIN;
use crate::store::clock::{self, Reading};
use crate::time::length;

pub(super) fn clock(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let clock = scene.place.clock.as_ref();
    let head = opened.store.tables()?.cursor.head;
    let remembered = clock::remembered(opened.store.conn())?;
    match clock::read(clock, head.at, remembered.as_ref()) {
        Reading::TooFar { leap_ms, .. } => scene.add(
            Finding::problem(
                "clock",
                format!("the wall clock jumped ahead by {} while this machine was running", length(leap_ms)),
                "Writes are blocked until the clock is accepted, because leases and expiries depend on it.",
            )
            .advice("correct the clock, or, if it is right, accept it in your name")
            .verb("clock accept", json!({ "as": "NAME" })),
        ),
        Reading::Leap { leap_ms, .. } => scene.add(Finding::note(
            "clock",
            format!("the wall clock jumped ahead by {} while this machine was running", length(leap_ms)),
            "The next write accepts it and extends open leases by as much.",
        )),
        Reading::Now(_) => {}
    }
    let behind_ms = head.at.since_ms(clock.wall());
    if behind_ms > CLOCK_LEAP_MS_MIN {
        scene.add(
            Finding::warning(
                "clock",
                format!("the wall clock is {} behind the newest record", length(behind_ms)),
                "The log's time never goes back: it advances with the time since start-up, or stands still after a \
                 reboot, until the clock has caught up.",
            )
            .advice("correct the clock of this machine")
            .command("date"),
        );
    }
    if clock.boot().id.is_empty() && scene.request.verbose {
        scene.add(Finding::note("clock", "this system has no boot id", "Jumps of the clock cannot be detected here."));
    }
    Ok(())
}
