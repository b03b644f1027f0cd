use std::io::{self, Write};

use poste_core::gates::CheckReport;
use poste_core::log::MessageNo;
use poste_verbs::verify;

use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape};

/// Run the gates of a message by hand
///
/// Shows for each gate whether it passes, and why not. Nothing changes. For a message without gates, it checks that the
/// artifacts exist and are unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste verify 12\n  poste verify 12 --json")]
pub(crate) struct Args {
    /// Message number
    #[arg(value_parser = crate::cli::number)]
    number: MessageNo,
}

impl Answer for verify::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let number = self.report.number;
        if self.report.gates.is_empty() {
            return writeln!(out, "#{number} has no gates and no artifacts");
        }
        for gate in &self.report.gates {
            let (paint, word) = if gate.passed { (Paint::Good, "passed") } else { (Paint::Bad, "failed") };
            writeln!(out, "{}  {}", ui.paint(paint, word), gate.name)?;
            gate.checks.iter().try_for_each(|check| print_check(check, out))?;
        }
        Ok(())
    }
}

fn print_check(check: &CheckReport, out: &mut dyn Write) -> io::Result<()> {
    let word = if check.passed { "ok" } else { "failed" };
    writeln!(out, "  {word:<6}  {}", escape::line(&check.text()))?;
    for line in check.output.as_deref().unwrap_or_default().lines() {
        writeln!(out, "          | {}", escape::line(line))?;
    }
    Ok(())
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    cx.call(verify::Input { number: args.number })
}
