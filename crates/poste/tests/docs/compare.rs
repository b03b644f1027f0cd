//! Compares an answer with the page, ignoring what differs on every run.

/// Patterns of what differs on every run: `#` is a digit, `#+` one or more, `%` a hex digit, anything else itself. They
/// match whole words, and the first match wins.
const VOLATILE: &[(&str, &str)] = &[
    ("20##-##-##T##:##:##.###Z", "TIME"),
    ("20##-##-##T##:##:##Z", "TIME"),
    ("##:##:##", "CLOCK"),
    ("since now", "SINCE"),
    ("since just now", "SINCE"),
    ("since #+s ago", "SINCE"),
    ("since 1m ago", "SINCE"),
    ("for #+s", "SINCE"),
    ("just now", "AGO"),
    ("now", "AGO"),
    ("#+s ago", "AGO"),
    ("1m ago", "AGO"),
    ("in #+s", "SOON"),
    ("%%%%%%%%-%%%%-7%%%-%%%%-%%%%%%%%%%%%", "UUID"),
    ("message-%%%%%%%%%%%%%%%%", "message-NONCE"),
    ("chain %%%%%%%%%%%%", "chain HEX"),
    ("digest %%%%%%%%%%%%", "digest HEX"),
    ("pid #+", "pid N"),
    ("20##-##-##-#+.jsonl", "ARCHIVE"),
    ("exit code 0, #+ms", "exit code 0, LENGTH"),
    ("duration      #+ms", "duration LENGTH"),
    ("duration      #+s", "duration LENGTH"),
    ("Duration: #+ms", "Duration: LENGTH"),
    ("Duration: #+s", "Duration: LENGTH"),
    ("Resolution time: #+ms", "Resolution time: LENGTH"),
    ("Resolution time: #+s", "Resolution time: LENGTH"),
    ("median #+ms, p95 #+ms", "PERCENTILES"),
    ("median #+s, p95 #+s", "PERCENTILES"),
    ("median #+ms, p95 #+s", "PERCENTILES"),
    // The rule below the header of a table is as wide as its widest cell.
    ("| -+", "| RULE"),
    ("| #+ms", "| LENGTH"),
    ("| #+s", "| LENGTH"),
    ("office on 20##-##-##", "office on DAY"),
    ("#+ms/#+ms/#+ms", "PERCENTILES"),
    ("#+s/#+s/#+s", "PERCENTILES"),
    ("#+ms/#+ms", "PERCENTILES"),
    ("#+s/#+s", "PERCENTILES"),
];

/// Whether a line stands for any number of lines.
pub(crate) fn is_gap(line: &str) -> bool {
    line.trim() == "…"
}

pub(crate) fn same(shown: &[String], answer: &[String]) -> bool {
    let (plain_shown, plain_answer) = (plain(shown), plain(answer));
    if plain_shown == shown && plain_answer == answer {
        return fits(shown, answer);
    }
    // A longer time shifts the columns after it, in the other lines, too.
    let squeeze = |lines: Vec<String>| -> Vec<String> {
        lines.iter().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
    };
    fits(&squeeze(plain_shown), &squeeze(plain_answer))
}

fn plain(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| without_volatile(line)).collect()
}

fn fits(shown: &[String], answer: &[String]) -> bool {
    match shown {
        [] => answer.is_empty(),
        [gap, rest @ ..] if is_gap(gap) => (0..=answer.len()).any(|skipped| fits(rest, &answer[skipped..])),
        [line, rest @ ..] => answer.first() == Some(line) && fits(rest, &answer[1..]),
    }
}

fn without_volatile(line: &str) -> String {
    let mut plain = String::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let at_word = !plain.ends_with(is_word);
        let found = VOLATILE.iter().find_map(|(pattern, name)| Some((prefix(pattern, rest)?, name)));
        match found.filter(|_| at_word) {
            Some((length, name)) => {
                plain += name;
                rest = &rest[length..];
            }
            None => {
                plain.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    plain
}

/// The length in bytes of the pattern's match at the start of the text, as a whole word.
fn prefix(pattern: &str, text: &str) -> Option<usize> {
    let mut rest = text;
    let mut pattern = pattern.chars().peekable();
    while let Some(kind) = pattern.next() {
        let fits = |c: char| match kind {
            '#' => c.is_ascii_digit(),
            '%' => matches!(c, '0'..='9' | 'a'..='f'),
            _ => c == kind,
        };
        rest = rest.strip_prefix(fits)?;
        if pattern.next_if_eq(&'+').is_some() {
            rest = rest.trim_start_matches(fits);
        }
    }
    (!rest.starts_with(is_word)).then(|| text.len() - rest.len())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A diff in which common lines at the start and the end appear once.
pub(crate) fn diff(shown: &[String], answer: &[String]) -> String {
    let alike = |(a, b): &(&String, &String)| same(std::slice::from_ref(a), std::slice::from_ref(b));
    let head = shown.iter().zip(answer).take_while(alike).count();
    let (head, shown, answer) = (&shown[..head], &shown[head..], &answer[head..]);
    let tail = shown.iter().rev().zip(answer.iter().rev()).take_while(alike).count();
    let (shown, tail) = shown.split_at(shown.len() - tail);
    let answer = &answer[..answer.len() - tail.len()];
    let mut diff = String::new();
    let sides = [("    ", head), ("  - ", shown), ("  + ", answer), ("    ", tail)];
    for (mark, line) in sides.into_iter().flat_map(|(mark, lines)| lines.iter().map(move |line| (mark, line))) {
        diff += &format!("{mark}{line}\n");
    }
    diff
}

#[test]
fn what_differs_on_every_run_may_differ() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let same = |shown, answer| same(&lines(shown), &lines(answer));
    assert!(same("sent now", "sent 12s ago"));
    assert!(same("a  now     b", "a  12s ago b"));
    assert!(same("until 2026-11-15T21:33:31.234Z.", "until 2027-01-02T00:00:00.000Z."));
    assert!(same("</message-0123456789abcdef>", "</message-fedcba9876543210>"));
    assert!(same("stored now → shown now → claimed now", "stored 1s ago → shown now → claimed now"));
    assert!(!same("stored now → shown now → claimed now", "stored 1s ago → claimed now → shown now"));
    assert!(same("one\n…\nfour", "one\ntwo\nthree\nfour"));
    assert!(same("…", ""));
    assert!(!same("one\n…\nfour", "one\ntwo\nthree"));
    assert!(!same("sent now", "sent 2m ago"));
    assert!(!same("a  b", "a b"));
    assert!(!same("known", "kAGO"));
    assert!(!same("token 5", "token 6"));
}
