//! A section of Poste's in a Markdown file of somebody else's, between two marks.

use super::Fault;
use super::lines;

const BEGIN: &str = "<!-- poste: begin, written by `poste setup` -->";
const END: &str = "<!-- poste: end -->";

/// Where the section is, marks and the line end after it included.
fn find(text: &str) -> Result<Option<std::ops::Range<usize>>, Fault> {
    let broken = || {
        Fault::malformed("has only one of the two marks of Poste's section, or several of them")
            .hint(format!("leave one `{BEGIN}` and one `{END}`, or none"))
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
    let end = end + END.len();
    let line_end = if text[end..].starts_with("\r\n") { 2 } else { usize::from(text[end..].starts_with('\n')) };
    Ok(Some(begin..end + line_end))
}

fn section(body: &str, end: &str) -> String {
    lines::with_end(&format!("{BEGIN}\n{}\n{END}\n", body.trim()), end)
}

pub fn holds(text: &str, body: &str) -> Result<bool, Fault> {
    let wanted = section(body, "\n");
    Ok(find(text)?.is_some_and(|found| text[found].replace("\r\n", "\n").trim_end() == wanted.trim_end()))
}

/// Puts the section at the end, or in place of the one that is there.
pub fn apply(text: &str, body: &str) -> Result<String, Fault> {
    let end = lines::end_of(text);
    let section = section(body, end);
    if let Some(found) = find(text)? {
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

/// Takes the section out, with the empty line before it.
pub fn take_out(text: &str) -> Result<String, Fault> {
    let Some(found) = find(text)? else { return Ok(text.to_owned()) };
    let before = &text[..found.start];
    let before = match before.strip_suffix("\r\n\r\n").map(|_| 2).or(before.strip_suffix("\n\n").map(|_| 1)) {
        Some(line_end) => &before[..before.len() - line_end],
        None => before,
    };
    Ok(format!("{before}{}", &text[found.end..]))
}
