use std::io::{self, Write};
use std::time::Duration;

use poste_core::doctor::{Finding, Severity};
use poste_verbs::{Note, doctor};

use crate::context::Cx;
use crate::ui::progress::Bar;
use crate::ui::{self, Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Find problems of the office and suggest fixes
///
/// Checks the folder, the locks and processes, the database, the clock, poste.toml, the agents and their claims, and
/// compares everything with the log. Without --fix it changes nothing and does not wait for the write lock. Exits with
/// 11 if there are problems; warnings and notes do not count.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste doctor\n  poste doctor --quick          without reading the whole log\n  \
                  poste doctor --fix            fix what is safe to fix, then check again")]
pub(crate) struct Args {
    /// Fix what is safe to fix: modes, leftovers, what is due
    #[arg(long)]
    fix: bool,
    /// Skip checks that read the whole log
    #[arg(long)]
    quick: bool,
    /// Also report harmless findings
    #[arg(long)]
    verbose: bool,
    /// How long an agent with mail may do nothing before it is reported as silent
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = crate::cli::duration)]
    silent_after: Duration,
}

impl Answer for doctor::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for mended in &self.mended {
            match &mended.failed {
                None => writeln!(out, "{}  {}", ui.paint(Paint::Good, "fixed"), escape::line(&mended.what))?,
                Some(why) => {
                    let not = ui.paint(Paint::Bad, "not fixed");
                    writeln!(out, "{not}  {}: {}", escape::line(&mended.what), escape::line(why))?;
                }
            }
        }
        for finding in &self.report.findings {
            print_finding(ui, out, finding)?;
        }
        let unread = if self.report.quick { "; the log was not read" } else { "" };
        if self.report.findings.is_empty() {
            return writeln!(out, "no problems found{unread}");
        }
        let counted = [
            (self.problems, ui::count(self.problems, "problem")),
            (self.warnings, ui::count(self.warnings, "warning")),
            (self.notes, ui::count(self.notes, "note")),
        ];
        let counted: Vec<String> =
            counted.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text).collect();
        let verdict = if self.problems == 0 { "ok: " } else { "" };
        writeln!(out, "{verdict}{}{unread}", counted.join(", "))
    }
}

fn print_finding(ui: &Ui, out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    let paint = match finding.severity {
        Severity::Problem => Paint::Bad,
        Severity::Warning => Paint::Attention,
        Severity::Note => Paint::Dim,
    };
    let word = format!("{:<7}", finding.severity.word());
    writeln!(out, "{}  {}", ui.paint(paint, &word), escape::line(&finding.what))?;
    writeln!(out, "         {}", escape::line(&finding.meaning))?;
    if let Some(advice) = &finding.advice {
        writeln!(out, "         fix: {}", escape::line(advice))?;
    }
    let ours = finding.fixable.then_some("poste doctor --fix");
    let commands: Vec<&str> = finding.command.as_deref().into_iter().chain(ours).collect();
    if commands.is_empty() {
        return Ok(());
    }
    writeln!(out, "         run: {}", escape::line(&commands.join("   or: ")))
}

/// Turns the verbs that fix a finding into command lines.
fn with_commands(mut answer: doctor::Answer) -> doctor::Answer {
    for finding in &mut answer.report.findings {
        if let Some(call) = finding.verb.take() {
            finding.command = Some(notes::plain(&Note::default().call(call.name, call.input)));
        }
    }
    answer
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let place = cx.place()?;
    let silent_after_ms = i64::try_from(args.silent_after.as_millis()).ok();
    let input = doctor::Input { fix: args.fix, quick: args.quick, verbose: args.verbose, silent_after_ms };
    let mut bar = Bar::new(&cx.ui);
    let examined =
        doctor::doctor(&place, &input, &mut |progress| bar.show(progress), &mut |office| cx.carry_out(office));
    drop(bar);
    cx.print_answer(examined?.map(with_commands))
}
