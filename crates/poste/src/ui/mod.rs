//! What people see: data on stdout, talk on stderr; tables and colours only on a terminal.

pub(crate) mod markdown;
pub(crate) mod mermaid;
pub(crate) mod progress;
pub(crate) mod time;

use std::cell::RefCell;
use std::io::{self, IsTerminal, Write};
use std::rc::Rc;

use anstyle::{AnsiColor, Style};
use schemars::JsonSchema;
use serde::Serialize;

use poste_core::Timestamp;
pub(crate) use poste_core::escape;
pub(crate) use poste_core::text::count;
pub(crate) use poste_verbs::model::{fence, subject, tokens};
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
    /// Where it all goes instead, when another part of this process asked.
    kept: Option<Rc<RefCell<Kept>>>,
}

/// What a command would have printed, for whoever called it in this process.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The answer for programs, if the command gave one.
    pub answer: Option<serde_json::Value>,
    /// What would stand on stdout.
    pub data: Vec<u8>,
    /// All of it stands in one fence.
    pub is_fenced: bool,
    /// What would stand on stderr, a line or more each.
    pub talk: Vec<String>,
    pub warnings: Vec<String>,
}

impl Ui {
    pub(crate) fn new(json: bool, colour: Option<bool>, time_style: TimeStyle, now: Timestamp) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
        Self { json, terminal, colour: colour.unwrap_or(terminal && !plain), time_style, now, kept: None }
    }

    /// For a command that was called in this process: nothing of it reaches stdout or stderr.
    pub(crate) fn kept(now: Timestamp) -> (Self, Rc<RefCell<Kept>>) {
        let kept = Rc::default();
        let ui = Self {
            json: false,
            terminal: false,
            colour: false,
            time_style: TimeStyle::default(),
            now,
            kept: Some(Rc::clone(&kept)),
        };
        (ui, kept)
    }

    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// Where data goes. Flush it: what was printed may then be marked as shown.
    pub(crate) fn out(&self) -> Box<dyn Write + '_> {
        match &self.kept {
            Some(kept) => Box::new(KeptData(kept)),
            None => Box::new(io::BufWriter::new(io::stdout().lock())),
        }
    }

    /// The answer, to stdout. It is there when this returns: what was printed may then be marked as shown.
    pub(crate) fn answer(&self, answer: &impl Answer) -> crate::Result {
        if let Some(kept) = &self.kept {
            let value = serde_json::to_value(answer)
                .map_err(|error| crate::CommandError::new(crate::error::Kind::Internal, error.to_string()))?;
            kept.borrow_mut().answer = Some(value);
        }
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
        let mut out = self.out();
        writeln!(out, "{}", escape::json_line(&value.to_string()))?;
        out.flush()?;
        Ok(())
    }

    /// One fenced text and nothing else, to stdout.
    pub(crate) fn fenced(&self, text: &str) -> crate::Result {
        if let Some(kept) = &self.kept {
            kept.borrow_mut().is_fenced = true;
        }
        let mut out = self.out();
        writeln!(out, "{text}")?;
        out.flush()?;
        Ok(())
    }

    /// Talk, to stderr; programs that asked for JSON are spared it.
    pub(crate) fn say(&self, text: impl AsRef<str>) {
        match &self.kept {
            Some(kept) => kept.borrow_mut().talk.push(escape::block(text.as_ref()).into_owned()),
            None if self.json => {}
            None => talk(&escape::block(text.as_ref())),
        }
    }

    /// Something a person must not miss, whatever they asked for.
    pub(crate) fn warn(&self, text: impl AsRef<str>) {
        match &self.kept {
            Some(kept) => kept.borrow_mut().warnings.push(escape::block(text.as_ref()).into_owned()),
            None => talk(&format!("warning: {}", escape::block(text.as_ref()))),
        }
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

struct KeptData<'a>(&'a RefCell<Kept>);

impl Write for KeptData<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().data.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
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

/// As [`count`], with a sign where counting stopped: `1000+ messages`.
pub(crate) fn at_least(number: poste_core::views::Count, noun: &str) -> String {
    let text = count(usize::try_from(number.count).unwrap_or(usize::MAX), noun);
    if number.at_least { text.replacen(' ', "+ ", 1) } else { text }
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
