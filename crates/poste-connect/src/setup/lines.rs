//! Line ends, kept as they are.

/// How the lines of a text end: as most do, by what its first one does.
pub fn end_of(text: &str) -> &'static str {
    match text.split_once('\n') {
        Some((first, _)) if first.ends_with('\r') => "\r\n",
        _ => "\n",
    }
}

/// A text of ours with these line ends.
pub fn with_end(text: &str, end: &str) -> String {
    if end == "\n" { text.to_owned() } else { text.replace('\n', end) }
}
