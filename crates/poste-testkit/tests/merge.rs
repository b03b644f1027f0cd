//! Merging two changes of a shared context never loses anything silently.

use std::collections::BTreeMap;

use poste_core::document;
use poste_testkit::rng::Rng;

/// Lines that are often equal, so that a diff can go wrong.
fn line(rng: &mut Rng) -> String {
    match rng.below(10) {
        0..3 => "\n".to_owned(),
        3..6 => format!("{}\n", ["}", "## Update", "- item"][rng.below(3)]),
        _ => format!("line {}\n", rng.below(12)),
    }
}

fn text(rng: &mut Rng) -> Vec<String> {
    (0..rng.below(25)).map(|_| line(rng)).collect()
}

/// Removes, inserts or changes a few lines.
fn edited(rng: &mut Rng, base: &[String], mark: &str) -> Vec<String> {
    let mut lines = base.to_vec();
    for edit in 0..=rng.below(4) {
        let at = rng.below(lines.len() + 1);
        match rng.below(3) {
            0 => lines.insert(at, line(rng)),
            1 => lines.insert(at, format!("{mark} {edit}\n")),
            _ if at < lines.len() => {
                lines.remove(at);
            }
            _ => {}
        }
    }
    lines
}

fn count(text: &str) -> BTreeMap<&str, i64> {
    let mut counted = BTreeMap::new();
    for line in text.lines() {
        *counted.entry(line).or_default() += 1;
    }
    counted
}

#[test]
fn a_change_of_one_side_alone_is_the_result() {
    let mut rng = Rng::new(1);
    for _ in 0..2_000 {
        let (base, other) = (text(&mut rng).concat(), text(&mut rng).concat());
        assert_eq!(document::merge(&base, &other, &base).as_ref(), Ok(&other), "their side is unchanged");
        assert_eq!(document::merge(&base, &base, &other).as_ref(), Ok(&other), "our side is unchanged");
        assert_eq!(document::merge(&base, &other, &other).as_ref(), Ok(&other), "both sides made the same change");
    }
}

#[test]
fn no_line_that_somebody_added_goes_missing_in_silence() {
    let mut rng = Rng::new(2);
    let (mut merged, mut conflicts) = (0, 0);
    for round in 0..20_000 {
        let base = text(&mut rng);
        let mine = edited(&mut rng, &base, "mine").concat();
        let theirs = edited(&mut rng, &base, "theirs").concat();
        let base = base.concat();
        let (result, is_clean) = match document::merge(&base, &mine, &theirs) {
            Ok(result) => (result, true),
            Err(marked) => (marked, false),
        };
        merged += u32::from(is_clean);
        conflicts += u32::from(!is_clean);
        let (base, mine, theirs, result) = (count(&base), count(&mine), count(&theirs), count(&result));
        let of = |counted: &BTreeMap<&str, i64>, line: &str| counted.get(line).copied().unwrap_or(0);
        for line in mine.keys().chain(theirs.keys()) {
            let (b, m, t, r) = (of(&base, line), of(&mine, line), of(&theirs, line), of(&result, line));
            let added = (m - b).max(t - b).max(0);
            let removed = (b - m).max(0) + (b - t).max(0);
            assert!(r >= b + added - removed, "round {round}: {line:?} is there {r} times");
            if line.starts_with("mine") || line.starts_with("theirs") {
                assert!(r >= m.max(t), "round {round}: {line:?} is missing");
            }
        }
        // No line comes from nowhere either.
        if is_clean {
            for line in result.keys() {
                let known = of(&base, line) + of(&mine, line) + of(&theirs, line);
                assert!(known > 0, "round {round}: neither side wrote {line:?}");
            }
        }
    }
    assert!(merged > 1_000 && conflicts > 1_000, "{merged} merged, {conflicts} conflicts");
}

#[test]
fn changes_in_different_places_are_both_in_the_result() {
    let mut rng = Rng::new(3);
    for _ in 0..2_000 {
        // Two halves with unchanged, unique lines between them.
        let half = |from: usize, rng: &mut Rng| -> Vec<String> {
            (from..from + 4 + rng.below(8)).map(|line| format!("line {line}\n")).collect()
        };
        let (first, between, last) = (half(0, &mut rng), half(100, &mut rng), half(200, &mut rng));
        let (mine, theirs) = (edited(&mut rng, &first, "mine"), edited(&mut rng, &last, "theirs"));
        let joined = |first: &[String], last: &[String]| [first, &between, last].concat().concat();
        let result = document::merge(&joined(&first, &last), &joined(&mine, &last), &joined(&first, &theirs));
        assert_eq!(result, Ok(joined(&mine, &theirs)));
    }
}

#[test]
fn the_size_of_a_change_is_what_its_diff_shows() {
    let mut rng = Rng::new(4);
    for _ in 0..3_000 {
        let before = text(&mut rng);
        let after = edited(&mut rng, &before, "mine").concat();
        let before = before.concat();
        let lines = document::count(&before, &after);
        let (was, is) = (before.lines().count() as i64, after.lines().count() as i64);
        assert_eq!(was + i64::from(lines.added) - i64::from(lines.removed), is);
        let diff = document::unified(&before, &after, ("a", "b"));
        let shown = |sign: char| diff.lines().skip(2).filter(|line| line.starts_with(sign)).count();
        if !diff.is_empty() {
            assert!(shown('+') >= lines.added as usize && shown('-') >= lines.removed as usize, "{diff}");
        }
        assert_eq!(diff.is_empty(), before == after);
    }
}
