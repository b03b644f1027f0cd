//! Runs a property over many seeds, and reports how to run the one that failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Runs `one` for seeds 0, 1, 2 … and panics with the smallest failing seed that was found.
///
/// `POSTE_SEED=n` runs only seed `n`; `POSTE_SEEDS=n` runs `n` seeds instead of `seeds_default`. Seeds are spread over
/// the machine's cores, which changes no result, because the runs share nothing.
pub fn run(test_file: &str, seeds_default: u64, one: impl Fn(u64) -> Result<(), String> + Sync) {
    if let Some(seed) = number_from_env("POSTE_SEED") {
        if let Err(why) = guarded(&one, seed) {
            panic!("{}", report(test_file, seed, &why));
        }
        return;
    }
    let seeds = number_from_env("POSTE_SEEDS").unwrap_or(seeds_default);
    let next = AtomicU64::new(0);
    let failures = Mutex::new(Vec::new());
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, SeqCst);
                    if seed >= seeds {
                        return;
                    }
                    if let Err(why) = guarded(&one, seed) {
                        next.store(seeds, SeqCst); // one failure is enough to look at
                        failures.lock().expect("no worker panics with the list").push((seed, why));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("every worker has ended");
    if let Some((seed, why)) = failures.into_iter().min_by_key(|(seed, _)| *seed) {
        panic!("{}", report(test_file, seed, &why));
    }
}

/// Whether the default seeds run, so that a test may require coverage over all of them.
pub fn is_full_run() -> bool {
    !is_replay() && number_from_env("POSTE_SEEDS").is_none()
}

/// Whether a single seed is replayed, in which case the cost of closer checks does not matter.
pub fn is_replay() -> bool {
    number_from_env("POSTE_SEED").is_some()
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not a number")))
}

fn report(test_file: &str, seed: u64, why: &str) -> String {
    format!("seed {seed}: {why}\nreplay it alone: POSTE_SEED={seed} cargo test -p poste-testkit --test {test_file}")
}

/// A panic counts as a failure of its seed.
fn guarded(one: impl Fn(u64) -> Result<(), String>, seed: u64) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| one(seed))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("(no text)")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_seed_is_named_with_the_command_that_replays_it() {
        let failed = catch_unwind(|| {
            run("example", 20, |seed| if seed == 7 { Err("it broke".to_owned()) } else { Ok(()) });
        });
        let text = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(text.contains("seed 7: it broke"), "{text}");
        assert!(text.contains("POSTE_SEED=7 cargo test -p poste-testkit --test example"), "{text}");
    }

    #[test]
    fn a_panic_inside_a_seed_is_told_like_a_failure() {
        let told = guarded(|_| panic!("out of range"), 3).unwrap_err();
        assert!(told.contains("out of range"), "{told}");
    }
}
