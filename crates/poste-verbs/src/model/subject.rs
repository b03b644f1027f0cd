//! Subjects inside lines that Poste writes. Their text comes from senders, so it is escaped.

use poste_core::{Foreign, escape};

/// Maximum number of characters of a subject in a line.
const CHARS_MAX: usize = 100;

/// A subject on one line, truncated, with control characters made visible.
pub fn short(subject: &str) -> String {
    escape::line(&cut(subject)).into_owned()
}

/// Like [`short`], in quotes that the subject cannot close.
pub fn quoted(subject: &str) -> String {
    Foreign::words(cut(subject)).to_string()
}

fn cut(subject: &str) -> String {
    let mut short: String = subject.chars().take(CHARS_MAX).collect();
    if subject.chars().nth(CHARS_MAX).is_some() {
        short.push('…');
    }
    short
}
