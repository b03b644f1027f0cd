//! Measured times, and statistics about them.

use std::time::{Duration, Instant};

use crate::Result;

/// Times of one action, in the order they were taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sample {
    times: Vec<Duration>,
}

impl Sample {
    pub(crate) fn push(&mut self, time: Duration) {
        self.times.push(time);
    }

    /// The time that `percent` of all times do not exceed.
    pub(crate) fn percentile_us(&self, percent: f64) -> f64 {
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        if sorted.is_empty() {
            return f64::NAN;
        }
        let rank = (percent / 100.0 * (sorted.len() - 1) as f64).round() as usize;
        sorted[rank].as_secs_f64() * 1e6
    }

    pub(crate) fn median_us(&self) -> f64 {
        self.percentile_us(50.0)
    }

    /// How many per second, on average, so that stalls count.
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.times.iter().sum::<Duration>().as_secs_f64()
    }
}

/// An action that times itself.
pub(crate) type Action<'a> = Box<dyn FnMut() -> Result<Duration> + 'a>;

/// Times the whole action.
pub(crate) fn timed(action: impl FnOnce() -> Result) -> Result<Duration> {
    let started = Instant::now();
    action()?;
    Ok(started.elapsed())
}

/// Times several actions in turns, so that other load on the machine affects all of them equally.
pub(crate) fn in_turns(rounds: usize, actions: &mut [Action<'_>]) -> Result<Vec<Sample>> {
    let warm_up = (rounds / 10).clamp(1, 20);
    let mut samples = vec![Sample::default(); actions.len()];
    for round in 0..warm_up + rounds {
        for (action, sample) in actions.iter_mut().zip(&mut samples) {
            let took = action()?;
            if round >= warm_up {
                sample.push(took);
            }
        }
    }
    Ok(samples)
}
