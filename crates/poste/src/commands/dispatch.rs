use std::io::{self, Write};

use poste_core::log::MessageNo;
use poste_core::text::Name;
use poste_core::views::{Later, WhyLater};
use poste_dispatch::engine::{
    AgentPicture, AgentState, Dispatcher, Hold, Picture, SpentPicture, Told, Until, WaitReason,
};
use poste_dispatch::verbs::{self, dry_run, resume, runs, status, stop};

use super::dispatch_live::Screen;
use super::{WriteArgs, dispatch_runs, dispatch_send};
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{self, Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Start agents for their mail, and see to it that it goes on
///
/// Runs what [agent.NAME] of poste.toml says for whoever has mail: the most urgent first, each agent in turn, never more at
/// once than it may have. Each start has a supervisor of its own, which takes the message, records the answer and lives on
/// when this ends. So it may be killed at any time, or run twice. Ctrl-C starts nothing more and waits for what runs; again
/// stops that too. Who is kept running (mode resident) goes on without it: poste team stop. --once ends with 11 if something
/// failed or is held.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  poste dispatch                        until Ctrl-C\n  \
                  poste dispatch --once                 what waits now, then end\n  \
                  poste dispatch --dry-run              only say what would be started\n  \
                  poste dispatch send coder 'Fix the login' --wait 10m --as lead\n  \
                  poste dispatch status"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<DispatchCommand>,
    /// End when nothing more can be started and nothing runs
    #[arg(long)]
    once: bool,
    /// Only say what would be started, held and why
    #[arg(long, conflicts_with_all = ["once", "stop_runs"])]
    dry_run: bool,
    /// The first Ctrl-C stops what runs, too
    #[arg(long)]
    stop_runs: bool,
    #[command(flatten)]
    which: Which,
}

/// Of which agents, and how long.
#[derive(Debug, clap::Args)]
struct Which {
    /// Only this agent; may be repeated
    #[arg(long, value_name = "NAME")]
    agent: Vec<Name>,
    /// With --once: do not wait for what was started
    #[arg(long)]
    no_wait: bool,
}

#[derive(Debug, clap::Subcommand)]
enum DispatchCommand {
    /// Show what runs, waits and is held, and what is used up
    #[command(after_help = "Examples:\n  poste dispatch status\n  poste dispatch status --agent coder --json")]
    Status {
        /// Only this agent; may be repeated
        #[arg(long, value_name = "NAME")]
        agent: Vec<Name>,
    },
    /// Send a request to an agent, and wait for its answer if you like
    #[command(after_help = "Examples:\n  poste dispatch send coder 'Fix the login' --as lead\n  \
                      poste dispatch send skill-writer 'Create a skill for Python testing' --wait 10m --as lead")]
    Send(Box<dispatch_send::Args>),
    /// Work through what waits now, then end: the same as --once
    #[command(after_help = "Examples:\n  poste dispatch poll\n  poste dispatch poll --agent coder --no-wait")]
    Poll(Which),
    /// Start an agent again that is held, or start it for one message
    #[command(after_help = "Examples:\n  poste dispatch resume coder --as lead\n  \
                      poste dispatch resume coder 12 --reason 'It is no loop' --as lead")]
    Resume(ResumeArgs),
    /// List runs, the newest first
    #[command(after_help = "Examples:\n  poste dispatch runs\n  poste dispatch runs coder --limit 5")]
    Runs(dispatch_runs::RunsArgs),
    /// Print what a run printed
    #[command(after_help = "Examples:\n  poste dispatch logs 12            the last run for message 12\n  \
                      poste dispatch logs 0198f2c1-5a8b-7c51-9a53-1d1f4bb5c2a6 --follow")]
    Logs(dispatch_runs::LogsArgs),
    /// Stop a run: its program is ended, its messages wait again
    #[command(after_help = "Examples:\n  poste dispatch stop 12            the run for message 12\n  \
                      poste dispatch stop 0198f2c1-5a8b-7c51-9a53-1d1f4bb5c2a6")]
    Stop(dispatch_runs::StopArgs),
}

#[derive(Debug, clap::Args)]
struct ResumeArgs {
    /// Whom to start again
    agent: Name,
    /// Only for this message
    #[arg(value_parser = crate::cli::number)]
    number: Option<MessageNo>,
    /// Why, for whoever reads the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    write: WriteArgs,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        None if args.dry_run => cx.call(dry_run::Input { agent: args.which.agent }),
        None if args.once => dispatch(cx, args.which, true, args.stop_runs),
        None if args.which.no_wait => Err(CommandError::usage("--no-wait goes with --once")),
        None => dispatch(cx, args.which, false, args.stop_runs),
        Some(DispatchCommand::Poll(which)) => dispatch(cx, which, true, false),
        Some(DispatchCommand::Status { agent }) => cx.call(status::Input { agent }),
        Some(DispatchCommand::Send(args)) => dispatch_send::run(cx, *args),
        Some(DispatchCommand::Resume(ResumeArgs { agent, number, reason, write: WriteArgs { id, secret } })) => {
            cx.call(resume::Input { agent, number, why: None, reason, id, secrets: secret.secrets() })
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
        cx.ui.say(format!("dispatching for {agents}; Ctrl-C ends, and what runs goes on to its end"));
    }
    // Said before the first rule runs a command, which would see to them itself.
    poste_run::signals_are_seen_to();
    let mut hear = |told: Told<'_>| screen.hear(told);
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
            writeln!(out, "would let {agent} go: what it was held for is over")?;
        }
        for hold in &self.holds {
            writeln!(out, "{} {}", ui.paint(Paint::Bad, "would hold"), held_text(ui, hold))?;
        }
        for wait in &self.waits {
            let why = match wait.why {
                WaitReason::Busy => "has as many runs as it may have",
                WaitReason::NoPlace => "waits for a place",
                WaitReason::Quiet => "has quiet hours",
                WaitReason::Held => "is held",
                WaitReason::Resting => "rests after a start that came to nothing",
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
            writeln!(out, "nothing waits that somebody could be started for")?;
        }
        Ok(())
    }
}

/// How many messages that wait a plan names.
const LATER_MAX: usize = 20;

/// What a message waits for.
pub(super) fn later_text(ui: &Ui, later: &Later) -> String {
    let until = later.until.map(|until| ui.time(until)).unwrap_or_default();
    match (later.why, later.after) {
        (WhyLater::Attempt, _) => format!("again {until}, {} of {} failed", later.attempts, later.max_attempts),
        (WhyLater::Time, _) => format!("sent for later, {until}"),
        (WhyLater::Held, _) => {
            format!("held; let it go: poste dispatch resume {} {}", later.agent, later.message)
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
        return "to look through its inbox".to_owned();
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

/// One for each run, and one for each agent without any.
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

/// How many messages that wait a row names.
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
    // What is held stands there already.
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
            None => "it was let go before, under this id".to_owned(),
        };
        writeln!(out, "{} can be started again{what}: {how}", self.agent)
    }
}
