//! Output: data on stdout, notes on stderr; tables and colours only on a terminal.

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

/// The answer of a command: JSON for programs, text for people.
pub(crate) trait Answer: Serialize + JsonSchema {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()>;
}

#[derive(Debug, Clone)]
pub(crate) struct Ui {
    pub json: bool,
    pub terminal: bool,
    pub colour: bool,
    pub time_style: TimeStyle,
    /// Relative times are relative to this.
    pub now: Timestamp,
}

impl Ui {
    pub(crate) fn new(json: bool, colour: Option<bool>, time_style: TimeStyle, now: Timestamp) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self { json, terminal, colour: colour.unwrap_or(terminal && !plain), time_style, now }
    }

    /// For text that does not go to a terminal.
    pub(crate) fn plain(now: Timestamp) -> Self {
        Self { json: false, terminal: false, colour: false, time_style: TimeStyle::default(), now }
    }

    /// Where data goes. Flush it before marking anything as shown.
    pub(crate) fn out(&self) -> Box<dyn Write + '_> {
        Box::new(io::BufWriter::new(io::stdout().lock()))
    }

    /// Prints the answer to stdout and flushes it, so that it may be marked as shown afterwards.
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

    /// Prints an answer that is already JSON to stdout.
    pub(crate) fn value(&self, value: &serde_json::Value) -> crate::Result {
        self.text(&format!("{}\n", escape::json_line(&value.to_string())))
    }

    /// Prints a text to stdout, unchanged.
    pub(crate) fn text(&self, text: &str) -> crate::Result {
        let mut out = self.out();
        out.write_all(text.as_bytes())?;
        out.flush()?;
        Ok(())
    }

    /// Prints a fenced text to stdout.
    pub(crate) fn fenced(&self, text: &str) -> crate::Result {
        self.text(&format!("{text}\n"))
    }

    /// Prints a note to stderr, except with --json.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        if !self.json {
            talk(&escape::block(text.as_ref()));
        }
    }

    /// Prints a warning to stderr, also with --json.
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

    /// Prints rows: as a table on a terminal, where long cells wrap; as plain lines elsewhere.
    pub(crate) fn rows(&self, out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        self.table(out, header, rows, None)
    }

    /// Like [`Ui::rows`], but one line per row: on a terminal, long cells are cut.
    pub(crate) fn lines(&self, out: &mut dyn Write, header: &[&str], rows: Vec<Vec<String>>) -> io::Result<()> {
        self.table(out, header, rows, Some(1))
    }

    /// Whether the terminal is wide enough to show these rows without cutting.
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

/// Assumes 80 columns for a terminal that reports no width.
fn wide(mut table: comfy_table::Table) -> comfy_table::Table {
    const USUAL: u16 = 80;
    if table.width() == Some(0) {
        table.set_width(USUAL);
    }
    table
}

/// The width of a table of these rows, with a margin beside each column.
fn needed_width(header: &[&str], rows: &[Vec<String>]) -> usize {
    const MARGIN: usize = 2;
    let wide = |(column, title): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.max().unwrap_or(0).max(title.chars().count()) + MARGIN
    };
    header.iter().enumerate().map(wide).sum()
}

/// Prints a line to stderr. A closed stderr must not change what the command does or its exit code.
pub(crate) fn talk(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Colours by meaning. The text always says the same without them.
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
