//! Words of others in Markdown: they stand there as they are, and mean nothing.

use std::borrow::Cow;
use std::io::{self, Write};

use super::escape;

/// A text in one line, for the middle of a line, a heading or a cell of a table. Never to be put at the beginning of a
/// line, where a number or a hyphen alone would begin a list.
pub(crate) fn text(text: &str) -> String {
    let line = escape::line(text);
    let mut safe = String::with_capacity(line.len() + 8);
    let mut before = None;
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        let is_in_word = |neighbour: Option<&char>| neighbour.is_some_and(|c| c.is_alphanumeric());
        let means_something = match character {
            '\\' | '`' | '*' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$' | '#' => true,
            // In a word it is a part of it.
            '_' => !(is_in_word(before.as_ref()) && is_in_word(characters.peek())),
            _ => false,
        };
        if means_something {
            safe.push('\\');
        }
        safe.push(character);
        before = Some(character);
    }
    safe
}

/// A text of several lines, between fences it cannot close.
pub(crate) fn block(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let text = escape::block(text.trim_end());
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}text\n{text}\n{fence}")
}

/// A table. The cells are Markdown already; in the source they stand below each other as well.
pub(crate) fn table(out: &mut dyn Write, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let wide = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|title| title.chars().count())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(wide).collect();
    let mut line = |cells: &mut dyn Iterator<Item = Cow<'_, str>>| {
        let padded = cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "| {} |", padded.collect::<Vec<_>>().join(" | "))
    };
    line(&mut header.iter().map(|title| Cow::Borrowed(*title)))?;
    line(&mut widths.iter().map(|width| Cow::Owned("-".repeat(*width))))?;
    for row in rows {
        line(&mut row.iter().map(|cell| Cow::Borrowed(cell.as_str())))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn words_mean_nothing() {
        assert_eq!(text("*a* `b` [c](d) <e> | ~f~ #g &amp; \\"), r"\*a\* \`b\` \[c\](d) \<e\> \| \~f\~ \#g \&amp; \\");
        assert_eq!(text("refresh_token is _not_ __init__"), r"refresh_token is \_not\_ \_\_init\_\_");
        assert_eq!(text("one\n# two\r\u{1b}[31m"), "one⏎\\# two\\\\u{d}\\\\u{1b}\\[31m");
        assert_eq!(text("Fix the login (#12), 50% – ünï 漢字."), r"Fix the login (\#12), 50% – ünï 漢字.");
    }

    #[test]
    fn a_fence_cannot_be_closed_from_inside() {
        assert_eq!(written(|out| block(out, "plain\n")), "```text\nplain\n```\n");
        assert_eq!(written(|out| block(out, "a\n````\n# b\n")), "`````text\na\n````\n# b\n`````\n");
    }

    #[test]
    fn tables_are_aligned() {
        let rows = [vec!["builder-1".to_owned(), text("a|b")], vec!["x".to_owned(), String::new()]];
        let table = written(|out| table(out, &["Who", "Note"], &rows));
        assert_eq!(table, "| Who       | Note |\n| --------- | ---- |\n| builder-1 | a\\|b |\n| x         |      |\n");
    }
}
