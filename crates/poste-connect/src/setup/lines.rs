//! Line endings, kept as they are.

/// The line ending of a text: that of its first line.
pub fn end_of(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((first, _)) if first.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// Gives a text of Poste's this line ending.
pub fn with_end(text: &str, end: &str) -> String {
    if end == "\n" { text.to_owned() } else { text.replace('\n', end) }
}
