//! Path patterns: they cover the paths that globset says, and two overlap if some path is covered by both.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobMatcher};
use poste_core::limits;
use poste_core::pattern::{Effort, Pattern, Touched};

fn pattern(text: &str) -> Pattern {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

fn covers(text: &str, path: &str) -> bool {
    pattern(text).touches(&Touched::file(path.as_bytes()))
}

fn overlap(one: &Pattern, other: &Pattern) -> bool {
    let mut effort = Effort::new(limits::OVERLAP_STEPS_MAX);
    let answer = one.overlaps(other, &mut effort);
    assert!(!effort.is_spent(), "comparing {one} and {other} takes too many steps");
    answer
}

fn overlaps(one: &str, other: &str) -> bool {
    let answer = overlap(&pattern(one), &pattern(other));
    assert_eq!(answer, overlap(&pattern(other), &pattern(one)), "{one} {other}: the order does not matter");
    answer
}

/// Every valid path of up to this many characters of `a`, `b` and `/`: no name is empty.
fn all_paths(length_max: usize) -> Vec<String> {
    let mut longest = vec![String::new()];
    let mut paths = Vec::new();
    for _ in 0..length_max {
        longest = longest.iter().flat_map(|path| ["a", "b", "/"].map(|c| format!("{path}{c}"))).collect();
        longest.retain(|path| !path.starts_with('/') && !path.contains("//"));
        paths.extend(longest.iter().filter(|path| !path.ends_with('/')).cloned());
    }
    paths
}

/// Globset, with our two differences: a path without wildcards covers everything below it, and `[!a]` does not match
/// `/`.
struct Oracle {
    text: String,
    glob: GlobMatcher,
}

impl Oracle {
    fn new(text: &str) -> Self {
        let glob = GlobBuilder::new(&text.replace("[!a]", "[!a/]"))
            .literal_separator(true)
            .backslash_escape(true)
            .empty_alternates(true)
            .build()
            .unwrap_or_else(|error| panic!("{error}"))
            .compile_matcher();
        Self { text: text.to_owned(), glob }
    }

    fn covers(&self, path: &str) -> bool {
        let is_below = || path.strip_prefix(&self.text).is_some_and(|rest| rest.starts_with('/'));
        self.glob.is_match(path) || (!self.text.contains(['*', '?', '[', '{']) && is_below())
    }
}

/// The paths that a pattern covers, one bit each.
fn covered(oracle: &Oracle, paths: &[String]) -> Vec<u64> {
    let bit = |path: &String| u64::from(oracle.covers(path));
    paths.chunks(64).map(|chunk| chunk.iter().rev().fold(0, |bits, path| bits << 1 | bit(path))).collect()
}

/// Every pattern of up to this many of these pieces.
fn all_patterns(pieces: &[&str], length_max: usize) -> Vec<Pattern> {
    let mut longest = vec![String::new()];
    let mut found = BTreeSet::new();
    for _ in 0..length_max {
        longest = longest.iter().flat_map(|text| pieces.iter().map(move |piece| format!("{text}{piece}"))).collect();
        found.extend(longest.iter().filter_map(|text| text.parse::<Pattern>().ok()));
    }
    found.into_iter().collect()
}

/// Compares all pairs of patterns with every short path. Two patterns of four pieces have a common path of at most
/// eight characters, if they have one.
fn compare_all(patterns: &[Pattern], paths: &[String]) {
    let sets: Vec<Vec<u64>> = patterns.iter().map(|pattern| covered(&Oracle::new(pattern.as_str()), paths)).collect();
    let mut found = [0_u32; 2];
    for (index, (one, set)) in patterns.iter().zip(&sets).enumerate() {
        for (path, bit) in paths.iter().zip((0..).map(|at| set[at / 64] >> (at % 64) & 1)) {
            let touched = one.touches(&Touched::file(path.as_bytes()));
            assert_eq!(touched, bit == 1, "{one} and the path {path}");
            assert!(!touched || path.as_bytes().starts_with(&one.prefix()), "{one}: {path} does not have its prefix");
        }
        for (other, others) in patterns.iter().zip(&sets).skip(index) {
            let expected = set.iter().zip(others).any(|(own, others)| own & others != 0);
            assert_eq!(overlap(one, other), expected, "{one} and {other}");
            let (long, short) = (one.prefix(), other.prefix());
            assert!(!expected || long.starts_with(&short) || short.starts_with(&long), "{one} and {other}: prefixes");
            found[usize::from(expected)] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 1_000), "both answers are common: {found:?}");
}

#[test]
fn every_small_pair_overlaps_exactly_if_some_path_is_covered_by_both() {
    compare_all(&all_patterns(&["a", "/", "*", "?", "[!a]"], 4), &all_paths(8));
}

#[test]
fn braces_are_their_alternatives() {
    // Each has a wildcard outside of the braces, so that no alternative is a plain path, and none has an empty name,
    // which Poste does not allow: `{,a}/b` covers `b`.
    let mut patterns = all_patterns(&["{a,b}", "b{,ab}", "{?,bb}", "/", "b"], 3);
    patterns.retain(|pattern| !pattern.as_str().ends_with("**"));
    let patterns: Vec<Pattern> = patterns.iter().map(|one| pattern(&format!("{one}?"))).collect();
    compare_all(&patterns, &all_paths(7));
}

#[test]
fn long_random_patterns_never_miss_a_path_both_cover() {
    let paths = all_paths(9);
    let mut state = 7_u64;
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % bound
    };
    let pieces = ["a", "b", "/", "*", "/**/", "?", "[ab]", "[!a]", "{a,b*}", "{a/b,*}", "{,a/}"];
    let mut patterns = Vec::new();
    while patterns.len() < 400 {
        let text: String = (0..3 + below(6)).map(|_| pieces[below(pieces.len())]).collect();
        patterns.extend(text.parse::<Pattern>());
    }
    let (mut apart, mut common) = (0, 0);
    for pair in patterns.chunks(2) {
        let [one, other] = pair else { continue };
        let both = paths.iter().find(|path| {
            let touched = Touched::file(path.as_bytes());
            one.touches(&touched) && other.touches(&touched)
        });
        match overlap(one, other) {
            true => common += usize::from(both.is_some()),
            false => apart += usize::from(both.is_none()),
        }
        assert!(both.is_none() || overlap(one, other), "{one} and {other} both cover {both:?}");
    }
    assert!(apart > 20 && common > 20, "both answers are common: {apart} {common}");
}

#[test]
fn a_path_without_wildcards_is_the_file_or_the_folder_with_everything_below() {
    assert!(covers("src/auth", "src/auth"));
    assert!(covers("src/auth", "src/auth/login/mod.rs"));
    assert!(!covers("src/auth", "src/auth.rs"));
    assert!(!covers("src/auth", "src"));
    assert!(covers("src/auth/", "src/auth/login.rs"));
    assert!(covers("src/{auth,api}", "src/api/mod.rs"), "each alternative is a plain path");
    assert!(!covers("src/*", "src/auth/login.rs"), "a wildcard matches one level");
    assert!(covers("src/*/", "src/auth/login.rs"));
    assert!(covers(".", "anything/at/all"));
}

#[test]
fn overlaps_are_found_where_no_text_is_equal() {
    assert!(overlaps("src/auth/**", "src/*/login.rs"));
    assert!(overlaps("**/*.rs", "src/**"));
    assert!(overlaps("src/auth", "src/auth/login.rs"));
    assert!(overlaps("src/[a-m]*/x", "src/{auth,zoo}/x"));
    assert!(overlaps("a/**/b", "a/b"));
    assert!(!overlaps("src/auth/**", "src/api/**"));
    assert!(!overlaps("**/*.rs", "**/*.md"));
    assert!(!overlaps("src/*", "src/*/mod.rs"));
    assert!(!overlaps("src/[!a]*", "src/auth"));
    assert!(!overlaps("docs/a", "docs/ab"));
}

#[test]
fn names_are_compared_by_character_case_and_byte() {
    assert!(covers("src/?.rs", "src/é.rs"), "one character, two bytes");
    assert!(!covers("Src/a", "src/a"));
    let broken = Touched::file(b"src/\xff.rs");
    assert!(pattern("src/?.rs").touches(&broken));
    assert!(pattern("src/[!a].rs").touches(&broken));
    assert!(pattern("src").touches(&broken));
    assert!(!pattern("src/ÿ.rs").touches(&broken), "the byte ff is not the character ÿ");
    assert!(covers("src/[c-eab-d]", "src/b") && !covers("src/[c-eab-d]", "src/f"));
    assert!(covers("src/[!a-z]", "src/-") && !covers("src/[+-9]", "src//") && covers("src/[]-]", "src/]"));
    assert!(covers("a\\*b", "a*b") && !covers("a\\*b", "axb"));
    let odd = "app/[id]/{x},y*?\\.tsx";
    let escaped = Pattern::of_path(odd).unwrap();
    assert!(escaped.touches(&Touched::file(odd.as_bytes())));
    assert!(!escaped.touches(&Touched::file(b"app/i/x.tsx")));
    assert!(covers("src/a b\nc", "src/a b\nc"));
}

#[test]
fn a_folder_is_touched_with_everything_below() {
    let module = Touched::folder(b"vendor/lib");
    assert!(pattern("vendor/lib/src/**").touches(&module));
    assert!(pattern("vendor/*").touches(&module));
    assert!(!pattern("vendor/other").touches(&module));
    assert!(!pattern("vendor/lib/src/**").touches(&Touched::file(b"vendor/lib")));
}

#[test]
fn there_is_one_way_of_writing_a_pattern() {
    let written = |text: &str| pattern(text).to_string();
    assert_eq!(written("./src//auth/./"), "src/auth");
    assert_eq!(written("src/*/"), "src/*/**");
    assert_eq!(written("src/**/"), "src/**");
    assert_eq!(written("."), "**");
    assert_eq!(written("{a/./b,c}/x"), "{a/./b,c}/x");
    for text in ["src//a", "./a", "a/"] {
        assert!(serde_json::from_str::<Pattern>(&format!("{text:?}")).is_err(), "{text} is not accepted in a record");
    }
    assert_eq!(serde_json::from_str::<Pattern>("\"src/**\"").unwrap(), pattern("src/**"));
}

#[test]
fn what_is_no_pattern_is_refused_with_a_reason() {
    let refused = [
        ("", "it is empty"),
        ("/etc/passwd", "it begins with a /"),
        ("../x", "it contains .."),
        ("a/../../x", "it contains .."),
        ("a/{b,..}/x", "it contains .."),
        ("a/[b", "a [ is not closed"),
        ("a/[b/]c", "cannot contain a /"),
        ("a/[z-a]", "runs backwards"),
        ("a/{b", "a { is not closed"),
        ("a/b}", "unmatched }"),
        ("a\\", "it ends with a \\"),
        ("a\0b", "it contains a NUL"),
        ("a\\\0b", "it contains a NUL"),
        ("[\0]", "it contains a NUL"),
        ("{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", "more than 64 alternatives"),
        (&format!("{{a,b}}{{a,b}}{{a,b}}{{a,b}}{{a,b}}{}", "x".repeat(900)), "too many characters"),
        ("{{{{{{{{{a}}}}}}}}}", "braces nested in more than 7 others"),
    ];
    for (text, why) in refused {
        let error = text.parse::<Pattern>().map(|pattern| pattern.to_string()).unwrap_err().to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    }
    let long = "a".repeat(limits::PATTERN_BYTES_MAX);
    assert!(long.parse::<Pattern>().is_ok());
    assert!(format!("{long}a").parse::<Pattern>().is_err());
    // A pattern with too many expansions is refused before it is expanded.
    assert!("{a,b}".repeat(200).parse::<Pattern>().is_err());
}

#[test]
fn comparing_stops_when_the_effort_is_spent_and_says_so() {
    let stars = |c: char| pattern(&format!("*{c}").repeat(500));
    let mut effort = Effort::new(10_000);
    assert!(stars('a').overlaps(&stars('b'), &mut effort), "to be safe");
    assert!(effort.is_spent());
    // A class costs as much as it has characters.
    let class = |from: char| {
        format!("[{}]", (0..300).map(|n| char::from_u32(u32::from(from) + 2 * n).unwrap()).collect::<String>())
    };
    let (even, odd) = (pattern(&class('\u{4e00}')), pattern(&class('\u{4e01}')));
    let mut effort = Effort::new(u64::MAX);
    assert!(!even.overlaps(&odd, &mut effort));
    let mut effort = Effort::new(10_000);
    assert!(even.overlaps(&odd, &mut effort) && effort.is_spent());
    let mut effort = Effort::new(u64::MAX);
    assert!(!pattern("*a*a*ac").overlaps(&pattern("*b*b*bd"), &mut effort));
    assert!(!effort.is_spent());
}
