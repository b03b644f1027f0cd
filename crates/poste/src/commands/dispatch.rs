use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Name;
use poste_core::views::{Later, WhyLater};
use poste_dispatch::engine::{
    AgentPicture, AgentState, Dispatcher, Hold, Picture, Report, SpentPicture, Until, WaitReason,
};
use poste_dispatch::verbs::{self, dry_run, resume, runs, status, stop};

use super::dispatch_live::Screen;
use super::{WriteArgs, dispatch_runs, dispatch_send};
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{self, Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Start agents when they have mail
///
/// Runs the program in [agent.NAME] of poste.toml for each agent with mail: the most urgent mail first, agents in turn,
/// within their limits. Each run has its own supervisor, which claims the message, records the answer and outlives the
/// dispatcher. You can kill a dispatcher at any time, or run two of them. Ctrl-C starts nothing more and waits for its
/// runs; a second Ctrl-C stops them. Resident agents keep running without a dispatcher; stop them with poste team stop.
/// --once exits with 11 if something failed or is held.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  poste dispatch                        until Ctrl-C\n  \
                  poste dispatch --once                 handle pending mail, then exit\n  \
                  poste dispatch --dry-run              only show what would be started\n  \
                  poste dispatch send coder 'Fix the login' --wait 10m --as lead\n  \
                  poste dispatch status"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<DispatchCommand>,
    /// Exit when nothing more can be started and no run is active
    #[arg(long)]
    once: bool,
    /// Only show what would be started or held, and why
    #[arg(long, conflicts_with_all = ["once", "stop_runs"])]
    dry_run: bool,
    /// Stop active runs at the first Ctrl-C
    #[arg(long)]
    stop_runs: bool,
    #[command(flatten)]
    which: Which,
}

/// Which agents to start, and whether to wait for them.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only this agent; may be repeated
    #[arg(long, value_name = "NAME")]
    agent: Vec<Name>,
    /// With --once: do not wait for the started runs
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, clap::Subcommand)]
enum DispatchCommand {
    /// Show runs, pending mail, holds and used budgets
    #[command(after_help = "Examples:\n  poste dispatch status\n  poste dispatch status --agent coder --json")]
    Status {
        /// Only this agent; may be repeated
        #[arg(long, value_name = "NAME")]
        agent: Vec<Name>,
    },
    /// Send a request to an agent; --wait waits for its answer
    #[command(after_help = "Examples:\n  poste dispatch send coder 'Fix the login' --as lead\n  \
                      poste dispatch send skill-writer 'Create a skill for Python testing' --wait 10m --as lead")]
    Send(Box<dispatch_send::Args>),
    /// Handle pending mail, then exit; same as --once
    #[command(after_help = "Examples:\n  poste dispatch poll\n  poste dispatch poll --agent coder --no-wait")]
    Poll(Which),
    /// Lift the hold on an agent, or on one of its messages
    #[command(after_help = "Examples:\n  poste dispatch resume coder --as anna\n  \
                      poste dispatch resume coder 12 --reason 'Not a loop' --as anna")]
    Resume(ResumeArgs),
    /// List runs, newest first
    #[command(after_help = "Examples:\n  poste dispatch runs\n  poste dispatch runs coder --limit 5")]
    Runs(dispatch_runs::RunsArgs),
    /// Print the output of a run
    #[command(after_help = "Examples:\n  poste dispatch logs 12            the last run for message 12\n  \
                      poste dispatch logs 0198f2c1-5a8b-7c51-9a53-1d1f4bb5c2a6 --follow")]
    Logs(dispatch_runs::LogsArgs),
    /// Stop a run; its messages become pending again
    #[command(after_help = "Examples:\n  poste dispatch stop 12            the run for message 12\n  \
                      poste dispatch stop 0198f2c1-5a8b-7c51-9a53-1d1f4bb5c2a6")]
    Stop(dispatch_runs::StopArgs),
}

#[derive(Debug, clap::Args)]
struct ResumeArgs {
    /// Agent to lift the hold on
    agent: Name,
    /// Lift only the hold on this message
    #[arg(value_parser = crate::cli::number)]
    number: Option<MessageNo>,
    /// Reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        None if args.dry_run => cx.call(dry_run::Input { agent: args.which.agent }),
        None if args.once => dispatch(cx, args.which, true, args.stop_runs),
        None if args.which.no_wait => Err(CommandError::usage("--no-wait requires --once")),
        None => dispatch(cx, args.which, false, args.stop_runs),
        Some(DispatchCommand::Poll(which)) => dispatch(cx, which, true, false),
        Some(DispatchCommand::Status { agent }) => cx.call(status::Input { agent }),
        Some(DispatchCommand::Send(args)) => dispatch_send::run(cx, *args),
        Some(DispatchCommand::Resume(ResumeArgs { agent, number, reason, write: WriteArgs { id, secret } })) => {
            cx.stay_in_run()?;
            cx.confirm_as_person(&format!("let {agent} be started again"), agent.as_str())?;
            cx.call(resume::Input { agent, number, why: None, reason, id, secrets: secret.secrets(cx)? })
        }
        Some(DispatchCommand::Runs(args)) => cx.call(runs::Input { agent: args.agent, limit: args.limit }),
        Some(DispatchCommand::Logs(args)) => dispatch_runs::logs(cx, args),
        Some(DispatchCommand::Stop(args)) => cx.call(stop::Input { run: args.run }),
    }
}

fn dispatch(cx: &mut Cx, which: Which, once: bool, stop_runs: bool) -> Result {
    let place = cx.place()?;
    let office = cx.open_to_write()?;
    let runners = verbs::configured(&office, &which.agent)?;
    verbs::untrusted(&runners).iter().for_each(|note| cx.ui.warn(notes::text(&cx.ui, note)));
    let until = match (once, which.no_wait) {
        (false, _) => Until::Stopped,
        (true, false) => Until::Idle,
        (true, true) => Until::Started,
    };
    let mut screen = Screen::new(&cx.ui, &which.agent);
    if until == Until::Stopped {
        screen.is_live = cx.ui.terminal && !cx.ui.json;
        let agents = ui::count(runners.agents.len(), "agent");
        cx.ui.say(format!("dispatching for {agents}; Ctrl-C waits for active runs, then exits"));
    }
    // Must precede the first command of a rule, which would otherwise handle the signals itself.
    poste_run::mark_signals_handled();
    let mut hear = |report: Report<'_>| screen.hear(report);
    let mut dispatcher = Dispatcher::new(place.clone(), office, std::env::current_exe()?, &mut hear)?;
    dispatcher.only(which.agent).notifies(true).stops_runs(stop_runs);
    super::dispatch_live::on_signals(&dispatcher.stopper(), stop_runs, cx.ui.json)?;
    dispatcher.run(until)?;
    drop(dispatcher);
    screen.finish(&place, once)
}

impl Answer for dry_run::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for start in &self.starts {
            writeln!(out, "would start {} {}", start.agent, for_what(&start.messages))?;
        }
        for agent in &self.resumes {
            writeln!(out, "would lift the hold on {agent}: its reason no longer applies")?;
        }
        for hold in &self.holds {
            writeln!(out, "{} {}", ui.paint(Paint::Bad, "would hold"), held_text(ui, hold))?;
        }
        for wait in &self.waits {
            let why = match wait.why {
                WaitReason::Busy => "is at its limit of runs",
                WaitReason::NoPlace => "waits for a place",
                WaitReason::Quiet => "is in its quiet hours",
                WaitReason::Held => "is held",
                WaitReason::Resting => "backs off after a failed start",
            };
            let until = wait.until.map(|until| format!(" (ends {})", ui.time(until))).unwrap_or_default();
            writeln!(out, "{} {why}{until}: {}", wait.agent, ui::count(wait.messages, "message"))?;
        }
        for later in self.later.iter().take(LATER_MAX) {
            writeln!(out, "#{} waits for {}: {}", later.message, later.agent, later_text(ui, later))?;
        }
        if self.later.len() > LATER_MAX {
            writeln!(out, "and {} more wait", self.later.len() - LATER_MAX)?;
        }
        let is_empty = self.starts.is_empty() && self.holds.is_empty() && self.resumes.is_empty();
        if is_empty && self.waits.is_empty() && self.later.is_empty() {
            writeln!(out, "no mail is pending that an agent could be started for")?;
        }
        Ok(())
    }
}

/// Maximum number of waiting messages listed in a plan.
const LATER_MAX: usize = 20;

/// Why a message is not started yet.
pub(super) fn later_text(ui: &Ui, later: &Later) -> String {
    let until = later.until.map(|until| ui.time(until)).unwrap_or_default();
    match (later.why, later.after) {
        (WhyLater::Attempt, _) => format!("retry {until}, {} of {} failed", later.attempts, later.max_attempts),
        (WhyLater::Time, _) => format!("due {until}"),
        (WhyLater::Held, _) => {
            format!("held; lift the hold: poste dispatch resume {} {}", later.agent, later.message)
        }
        (WhyLater::Step, Some(after)) => format!("after #{after}, an earlier step"),
        (WhyLater::Step, None) => "after an earlier step".to_owned(),
    }
}

pub(super) fn held_text(ui: &Ui, hold: &Hold) -> String {
    let what = hold.message.map(|message| format!(" for #{message}")).unwrap_or_default();
    let until = hold.until.map(|until| format!(", ends {}", ui.time(until))).unwrap_or_default();
    format!("{}{what} ({}{until}): {}", hold.agent, hold.why, escape::line(&hold.text))
}

/// `for #1, #2`.
pub(super) fn for_what(messages: &[MessageNo]) -> String {
    const NAMED_MAX: usize = 5;
    if messages.is_empty() {
        return "to check its inbox".to_owned();
    }
    let named: Vec<String> = messages.iter().take(NAMED_MAX).map(|number| format!("#{number}")).collect();
    let more = if messages.len() > NAMED_MAX { ", …" } else { "" };
    format!("for {}{more}", named.join(", "))
}

impl Answer for Picture {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{} of {} places taken", self.taken, self.places)?;
        ui.rows(out, &HEADER, rows(ui, self))
    }
}

pub(super) const HEADER: [&str; 6] = ["AGENT", "STATE", "FOR", "AGE", "QUEUE", "NOTE"];

/// One row per run, and one per agent without a run.
pub(super) fn rows(ui: &Ui, picture: &Picture) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for agent in &picture.agents {
        let paint = match agent.state {
            AgentState::Running => Paint::Good,
            AgentState::Held | AgentState::Restarting | AgentState::NotRegistered => Paint::Bad,
            AgentState::Waiting | AgentState::Quiet => Paint::Attention,
            AgentState::Ready => Paint::Strong,
            AgentState::Idle | AgentState::Retired => Paint::Dim,
        };
        let state = ui.paint(paint, agent.state.word());
        let queue = format!("{} waiting", agent.queue);
        let name = agent.agent.to_string();
        let note = note(ui, agent);
        if agent.runs.is_empty() {
            let next = agent.next.map(|next| format!("next #{next}")).unwrap_or_else(|| "-".to_owned());
            let age = agent.waits_since.map(|at| ui.since(at)).unwrap_or_else(|| "-".to_owned());
            rows.push(vec![name, state, next, age, queue, note]);
            continue;
        }
        for run in &agent.runs {
            let what = for_what(&run.messages);
            let what = what.strip_prefix("for ").unwrap_or("its inbox").to_owned();
            rows.push(vec![name.clone(), state.clone(), what, ui.since(run.started_at), queue.clone(), note.clone()]);
        }
    }
    rows
}

/// Maximum number of waiting messages listed in a row.
const NOTED_MAX: usize = 3;

fn note(ui: &Ui, agent: &AgentPicture) -> String {
    let mut notes = Vec::new();
    notes.extend(agent.why.as_ref().map(|why| ui.paint(Paint::Bad, &escape::line(why))));
    for hold in &agent.holds {
        let what = hold.message.map(|number| format!("#{number} ")).unwrap_or_default();
        let until = hold.until.map(|until| format!(", ends {}", ui.time(until))).unwrap_or_default();
        notes.push(ui.paint(Paint::Bad, &format!("{what}held: {}{until}", hold.why)));
    }
    if let Some(why) = agent.would_hold.as_ref().filter(|_| agent.trusted) {
        notes.push(ui.paint(Paint::Bad, &format!("held: {}", escape::line(why))));
    }
    // Held messages are already listed above.
    let later = || agent.later.iter().filter(|later| later.why != WhyLater::Held);
    for later in later().take(NOTED_MAX) {
        notes.push(ui.paint(Paint::Attention, &format!("#{} {}", later.message, later_text(ui, later))));
    }
    let more = later().count().saturating_sub(NOTED_MAX);
    if more > 0 {
        notes.push(ui.paint(Paint::Attention, &format!("{more} more later")));
    }
    if !agent.trusted {
        notes.push(ui.paint(Paint::Attention, "not trusted"));
    }
    notes.extend(agent.quiet_until.map(|until| format!("quiet, ends {}", ui.time(until))));
    notes.extend(agent.spent.as_ref().map(spent_text));
    notes.extend(agent.schedule_next.map(|at| format!("by schedule {}", ui.time(at))));
    notes.join("; ")
}

fn spent_text(spent: &SpentPicture) -> String {
    let mut parts = Vec::new();
    parts.extend(spent.runs_max.map(|max| format!("{} of {max} runs", spent.runs)));
    parts.extend(spent.minutes_max.map(|max| format!("{} of {max} minutes", spent.minutes)));
    let dollars = |micros: u64| format!("{}.{:02}", micros / 1_000_000, micros % 1_000_000 / 10_000);
    parts
        .extend(spent.cost_micros_max.map(|max| format!("{} of {} dollars", dollars(spent.cost_micros), dollars(max))));
    format!("{} this {}", parts.join(", "), spent.per)
}

impl Answer for resume::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let what = self.message.map(|message| format!(" for #{message}")).unwrap_or_default();
        let how = match self.lifted {
            Some(lifted) => format!("{} lifted", ui::count(lifted, "hold")),
            None => "already lifted under this id".to_owned(),
        };
        writeln!(out, "{} can be started again{what}: {how}", self.agent)
    }
}
