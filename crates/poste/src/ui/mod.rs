//! What people see: data on stdout, talk on stderr; tables and colours only on a terminal.

pub(crate) mod progress;
pub(crate) mod time;

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use schemars::JsonSchema;
use serde::Serialize;

use poste_core::Timestamp;
pub(crate) use poste_core::escape;
pub(crate) use poste_core::text::count;
pub(crate) use poste_verbs::model::{fence, tokens};
pub(crate) use poste_verbs::report::page::at_least;
use time::TimeStyle;

/// Something a command answers: JSON for programs, text for people.
pub(crate) trait Answer: Serialize + JsonSchema {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()>;
}

#[derive(Debug, Clone)]
pub(crate) struct Ui {
    pub json: bool,
    pub terminal: bool,
    pub colour: bool,
    pub time_style: TimeStyle,
    /// What relative times are relative to.
    pub now: Timestamp,
}

impl Ui {
    pub(crate) fn new(json: bool, colour: Option<bool>, time_style: TimeStyle, now: Timestamp) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self { json, terminal, colour: colour.unwrap_or(terminal && !plain), time_style, now }
    }

    /// For text that goes to no terminal.
    pub(crate) fn plain(now: Timestamp) -> Self {
        Self { json: false, terminal: false, colour: false, time_style: TimeStyle::default(), now }
    }

    /// Where data goes. Flush it: what was printed may then be marked as shown.
    pub(crate) fn out(&self) -> Box<dyn Write + '_> {
        Box::new(io::BufWriter::new(io::stdout().lock()))
    }

    /// The answer, to stdout. It is there when this returns: what was printed may then be marked as shown.
    pub(crate) fn answer(&self, answer: &impl Answer) -> crate::Result {
        let mut out = self.out();
        if self.json {
            let text = serde_json::to_string(answer)
                .map_err(|error| crate::CommandError::new(crate::error::Kind::Internal, error.to_string()))?;
            writeln!(out, "{}", escape::json_line(&text))?;
        } else {
            answer.print(self, &mut out)?;
        }
        out.flush()?;
        Ok(())
    }

    /// An answer that is JSON already, to stdout.
    pub(crate) fn value(&self, value: &serde_json::Value) -> crate::Result {
        self.text(&format!("{}\n", escape::json_line(&value.to_string())))
    }

    /// One text as it is and nothing else, to stdout.
    pub(crate) fn text(&self, text: &str) -> crate::Result {
        let mut out = self.out();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// One fenced text and nothing else, to stdout.
    pub(crate) fn fenced(&self, text: &str) -> crate::Result {
        self.text(&format!("{text}\n"))
    }

    /// Talk, to stderr; programs that asked for JSON are spared it.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if !self.json {
            talk(&escape::block(text.as_ref()));
        }
    }

    /// Something a person must not miss, whatever they asked for.
    pub(crate) fn warn(&self, text: impl AsRef<str>) {
        talk(&format!("warning: {}", escape::block(text.as_ref())));
    }

    pub(crate) fn time(&self, at: Timestamp) -> String {
        self.time_style.format(at, self.now)
    }

    pub(crate) fn since(&self, at: Timestamp) -> String {
        self.time_style.since(at, self.now)
    }

    pub(crate) fn paint(&self, style: Paint, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let style = style.style();
        format!("{style}{text}{style:#}")
    }

    /// Rows of texts: a table on a terminal, in which long ones take more lines; plain lines elsewhere.
    pub(crate) fn rows(&self, out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        self.table(out, header, rows, None)
    }

    /// As [`Ui::rows`], but one line a row: on a terminal what does not fit is cut.
    pub(crate) fn lines(&self, out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        self.table(out, header, rows, Some(1))
    }

    /// Whether the terminal is wide enough to show these rows uncut.
    pub(crate) fn fits(&self, header: &[&str], rows: &[Vec<String>]) -> bool {
        let width = wide(comfy_table::Table::new()).width().filter(|_| self.terminal);
        width.is_none_or(|width| needed_width(header, rows) <= usize::from(width))
    }

    fn table(
        &self,
        out: &mut dyn Write,
        header: &[&str],
        rows: Vec<Vec<String>>,
        height_max: Option<usize>,
    ) -> io::Result<()> {
        if !self.terminal {
            for row in rows {
                writeln!(out, "{}", row.join("  ").trim_end())?;
            }
            return Ok(());
        }
        if rows.is_empty() {
            return Ok(());
        }
        let mut table = wide(comfy_table::Table::new());
        table.load_style(comfy_table::presets::NOTHING);
        table.set_content_arrangement(comfy_table::ContentArrangement::Dynamic);
        table.set_header(header.iter().map(|title| self.paint(Paint::Dim, title)));
        table.set_truncation_indicator("…");
        for row in rows {
            let mut row = comfy_table::Row::from(row);
            if let Some(height_max) = height_max {
                row.max_height(height_max);
            }
            table.add_row(row);
        }
        for line in table.lines() {
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A terminal that does not know how wide it is has the width that everything is made for.
fn wide(mut table: comfy_table::Table) -> comfy_table::Table {
    const USUAL: u16 = 80;
    if table.width() == Some(0) {
        table.set_width(USUAL);
    }
    table
}

/// How many characters a table of these rows takes, with a margin beside each column.
fn needed_width(header: &[&str], rows: &[Vec<String>]) -> usize {
    const MARGIN: usize = 2;
    let wide = |(column, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(title.chars().count()) + MARGIN
    };
    header.iter().enumerate().map(wide).sum()
}

/// A line on stderr. If nobody can hear it, that must not change what the command did or how it ends.
pub(crate) fn talk(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Colours with a meaning; the words beside them say the same.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Paint {
    Strong,
    Dim,
    Good,
    Bad,
    Attention,
}

impl Paint {
    fn style(self) -> Style {
        match self {
            Self::Strong => Style::new().bold(),
            Self::Dim => Style::new().dimmed(),
            Self::Good => AnsiColor::Green.on_default(),
            Self::Bad => AnsiColor::Red.on_default().bold(),
            Self::Attention => AnsiColor::Yellow.on_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_wide_as_its_widest_cells() {
        let row = |name: &str, mail: &str| vec![name.to_owned(), mail.to_owned()];
        assert_eq!(needed_width(&["TYPE", "MAIL"], &[]), 12);
        assert_eq!(needed_width(&["TYPE", "MAIL"], &[row("directive", "2 ■■■■"), row("x", "1")]), 9 + 6 + 4);
    }
}
