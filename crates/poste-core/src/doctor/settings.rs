//! The machine's clock and its `poste.toml`.

use super::{Finding, Opened, Scene};
use crate::error::Error;
use crate::limits::CLOCK_LEAP_MS_MIN;
use crate::office::{Standing, Weighed, local_config, weigh_file};
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
                format!("the wall clock leapt ahead by {} while this machine was running", length(leap_ms)),
                "Nothing is written until somebody says that the clock is right: leases and expiries hang on it.",
            )
            .advice("correct the clock, or, if it is right, accept it in your name")
            .command("poste clock accept --as NAME"),
        ),
        Reading::Leap { leap_ms, .. } => scene.add(Finding::note(
            "clock",
            format!("the wall clock leapt ahead by {} while this machine was running", length(leap_ms)),
            "The next write takes it, and moves open leases along.",
        )),
        Reading::Now(_) => {}
    }
    let behind_ms = head.at.since_ms(clock.wall());
    if behind_ms > CLOCK_LEAP_MS_MIN {
        scene.add(
            Finding::warning(
                "clock",
                format!("the wall clock is {} behind the newest record", length(behind_ms)),
                "The log's time never goes back: it goes on by the time since start-up, or stands still after a reboot, \
                 until the clock has caught up.",
            )
            .advice("correct the clock of this machine")
            .command("date"),
        );
    }
    if clock.boot().id.is_empty() && scene.request.verbose {
        scene.add(Finding::note(
            "clock",
            "this system does not tell one start-up from another",
            "Leaps of the clock cannot be noticed here.",
        ));
    }
    Ok(())
}

/// The file of this machine: what is wrong with it stops everything that would run something by it.
pub(super) fn own_file(scene: &mut Scene<'_>) -> Result<(), Error> {
    match local_config(&scene.place.path) {
        Ok(_) => Ok(()),
        Err(Error::Config { path, message }) => {
            scene.add(
                Finding::problem(
                    "local_file",
                    format!("{}: {message}", path.display()),
                    "Nothing is claimed, finished or started until it is mended.",
                )
                .advice("correct the file")
                .command("poste config check"),
            );
            Ok(())
        }
        Err(error) => Err(error),
    }
}

pub(super) fn policy(scene: &mut Scene<'_>, opened: &Opened) -> Result<(), Error> {
    let weighed = match weigh_file(&opened.store) {
        Ok(Some(weighed)) => weighed,
        Ok(None) => return Ok(()),
        Err(Error::Config { path, message }) => {
            scene.add(
                Finding::problem(
                    "policy",
                    format!("{}: {message}", path.display()),
                    "Every command that writes stops here. What was in force before stays in force.",
                )
                .advice("correct the file"),
            );
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let in_force = opened.store.tables()?.policy()?;
    let Weighed { standing, policy, .. } = weighed;
    match standing {
        Standing::InForce => {}
        Standing::Overruled => scene.add(
            Finding::warning(
                "policy",
                format!("poste.toml is not in force: policy {} from {} is", in_force.version, in_force.host),
                "Another machine changed the policy after this one. What this file says has no effect.",
            )
            .advice("bring this file up to the policy in force, then change it"),
        ),
        Standing::Next if policy.replaces != in_force.version => scene.add(
            Finding::problem(
                "policy",
                format!(
                    "poste.toml would replace policy {}, but policy {} is in force, set by {}",
                    policy.replaces, in_force.version, in_force.host
                ),
                "Both were changed. Every command that writes is refused until they agree.",
            )
            .advice("bring this file up to the policy in force, then change it"),
        ),
        Standing::Next => scene.add(Finding::note(
            "policy",
            "poste.toml was changed and is not in force yet",
            "The next command that writes proposes it.",
        )),
    }
    Ok(())
}
