//! The measurements, as a page for people and as JSON next to it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::machine::Machine;
use crate::{Result, plot};

/// The target for a number.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Aim {
    AtLeast(f64),
    AtMost(f64),
}

impl Aim {
    fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtLeast(aim) => value >= aim,
            Self::AtMost(aim) => value <= aim,
        }
    }

    fn text(self, unit: &str) -> String {
        match self {
            Self::AtLeast(aim) => format!("≥ {}", quantity(aim, unit)),
            Self::AtMost(aim) => format!("≤ {}", quantity(aim, unit)),
        }
    }
}

/// One number, with what it is compared to.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Line {
    pub group: &'static str,
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    pub aim: Option<Aim>,
    pub met: Option<bool>,
    /// The absolute numbers behind a ratio.
    pub detail: String,
}

impl Line {
    pub(crate) fn new(group: &'static str, what: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { group, what: what.into(), value, unit, aim: None, met: None, detail: String::new() }
    }

    pub(crate) fn aim(mut self, aim: Aim) -> Self {
        self.aim = Some(aim);
        self.met = Some(aim.is_met(self.value));
        self
    }

    pub(crate) fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = detail.into();
        self
    }

    pub(crate) fn text(&self) -> String {
        let verdict = match (self.aim, self.met) {
            (Some(aim), Some(true)) => format!("  (aim {}: met)", aim.text(self.unit)),
            (Some(aim), _) => format!("  (aim {}: missed)", aim.text(self.unit)),
            _ => String::new(),
        };
        format!("{}: {}{verdict}  {}", self.what, quantity(self.value, self.unit), self.detail)
    }
}

/// What one operation costs after a history of this length.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Point {
    pub history: &'static str,
    pub operation: &'static str,
    pub messages: u64,
    pub median_us: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub date: String,
    pub form: &'static str,
    pub machine: Machine,
    pub lines: Vec<Line>,
    /// Measurements that could not be taken, and why.
    pub left_out: Vec<String>,
    pub points: Vec<Point>,
}

impl Report {
    pub(crate) fn add(&mut self, line: Line) {
        crate::say(&format!("  {}", line.text()));
        self.lines.push(line);
    }

    pub(crate) fn leave_out(&mut self, why: impl Into<String>) {
        let why = why.into();
        crate::say(&format!("  left out: {why}"));
        self.left_out.push(why);
    }

    /// Writes `DATE.md`, `DATE.json` and, if growth was measured, `DATE.svg`.
    pub(crate) fn write(&self, folder: &Path) -> Result<PathBuf> {
        fs::create_dir_all(folder)?;
        let page = folder.join(format!("{}.md", self.date));
        fs::write(&page, self.page())?;
        fs::write(page.with_extension("json"), serde_json::to_string_pretty(self)? + "\n")?;
        if !self.points.is_empty() {
            fs::write(page.with_extension("svg"), plot::growth(&self.points))?;
        }
        Ok(page)
    }

    fn page(&self) -> String {
        let machine = &self.machine;
        let mut page = format!(
            "# Measured on {}\n\nMade by `cargo xtask bench` ({} form). Ratios travel to other machines, absolutes do \
             not.\n\n| machine | |\n|---|---|\n",
            self.date, self.form
        );
        let rows = [
            ("processor", format!("{} ({} cores)", machine.processor, machine.cores)),
            ("memory", format!("{} MB", machine.memory_mb)),
            ("kernel", machine.kernel.clone()),
            ("file system", machine.file_system.clone()),
            ("append of 512 bytes with fdatasync, p50", quantity(machine.fdatasync_p50_us, "µs")),
            ("load before and after", format!("{}; {}", machine.load_before, machine.load_after)),
        ];
        for (name, value) in rows {
            let _ = writeln!(page, "| {name} | {value} |");
        }
        let mut group = "";
        for line in &self.lines {
            if line.group != group {
                group = line.group;
                let _ =
                    write!(page, "\n## {group}\n\n| measure | | aim | met | behind it |\n|---|---:|---:|---|---|\n");
            }
            let met = line.met.map_or("", |met| if met { "yes" } else { "**no**" });
            let aim = line.aim.map_or(String::new(), |aim| aim.text(line.unit));
            let value = quantity(line.value, line.unit);
            let _ = writeln!(page, "| {} | {value} | {aim} | {met} | {} |", line.what, line.detail);
        }
        if !self.points.is_empty() {
            let _ = write!(
                page,
                "\n## Cost against the size of the history\n\n![Time of an operation in offices of 1 000 to 1 000 000 messages]({}.svg)\n",
                self.date
            );
        }
        if !self.left_out.is_empty() {
            page.push_str("\n## Left out\n\n");
            for why in &self.left_out {
                let _ = writeln!(page, "- {why}");
            }
        }
        page
    }
}

/// A number formatted for people.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "×" => format!("{value:.2}×"),
        "µs" if value >= 10_000.0 => format!("{:.1} ms", value / 1_000.0),
        "µs" if value >= 1_000.0 => format!("{:.2} ms", value / 1_000.0),
        "µs" => format!("{value:.0} µs"),
        "/s" if value >= 10_000.0 => format!("{:.1}k/s", value / 1_000.0),
        "/s" => format!("{value:.0}/s"),
        "MB" => format!("{value:.1} MB"),
        "%" => format!("{value:.3} %"),
        "wake-ups/s" => format!("{value:.2}/s"),
        _ => format!("{value:.0} {unit}"),
    }
}
