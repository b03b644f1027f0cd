//! Texts of shared contexts: differences and merges.

use poste_core::document::{count, count_all, merge, unified};
use poste_core::log::Lines;

/// The most lines that two texts may have together to be compared; one text alone has as many here.
const COMPARED_MAX: usize = 8_000;

#[test]
fn what_was_added_and_taken_away_is_counted() {
    assert_eq!(count("a\nb\nc\n", "a\nx\ny\nc\n"), Lines { added: 2, removed: 1 });
    assert_eq!(count("", "a\nb"), Lines { added: 2, removed: 0 });
    assert_eq!(count("a\n", "a\n"), Lines::default());
    assert_eq!(count_all("one\n\nthree"), Lines { added: 3, removed: 0 });
}

#[test]
fn a_diff_is_unified_and_names_both_texts() {
    let diff = unified("a\nb\n", "a\nc\n", ("version 1", "version 2"));
    assert_eq!(diff, "--- version 1\n+++ version 2\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n");
    assert_eq!(unified("a\n", "a\n", ("1", "2")), "");
}

#[test]
fn texts_that_differ_in_too_much_are_told_whole_and_in_time() {
    let one: String = (0..COMPARED_MAX).map(|line| format!("one {line}\n")).collect();
    let other: String = (0..COMPARED_MAX).map(|line| format!("other {line}\n")).collect();
    let many = u32::try_from(COMPARED_MAX).unwrap();
    assert_eq!(count(&one, &other), Lines { added: many, removed: many });
    let diff = unified(&one, &other, ("1", "2"));
    assert!(diff.contains(&format!("@@ -1,{many} +1,{many} @@")));
    assert_eq!(diff.lines().filter(|line| line.starts_with("+o")).count(), COMPARED_MAX);
    assert!(merge("base\n", &one, &other).is_err());
}

#[test]
fn changes_in_different_places_become_one_and_in_the_same_place_a_conflict() {
    let base = "head\na\nb\nc\nd\ntail\n";
    let merged = merge(base, "head\nA\nb\nc\nd\ntail\n", "head\na\nb\nc\nD\ntail\n");
    assert_eq!(merged, Ok("head\nA\nb\nc\nD\ntail\n".to_owned()));
    let both = merge(base, "head\nA\nb\nc\nd\ntail\n", "head\nX\nb\nc\nd\ntail\n").unwrap_err();
    assert!(both.contains("A\n=======\nX\n"), "{both}");
}
