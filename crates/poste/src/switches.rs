//! Switches for tests, so that output can be compared and time can be chosen. A clock that anyone can set ends another
//! agent's lease or decides an approval by its default, so release builds contain none of this.

#[cfg(debug_assertions)]
pub(crate) use debug::{clear, clock, person, seed};
#[cfg(not(debug_assertions))]
pub(crate) use release::{clear, clock, person, seed};

#[cfg(debug_assertions)]
mod debug {
    use std::sync::Arc;

    use poste_core::Timestamp;
    use poste_core::store::clock::{Boot, Clock};
    use poste_core::time::{When, parse_when};
    use poste_verbs::{Error, Result};

    /// The seed of all ids and nonces.
    pub(crate) fn seed() -> Option<u64> {
        std::env::var("POSTE_TEST_SEED").ok().and_then(|text| text.parse().ok())
    }

    /// A clock that stands still: `POSTE_TEST_CLOCK` is a timestamp, `POSTE_TEST_BOOT` milliseconds since boot.
    pub(crate) fn clock() -> Result<Option<Arc<dyn Clock>>> {
        let Ok(text) = std::env::var("POSTE_TEST_CLOCK") else { return Ok(None) };
        let Ok(When::At(wall)) = parse_when(&text) else {
            return Err(Error::usage("POSTE_TEST_CLOCK is not a timestamp"));
        };
        let boot_ms = std::env::var("POSTE_TEST_BOOT").ok().and_then(|text| text.parse().ok()).unwrap_or(wall.ms());
        Ok(Some(Arc::new(StandingClock { wall, boot_ms })))
    }

    /// A person gave this command and confirmed it, as if at a terminal.
    pub(crate) fn person() -> bool {
        std::env::var_os("POSTE_TEST_PERSON").is_some_and(|value| value == "1")
    }

    /// Several processes with the same seed would draw the same ids.
    pub(crate) fn clear(command: &mut std::process::Command) {
        command.env_remove("POSTE_TEST_SEED");
    }

    #[derive(Debug)]
    struct StandingClock {
        wall: Timestamp,
        boot_ms: i64,
    }

    impl Clock for StandingClock {
        fn wall(&self) -> Timestamp {
            self.wall
        }

        fn boot(&self) -> Boot {
            Boot { id: "test".to_owned(), ms: self.boot_ms }
        }
    }
}

#[cfg(not(debug_assertions))]
mod release {
    use std::sync::Arc;

    use poste_core::store::clock::Clock;
    use poste_verbs::Result;

    pub(crate) fn seed() -> Option<u64> {
        None
    }

    pub(crate) fn clock() -> Result<Option<Arc<dyn Clock>>> {
        Ok(None)
    }

    pub(crate) fn person() -> bool {
        false
    }

    pub(crate) fn clear(_: &mut std::process::Command) {}
}
