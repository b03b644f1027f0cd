//! Lists runs, prints their output and stops them.

use std::io::{self, Write};
use std::time::Duration;

use poste_core::log::RunOutcome;
use poste_core::office::Office;
use poste_core::store::tables::Concern;
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_core::views::RunView;
use poste_dispatch::run::Output;
use poste_dispatch::verbs::{logs, runs, stop};

use super::dispatch::for_what;
use crate::Result;
use crate::context::Cx;
use crate::ui::{Answer, Paint, Ui, escape};

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Only runs of this agent
    pub agent: Option<Name>,
    /// Maximum number of runs
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub limit: u16,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// Run, or message number for the last run of that message
    #[arg(value_name = "RUN|N")]
    run: String,
    /// Follow the output until the run ends
    #[arg(long, short)]
    follow: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// Run, or message number for the run of that message
    #[arg(value_name = "RUN|N")]
    pub run: String,
}

impl Answer for runs::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.runs.iter().map(|run| {
            let took = run.took_ms.map(|ms| length(i64::try_from(ms).unwrap_or(i64::MAX))).unwrap_or_default();
            vec![
                run.run.to_string(),
                run.agent.to_string(),
                for_what(&run.messages).trim_start_matches("for ").to_owned(),
                outcome(ui, run),
                ui.time(run.started_at),
                took,
                escape::line(&why_failed(run).unwrap_or_default()).into_owned(),
            ]
        });
        ui.rows(out, &["RUN", "AGENT", "FOR", "STATE", "STARTED", "TOOK", "WHY"], rows.collect())
    }
}

/// Why a run failed: its last line of output if it has an exit code, which the state shows, else the recorded reason.
pub(super) fn why_failed(run: &RunView) -> Option<String> {
    match (run.is_failed(), run.code, &run.last_line) {
        (false, ..) => None,
        (true, Some(_), Some(line)) => Some(format!("last output: {line}")),
        (true, Some(_), None) => None,
        (true, None, _) => run.said.clone(),
    }
}

pub(super) fn outcome(ui: &Ui, run: &RunView) -> String {
    match (run.how, run.code) {
        (None, _) => ui.paint(Paint::Attention, "running"),
        (Some(RunOutcome::Exited), Some(0)) => ui.paint(Paint::Good, "ended"),
        (Some(RunOutcome::Exited), Some(code)) => ui.paint(Paint::Bad, &format!("exit code {code}")),
        (Some(RunOutcome::Signalled), Some(signal)) => ui.paint(Paint::Bad, &format!("signal {signal}")),
        (Some(how), _) => ui.paint(Paint::Bad, &how.to_string()),
    }
}

impl Answer for logs::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_output(&self.output, out)
    }
}

/// Prints a program's output, with control characters escaped.
pub(super) fn print_output(output: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", escape::block(output))?;
    if !output.is_empty() && !output.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn logs(cx: &mut Cx, args: LogsArgs) -> Result {
    let follows = args.follow && !cx.ui.json;
    let (mut office, answered) = cx.call_verb_here(logs::Input { run: args.run, follows })?;
    match follows {
        true => follow(cx, &mut office, &answered.answer.agent, &answered.answer.run),
        false => cx.show(&mut office, answered),
    }
}

/// Prints the output of a run until the run ends.
pub(super) fn follow(cx: &Cx, office: &mut Office, agent: &Name, run: &Session) -> Result {
    // Output does not ring the bell, so poll.
    const PERIOD: Duration = Duration::from_millis(100);
    let mut output = Output::of(office, run)?;
    loop {
        let (lines, has_ended) = output.follow(office)?;
        let mut out = cx.ui.out();
        print_output(&lines, &mut out)?;
        out.flush()?;
        drop(out);
        if has_ended {
            return Ok(());
        }
        cx.wait_for(office, &Concern::Agent(agent.clone()).into(), Some(PERIOD), |_| Ok(None::<()>))?;
    }
}

impl Answer for stop::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "asked run {} of {} to stop ({})", self.run, self.agent, for_what(&self.messages))
    }
}
