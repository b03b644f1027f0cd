//! Text from agents in Markdown: shown literally, without effect as markup.

use std::borrow::Cow;
use std::io::{self, Write};

use poste_core::escape;
pub(super) use poste_core::escape::markdown as text;

/// A text of several lines, in a code block that it cannot close.
pub(super) fn block(out: &mut dyn Write, text: &str) -> io::Result<()> {
    let text = escape::block(text.trim_end());
    let longest = text.split(|character| character != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    writeln!(out, "{fence}text\n{text}\n{fence}")
}

/// A table. The cells are already Markdown, and the columns are aligned in the source as well.
pub(super) fn table(out: &mut dyn Write, header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
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
