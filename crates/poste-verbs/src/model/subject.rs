//! Subjects in Poste's own lines. They are words of their senders.

use poste_core::escape;

/// Characters of a subject in a line.
const CHARS_MAX: usize = 100;

/// In one line and not too long, with everything visible.
pub fn short(subject: &str) -> String {
    let mut short: String = subject.chars().take(CHARS_MAX).collect();
    if subject.chars().nth(CHARS_MAX).is_some() {
        short.push('…');
    }
    escape::line(&short).into_owned()
}

/// As [`short`], in quotes which it cannot close.
pub fn quoted(subject: &str) -> String {
    format!("\"{}\"", short(subject).replace('\\', r"\\").replace('"', "\\\""))
}
