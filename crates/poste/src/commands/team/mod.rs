//! `poste team`: list, start, watch and stop the agents of the team.

pub(crate) mod add;
mod logs;
mod stop;

use std::io::{self, Write};
use std::time::Duration;

use poste_config::Mode;
use poste_core::office::Office;
use poste_core::text::Name;
use poste_core::time::length;
use poste_dispatch::team::{Started, StartedHow, Starts, State, Teammate, TeammateRun};
use poste_dispatch::verbs::{team_list, team_status, team_up};
use poste_verbs::Answered;

use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Start, watch and stop the agents of the team
///
/// [team] in poste.toml names a lead and members; [agent.NAME] says how each is run. States are those of this moment,
/// by processes, claims and output, not what an agent said last.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste team up\n  poste team status\n  \
                        poste team add tester --role tester --preset codex\n  \
                        poste team logs coder -f\n  poste team stop coder --reason 'The feature is done' --as lead")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: TeamCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TeamCommand {
    /// Register and start the agents that [team] lists
    ///
    /// Starts resident agents. Others start when mail arrives (`poste dispatch`). Resumes agents that were stopped.
    /// Running it again changes nothing.
    #[command(after_help = "Examples:\n  poste team up\n  poste team up coder")]
    Up {
        /// Only these agents
        names: Vec<Name>,
    },
    /// Add a teammate and start it here; same as `poste spawn`
    Add(add::Args),
    /// List the agents of the team and how each is run
    #[command(after_help = "Examples:\n  poste team list\n  poste team list --json")]
    List,
    /// Show what each agent does now
    #[command(after_help = "Examples:\n  poste team status\n  poste team status coder --json")]
    Status {
        /// Only these agents
        names: Vec<Name>,
    },
    /// Stop agents, by force if they do not stop in time
    Stop(stop::Args),
    /// Print the output of an agent's current or last run
    Logs(logs::Args),
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        TeamCommand::Up { names } => up(cx, names),
        TeamCommand::Add(args) => add::run(cx, args),
        TeamCommand::List => cx.call(team_list::Input {}),
        TeamCommand::Status { names } => cx.call(team_status::Input { names }),
        TeamCommand::Stop(args) => stop::run(cx, args),
        TeamCommand::Logs(args) => logs::run(cx, args),
    }
}

impl Answer for Starts {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], self.team.iter().map(|started| started_row(ui, started)).collect())
    }
}

fn started_row(ui: &Ui, started: &Started) -> Vec<String> {
    let (paint, what) = match started.how {
        StartedHow::Started => (Paint::Good, "started"),
        StartedHow::Running => (Paint::Good, "already running"),
        StartedHow::Starting => (Paint::Attention, "starting"),
        StartedHow::Ready => (Paint::Good, "ready"),
        StartedHow::Registered => (Paint::Dim, "registered"),
        StartedHow::Untrusted => (Paint::Bad, "not trusted"),
        StartedHow::Failed => (Paint::Bad, "failed"),
    };
    let mut notes: Vec<String> = Vec::new();
    notes.extend(started.run.as_ref().map(|run| format!("run {run}")));
    notes.extend(started.resumed.then(|| "resumed".to_owned()));
    notes.extend(started.why.clone());
    if started.how == StartedHow::Registered {
        notes.push("no runner here".to_owned());
    }
    vec![started.agent.to_string(), ui.paint(paint, what), escape::line(&notes.join("; ")).into_owned()]
}

fn up(cx: &mut Cx, names: Vec<Name>) -> Result {
    cx.stay_in_run()?;
    cx.prove(&cx.office()?);
    let (mut office, Answered { answer: mut starts, warnings, .. }) = cx.call_verb_here(team_up::Input { names })?;
    warnings.iter().for_each(|note| cx.ui.warn(notes::text(&cx.ui, note)));
    await_starts(cx, &mut office, &mut starts)?;
    cx.ui.answer(&starts)?;
    trouble(cx, &starts)
}

/// Processes do not ring the bell, so they are polled.
fn poll(cx: &mut Cx, office: &mut Office, mut look: impl FnMut(&Cx, &mut Office) -> Result<bool>) -> Result {
    const PERIOD: Duration = Duration::from_millis(20);
    loop {
        let is_over = look(cx, office)?;
        cx.carry_out(office);
        if is_over {
            cx.ui.now = office.now()?;
            return Ok(());
        }
        std::thread::sleep(PERIOD);
    }
}

fn await_starts(cx: &mut Cx, office: &mut Office, starts: &mut Starts) -> Result {
    poll(cx, office, |_, office| Ok(starts.poll(office)?))?;
    if starts.team.iter().any(|one| one.how == StartedHow::Ready) {
        cx.ui.say("agents that are ready start when mail arrives: poste dispatch");
    }
    Ok(())
}

/// The error for scripts if some agents are not up.
fn trouble(cx: &Cx, starts: &Starts) -> Result {
    starts.trouble().map_or(Ok(()), |error| Err(CommandError::of(&cx.ui, error)))
}

impl Answer for team_list::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.team.iter().map(|line| {
            let what = if line.leads {
                "lead"
            } else if line.listed {
                "member"
            } else {
                "-"
            };
            let runs = line.runs.as_deref().unwrap_or("-");
            let file = match (line.file, line.trusted) {
                (Some(file), Some(false)) => format!("{file} (not trusted)"),
                (file, _) => file.unwrap_or("-").to_owned(),
            };
            vec![
                line.agent.to_string(),
                what.to_owned(),
                line.role.clone().unwrap_or_else(|| "-".to_owned()),
                line.mode.map_or("-", Mode::word).to_owned(),
                file,
                escape::line(runs).into_owned(),
            ]
        });
        ui.rows(out, &["AGENT", "IS", "ROLE", "MODE", "FILE", "RUNS"], rows.collect())
    }
}

impl Answer for team_status::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.team.iter().map(|teammate| status_row(ui, teammate)).collect();
        ui.rows(out, &["AGENT", "STATE", "SINCE", "MESSAGE", "LEASE", "OUTPUT", "QUEUE", "RUN", "WHY"], rows)
    }
}

fn status_row(ui: &Ui, teammate: &Teammate) -> Vec<String> {
    let paint = match teammate.state {
        State::Working | State::Starting => Paint::Good,
        State::Idle => Paint::Dim,
        State::Stuck => Paint::Bad,
        State::Stopped => Paint::Attention,
    };
    let or_none = |text: Option<String>| text.filter(|text| !text.is_empty()).unwrap_or_else(|| "-".to_owned());
    let runs = &teammate.runs;
    let messages: Vec<String> = runs.iter().flat_map(|run| &run.messages).map(|number| format!("#{number}")).collect();
    let lease = runs.iter().filter_map(|run| run.lease_left_ms).min();
    let output = runs.iter().filter_map(|run: &TeammateRun| run.silent_ms).max();
    let names: Vec<&str> = runs.iter().map(|run| run.run.as_str()).collect();
    vec![
        teammate.agent.to_string(),
        ui.paint(paint, teammate.state.word()),
        or_none(teammate.since.map(|since| ui.time(since))),
        or_none(Some(messages.join(" "))),
        or_none(lease.map(|ms| if ms < 0 { "expired".to_owned() } else { format!("{} left", length(whole(ms))) })),
        or_none(output.map(|ms| if ms < 1_000 { "now".to_owned() } else { format!("{} ago", length(whole(ms))) })),
        teammate.queue.to_string(),
        or_none(Some(escape::line(&names.join(" ")).into_owned())),
        or_none(teammate.why.as_deref().map(|why| escape::line(why).into_owned())),
    ]
}

/// Rounded down to a second.
fn whole(ms: i64) -> i64 {
    ms - ms % 1_000
}
