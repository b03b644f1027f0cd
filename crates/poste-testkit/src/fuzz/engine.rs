//! Runs one target until it is told to stop. Everything it does depends on the seed alone.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use super::mutate::mutate;
use super::{Checked, Target};
use crate::rng::Rng;

/// Inputs with a new outcome are kept to mutate further, up to this many.
const KEPT_MAX: usize = 5_000;
/// A target with more outcomes has put details into them, which must not fill the memory.
const OUTCOMES_MAX: usize = 20_000;
/// Enough to examine; the same fault is counted once.
const FINDINGS_MAX: usize = 10;
/// No input within the size limit of [`mutate`] may take longer.
const SLOW: Duration = Duration::from_secs(2);
const SHRINK_TRIES_MAX: usize = 3_000;

/// An input that breaks something.
#[derive(Debug, Clone)]
pub struct Finding {
    pub input: Vec<u8>,
    pub why: String,
}

#[derive(Debug, Default)]
pub struct Report {
    pub inputs: u64,
    /// Every distinct outcome, and how often it occurred.
    pub outcomes: BTreeMap<String, u64>,
    pub kept: usize,
    pub findings: Vec<Finding>,
    pub slowest: Duration,
}

/// Feeds the seeds, and then mutated copies of interesting inputs. `before` sees every input and says whether to
/// continue.
pub fn run(target: &Target, seed: u64, mut before: impl FnMut(u64, &[u8]) -> bool) -> Report {
    let mut rng = Rng::new(seed);
    let mut report = Report::default();
    let mut kept = (target.seeds)();
    let mut upcoming = kept.clone();
    upcoming.reverse();
    while report.findings.len() < FINDINGS_MAX {
        let input = upcoming.pop().unwrap_or_else(|| {
            let (one, other) = (rng.below(kept.len()), rng.below(kept.len()));
            mutate(&mut rng, &kept[one], &kept[other])
        });
        if !before(report.inputs, &input) {
            break;
        }
        report.inputs += 1;
        let started = Instant::now();
        let checked = guarded(target, &input);
        let took = started.elapsed();
        report.slowest = report.slowest.max(took);
        let outcome = match checked {
            Ok(outcome) if took > SLOW => {
                note(&mut report, target, &input, format!("it took {} ms ({outcome})", took.as_millis()));
                continue;
            }
            Ok(outcome) => class(&outcome),
            Err(why) => {
                note(&mut report, target, &input, why);
                continue;
            }
        };
        if report.outcomes.len() >= OUTCOMES_MAX && !report.outcomes.contains_key(&outcome) {
            continue;
        }
        let seen = report.outcomes.entry(outcome).or_default();
        *seen += 1;
        if *seen == 1 && kept.len() < KEPT_MAX {
            kept.push(input);
        }
    }
    report.kept = kept.len();
    report
}

/// The target's verdict on one input; a panic counts as a violation.
pub fn guarded(target: &Target, input: &[u8]) -> Checked {
    catch_unwind(AssertUnwindSafe(|| (target.check)(input))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(format!("it panicked: {}", text.unwrap_or("(no text)")))
    })
}

fn note(report: &mut Report, target: &Target, input: &[u8], why: String) {
    let same = class(&why);
    if report.findings.iter().any(|finding| class(&finding.why) == same) {
        return;
    }
    let input = if why.starts_with("it took") { input.to_vec() } else { shrink(target, input, &same) };
    report.findings.push(Finding { input, why });
}

/// Removes whatever is not needed to break the same thing.
fn shrink(target: &Target, input: &[u8], same: &str) -> Vec<u8> {
    let breaks = |input: &[u8]| guarded(target, input).is_err_and(|why| class(&why) == same);
    let mut smallest = input.to_vec();
    let mut tries = 0;
    let mut piece = smallest.len().div_ceil(2);
    while piece > 0 {
        let mut at = 0;
        while at < smallest.len() && tries < SHRINK_TRIES_MAX {
            let mut without = smallest.clone();
            without.drain(at..(at + piece).min(smallest.len()));
            tries += 1;
            if breaks(&without) {
                smallest = without;
            } else {
                at += piece;
            }
        }
        piece /= 2;
    }
    smallest
}

/// Removes the details: numbers, and the text between the first quote and the last.
fn class(text: &str) -> String {
    const CHARS_MAX: usize = 160;
    let quotes = ['"', '`'];
    let unquoted = match (text.find(quotes), text.rfind(quotes)) {
        (Some(first), Some(last)) => format!("{}…{}", &text[..first], &text[last + 1..]),
        _ => text.to_owned(),
    };
    let mut class = String::new();
    for character in unquoted.chars().take(CHARS_MAX) {
        match character {
            digit if digit.is_ascii_digit() => {
                if !class.ends_with('#') {
                    class.push('#');
                }
            }
            other => class.push(other),
        }
    }
    class
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needle(input: &[u8]) -> Checked {
        assert!(!input.windows(2).any(|pair| pair == b"ab"), "an a before a b");
        Ok(format!("{} bytes", input.len().min(4)))
    }
    const NEEDLE: Target =
        Target { name: "needle", about: "", seeds: || vec![b"a".to_vec(), b"b and more".to_vec()], check: needle };

    #[test]
    fn a_fault_is_found_shrunk_and_told_once_and_the_seed_decides() {
        let find = || run(&NEEDLE, 7, |inputs, _| inputs < 20_000);
        let (first, second) = (find(), find());
        assert_eq!(first.findings.len(), 1, "{:?}", first.findings);
        assert_eq!(first.findings[0].input, b"ab");
        assert!(first.findings[0].why.contains("an a before a b"));
        assert_eq!((first.inputs, &first.outcomes), (second.inputs, &second.outcomes));
    }

    #[test]
    fn outcomes_that_differ_in_details_are_one() {
        assert_eq!(class("line 12: \"abc\" is not a name"), class("line 7: \"x\\y\" is not a name"));
        assert_ne!(class("is not a name"), class("is not a topic"));
    }
}
