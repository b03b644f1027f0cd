//! `poste team`: who is on it, what each does now, starting and stopping them.

pub(crate) mod add;
mod logs;
mod stop;

use std::io::{self, Write};

use poste_config::Runners;
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_dispatch::team::{self, Member, Started, StartedHow, State, Teammate, TeammateRun};
use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use add::AddAnswer;
pub(crate) use logs::LogsAnswer;
pub(crate) use stop::StopAnswer;

use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::explain::unknown_agent;
use crate::ui::{Answer, Paint, Ui, escape};

/// Start, watch and stop the agents of the team
///
/// [team] in poste.toml names a lead and members; [agent.NAME] says what is run for each. What is shown is what is true
/// now, by processes, claims and output, and not what somebody said last.
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
    /// Register and start what [team] lists; doing it again changes nothing
    ///
    /// Who is kept running is started; who is started for its mail is ready for poste dispatch. Who was stopped goes on.
    #[command(after_help = "Examples:\n  poste team up\n  poste team up coder")]
    Up {
        /// Only these
        names: Vec<Name>,
    },
    /// Add a teammate on this machine and start it; the same as poste spawn
    Add(add::Args),
    /// List who is on the team and what is run for each
    #[command(after_help = "Examples:\n  poste team list\n  poste team list --json")]
    List,
    /// Show what each does now: starting, idle, working, stuck or stopped
    #[command(after_help = "Examples:\n  poste team status\n  poste team status coder --json")]
    Status {
        /// Only these
        names: Vec<Name>,
    },
    /// Ask teammates to stop, wait for it, and end those that do not
    Stop(stop::Args),
    /// Print what the program of a teammate printed, in the run that is under way or the last one
    Logs(logs::Args),
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        TeamCommand::Up { names } => up(cx, &names),
        TeamCommand::Add(args) => add::run(cx, args),
        TeamCommand::List => list(cx),
        TeamCommand::Status { names } => status(cx, &names),
        TeamCommand::Stop(args) => stop::run(cx, args),
        TeamCommand::Logs(args) => logs::run(cx, args),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct UpAnswer {
    pub team: Vec<Started>,
}

impl Answer for UpAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        ui.rows(out, &["AGENT", "IS", ""], self.team.iter().map(|started| started_row(ui, started)).collect())
    }
}

fn started_row(ui: &Ui, started: &Started) -> Vec<String> {
    let (paint, what) = match started.how {
        StartedHow::Started => (Paint::Good, "started"),
        StartedHow::Running => (Paint::Good, "running already"),
        StartedHow::Ready => (Paint::Good, "ready"),
        StartedHow::Registered => (Paint::Dim, "registered"),
        StartedHow::Untrusted => (Paint::Bad, "not trusted"),
        StartedHow::Failed => (Paint::Bad, "failed"),
    };
    let mut notes: Vec<String> = Vec::new();
    notes.extend(started.run.as_ref().map(|run| format!("run {run}")));
    notes.extend(started.resumed.then(|| "goes on".to_owned()));
    notes.extend(started.why.clone());
    if started.how == StartedHow::Registered {
        notes.push("nothing is run for it here".to_owned());
    }
    vec![started.agent.to_string(), ui.paint(paint, what), escape::line(&notes.join("; ")).into_owned()]
}

fn up(cx: &mut Cx, names: &[Name]) -> Result {
    let mut office = cx.open_to_write()?;
    let runners = poste_config::runners(&office)?;
    let members = chosen(&runners, names)?;
    let program = std::env::current_exe()?;
    let mut started = Vec::new();
    // The lead first: who it leads is registered with it.
    for member in &members {
        let one = team::start(&mut office, &program, member, runners.team.lead.as_ref())?;
        cx.carry_out(&mut office);
        if one.registered || one.resumed || one.run.is_some() {
            cx.note_stored(format!("{} of the team", one.agent));
        }
        started.push(one);
    }
    cx.ui.now = office.now()?;
    say_next(cx, &started);
    let trouble = trouble(&started);
    cx.ui.answer(&UpAnswer { team: started })?;
    trouble
}

/// Those that were named, or everybody who is listed.
fn chosen(runners: &Runners, names: &[Name]) -> Result<Vec<Member>> {
    let mut members = team::members(runners);
    for name in names {
        if !members.iter().any(|member| member.name == *name) {
            return Err(not_on_team(name));
        }
    }
    members.retain(|member| if names.is_empty() { member.listed } else { names.contains(&member.name) });
    match members.is_empty() {
        true => Err(CommandError::not_found("there is no team: poste.toml lists nobody")
            .hint("write it down: [team] with lead and members, and [agent.NAME] for each; see docs/teams.md")
            .hint("or add somebody on this machine: poste team add NAME --preset claude-code")),
        false => Ok(members),
    }
}

fn not_on_team(name: &Name) -> CommandError {
    CommandError::not_found(format!("{name} is not on the team")).hint("see who is: poste team list")
}

fn say_next(cx: &Cx, started: &[Started]) {
    if started.iter().any(|one| one.how == StartedHow::Ready) {
        cx.ui.say("who is ready is started for its mail by a dispatcher: poste dispatch");
    }
}

/// What a script has to know of those that are not up.
fn trouble(started: &[Started]) -> Result {
    let of = |how: StartedHow| started.iter().filter(move |one| one.how == how).map(|one| one.agent.as_str());
    let untrusted: Vec<&str> = of(StartedHow::Untrusted).collect();
    if !untrusted.is_empty() {
        let message = format!("not started, as what poste.toml runs is not trusted: {}", untrusted.join(", "));
        return Err(CommandError::new(Kind::Refused, message)
            .code("untrusted")
            .hint("look at it and trust it: poste trust"));
    }
    let failed: Vec<&str> = of(StartedHow::Failed).collect();
    match failed.as_slice() {
        [] => Ok(()),
        failed => Err(CommandError::new(Kind::Refused, format!("not started: {}", failed.join(", ")))
            .code("not_started")
            .hint(format!("see what it printed: poste team logs {}", failed[0]))),
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListAnswer {
    pub team: Vec<ListLine>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListLine {
    pub agent: Name,
    /// It is the lead of [team].
    pub leads: bool,
    /// team up starts it.
    pub listed: bool,
    pub role: Option<String>,
    pub mode: Option<poste_config::Mode>,
    /// What is run for it; null: nothing is, here.
    pub runs: Option<String>,
    /// The file that says so.
    pub file: Option<&'static str>,
    pub trusted: Option<bool>,
}

impl Answer for ListAnswer {
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
                line.mode.map_or("-", poste_config::Mode::word).to_owned(),
                file,
                escape::line(runs).into_owned(),
            ]
        });
        ui.rows(out, &["AGENT", "IS", "ROLE", "MODE", "FILE", "RUNS"], rows.collect())
    }
}

fn list(cx: &mut Cx) -> Result {
    use poste_config::{FILE, LOCAL_FILE};
    use poste_core::gates::Source;
    let office = cx.open()?;
    let mut lines = Vec::new();
    for member in team::members(&poste_config::runners(&office)?) {
        let registered = office.agent(&member.name)?.and_then(|agent| agent.role).map(|role| role.to_string());
        let config = member.config.as_ref();
        lines.push(ListLine {
            role: registered.or_else(|| config.and_then(|config| config.role.as_ref()).map(ToString::to_string)),
            mode: config.map(|config| config.mode),
            runs: config.map(|config| config.shown()),
            file: config.map(|config| if config.source == Source::Machine { LOCAL_FILE } else { FILE }),
            trusted: config.map(|config| config.trusted),
            agent: member.name,
            leads: member.leads,
            listed: member.listed,
        });
    }
    if lines.is_empty() {
        cx.ui.say("nobody is on the team; add somebody: poste team add NAME --preset claude-code");
    }
    cx.ui.answer(&ListAnswer { team: lines })
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    pub team: Vec<Teammate>,
}

impl Answer for StatusAnswer {
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
        or_none(lease.map(|ms| if ms < 0 { "over".to_owned() } else { format!("{} left", length(whole(ms))) })),
        or_none(output.map(|ms| if ms < 1_000 { "now".to_owned() } else { format!("{} ago", length(whole(ms))) })),
        teammate.queue.to_string(),
        or_none(Some(escape::line(&names.join(" ")).into_owned())),
        or_none(teammate.why.as_deref().map(|why| escape::line(why).into_owned())),
    ]
}

/// Nobody needs it closer than a second.
fn whole(ms: i64) -> i64 {
    ms - ms % 1_000
}

fn status(cx: &mut Cx, names: &[Name]) -> Result {
    let office = cx.open()?;
    let on_team = team::members(&poste_config::runners(&office)?);
    for name in names {
        if !on_team.iter().any(|member| member.name == *name) && office.agent(name)?.is_none() {
            return Err(unknown_agent(&office, name)?);
        }
    }
    let team = team::status(&office, names)?;
    if team.is_empty() {
        cx.ui.say("nobody is on the team; add somebody: poste team add NAME --preset claude-code");
    }
    cx.ui.answer(&StatusAnswer { team })
}

/// The run whose files tell what a teammate printed: the one under way, else the last.
fn current_run(office: &poste_core::Office, name: &Name) -> Result<Option<Session>> {
    let running = poste_core::views::running(office.store(), name)?;
    if let Some(newest) = running.into_iter().next_back() {
        return Ok(Some(newest.run));
    }
    let last = poste_core::views::latest_runs(office.store(), Some(name), 1)?;
    Ok(last.into_iter().next().map(|run| run.run))
}
