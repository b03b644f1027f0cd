//! Poste's section in a Markdown file, between two marks.

use super::Fault;
use super::lines;
use super::seal;

const BEGIN: &str = "<!-- poste: begin, written by `poste setup` -->";
/// Followed by a sum of the section, which shows changes by hand.
const END: &str = "<!-- poste: end";
const END_CLOSE: &str = "-->";

/// The range of the section, including its marks and the line ending after it.
fn find(text: &str) -> Result<Option<std::ops::Range<usize>>, Fault> {
    let broken = || {
        Fault::malformed("has only one of the two marks of Poste's section, or several of them")
            .hint(format!("keep one `{BEGIN}` and one `{END} {END_CLOSE}`, or none"))
    };
    match (text.matches(BEGIN).count(), text.matches(END).count()) {
        (0, 0) => return Ok(None),
        (1, 1) => {}
        _ => return Err(broken()),
    }
    let (Some(begin), Some(end)) = (text.find(BEGIN), text.find(END)) else { return Err(broken()) };
    if end < begin {
        return Err(broken());
    }
    let Some(close) = text[end..].lines().next().and_then(|line| line.find(END_CLOSE)) else { return Err(broken()) };
    let end = end + close + END_CLOSE.len();
    let line_end = if text[end..].starts_with("\r\n") { 2 } else { usize::from(text[end..].starts_with('\n')) };
    Ok(Some(begin..end + line_end))
}

fn section(body: &str, end: &str) -> String {
    let body = format!("{}\n", body.trim());
    lines::with_end(&format!("{BEGIN}\n{body}{END}, sum {} {END_CLOSE}\n", seal::sum(&body)), end)
}

/// Whether the text between the marks was changed by hand.
pub fn is_edited(text: &str) -> Result<bool, Fault> {
    let Some(found) = find(text)? else { return Ok(false) };
    let found = text[found].replace("\r\n", "\n");
    let found = found.strip_prefix(BEGIN).unwrap_or(&found);
    let Some((body, end)) = found.rsplit_once(END) else { return Ok(false) };
    Ok(end.contains(", sum ") && !end.contains(&seal::sum(body.strip_prefix('\n').unwrap_or(body))))
}

/// Appends the section, or replaces an existing one.
pub fn apply(text: &str, body: &str) -> Result<String, Fault> {
    let end = lines::end_of(text);
    let section = section(body, end);
    if let Some(found) = find(text)? {
        // The line ending after it does not count: the file may end there.
        if text[found.clone()].trim_end() == section.trim_end() {
            return Ok(text.to_owned());
        }
        return Ok(format!("{}{section}{}", &text[..found.start], &text[found.end..]));
    }
    let mut after = text.to_owned();
    if !after.is_empty() && !after.ends_with('\n') {
        after.push_str(end);
    }
    if !after.is_empty() {
        after.push_str(end);
    }
    Ok(after + &section)
}

/// Removes the section and the empty line before it.
pub fn take_out(text: &str) -> Result<String, Fault> {
    let Some(found) = find(text)? else { return Ok(text.to_owned()) };
    let before = &text[..found.start];
    let before = match before.strip_suffix("\r\n\r\n").map(|_| 2).or(before.strip_suffix("\n\n").map(|_| 1)) {
        Some(line_end) => &before[..before.len() - line_end],
        None => before,
    };
    Ok(format!("{before}{}", &text[found.end..]))
}
