//! Runs that were started: which, what they printed, and how to stop one.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write};
use std::time::Duration;

use poste_core::log::{MessageNo, RunOutcome};
use poste_core::office::Office;
use poste_core::store::processes::Presence;
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_core::views::{self, RunView};
use poste_dispatch::run::RunFolder;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use schemars::JsonSchema;
use serde::Serialize;

use super::dispatch::for_what;
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::unknown_agent;
use crate::ui::{Answer, Paint, Ui, escape};

#[derive(Debug, clap::Args)]
pub(crate) struct RunsArgs {
    /// Only of this agent
    agent: Option<Name>,
    /// At most so many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// A run, or the number of a message: the last run for it
    #[arg(value_name = "RUN|N")]
    run: String,
    /// Go on until it ends
    #[arg(long, short)]
    follow: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StopArgs {
    /// A run, or the number of a message: the run for it
    #[arg(value_name = "RUN|N")]
    run: String,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunsAnswer {
    pub runs: Vec<RunView>,
}

impl Answer for RunsAnswer {
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

/// Of one that failed: why it could not go on, or the last it printed, as its state says how it ended.
pub(super) fn why_failed(run: &RunView) -> Option<String> {
    match (run.is_failed(), run.code, &run.last_line) {
        (false, ..) => None,
        (true, Some(_), Some(line)) => Some(format!("it printed last: {line}")),
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

pub(super) fn list(cx: &mut Cx, args: &RunsArgs) -> Result {
    let office = cx.open()?;
    if let Some(agent) = &args.agent
        && office.agent(agent)?.is_none()
    {
        return Err(unknown_agent(&office, agent)?);
    }
    let runs = views::latest_runs(office.store(), args.agent.as_ref(), args.limit.into())?;
    let is_empty = runs.is_empty();
    cx.ui.answer(&RunsAnswer { runs })?;
    if is_empty {
        cx.ui.say("nothing was started yet: poste dispatch");
    }
    Ok(())
}

/// A run by its id, or the last one for a message.
fn find(office: &Office, text: &str) -> Result<RunView> {
    let missing = |what: String| CommandError::not_found(what).hint("see which there are: poste dispatch runs");
    if let Ok(number) = crate::cli::number(text) {
        let found = views::runs_of(office.store(), number)?.pop();
        return found.ok_or_else(|| missing(format!("nobody was started for message {number}")));
    }
    let run: Session = text.parse()?;
    views::run(office.store(), &run)?.ok_or_else(|| missing(format!("there is no run {run}")))
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LogsAnswer {
    pub run: Session,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
    /// Null: it is not over.
    pub how: Option<RunOutcome>,
    /// Why it failed, as far as nothing it printed says so.
    pub why: Option<String>,
    /// Both streams, as far as they were kept.
    pub output: String,
}

impl Answer for LogsAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        print_output(&self.output, out)
    }
}

fn print_output(output: &str, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", escape::block(output))?;
    if !output.is_empty() && !output.ends_with('\n') {
        writeln!(out)?;
    }
    Ok(())
}

pub(super) fn logs(cx: &mut Cx, args: &LogsArgs) -> Result {
    let mut office = cx.open()?;
    let run = find(&office, &args.run)?;
    let folder = RunFolder::of(office.path()?, &run.run);
    if args.follow && !cx.ui.json {
        return follow(cx, &mut office, &run, &folder);
    }
    // What was kept of it in the folder is more than the log has, and gone one day.
    let output = match poste_run::files::readable(&folder.output()) {
        Ok(mut file) => read_some(&mut file)?,
        Err(_) => views::printed(office.store(), &run.run)?.unwrap_or_default(),
    };
    let is_empty = output.is_empty();
    let why = run.said.filter(|_| run.how.is_some() && run.code.is_none());
    if let Some(why) = &why {
        cx.ui.say(escape::line(why));
    }
    cx.ui.answer(&LogsAnswer { run: run.run, agent: run.agent, messages: run.messages, how: run.how, why, output })?;
    if is_empty {
        cx.ui.say(if run.how.is_some() { "it printed nothing" } else { "it has printed nothing yet" });
    }
    Ok(())
}

fn read_some(file: &mut File) -> Result<String> {
    const BYTES_MAX: u64 = 16 << 20;
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn follow(cx: &Cx, office: &mut Office, run: &RunView, folder: &RunFolder) -> Result {
    const PERIOD: Duration = Duration::from_millis(100);
    let mut at = 0;
    loop {
        let is_over = views::run(office.store(), &run.run)?.is_none_or(|run| run.how.is_some());
        if let Ok(mut file) = poste_run::files::readable(&folder.output()) {
            file.seek(SeekFrom::Start(at))?;
            let more = read_some(&mut file)?;
            at = file.stream_position()?;
            let mut out = cx.ui.out();
            write!(out, "{}", escape::block(&more))?;
            out.flush()?;
        }
        if is_over {
            return Ok(());
        }
        std::thread::sleep(PERIOD);
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopAnswer {
    pub run: Session,
    pub agent: Name,
    pub messages: Vec<MessageNo>,
}

impl Answer for StopAnswer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "run {} of {} is asked to stop ({})", self.run, self.agent, for_what(&self.messages))
    }
}

pub(super) fn stop(cx: &mut Cx, args: &StopArgs) -> Result {
    let office = cx.open()?;
    let run = find(&office, &args.run)?;
    let refused = |what: String| Err(CommandError::new(Kind::Refused, what));
    if run.how.is_some() {
        return refused(format!("run {} is over already", run.run));
    }
    let pid = i32::try_from(run.process.pid).ok().and_then(Pid::from_raw);
    // Held first and looked at then, so that no other process can have its number by now.
    let held = pid.and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    match (run.presence(office.store())?, held) {
        (Presence::Running, Some(held)) => {
            pidfd_send_signal(held, Signal::TERM)
                .map_err(|error| CommandError::new(Kind::Refused, format!("it cannot be asked: {error}")))?;
        }
        (Presence::Unknown, _) => {
            return refused(format!("run {} is on {}, where it must be stopped", run.run, run.host));
        }
        _ => {
            let message = format!("the supervisor of run {} is gone", run.run);
            return Err(CommandError::new(Kind::Refused, message)
                .hint("a dispatcher sweeps up what is left of it: poste dispatch"));
        }
    }
    let agent = run.agent.clone();
    cx.ui.answer(&StopAnswer { run: run.run, agent: run.agent, messages: run.messages })?;
    cx.ui.say(format!("a dispatcher starts {agent} again for what waits; so that nothing is: poste team stop {agent}"));
    Ok(())
}
