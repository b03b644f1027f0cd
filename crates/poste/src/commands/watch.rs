use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use poste_core::log::MessageNo;
use poste_core::text::{Label, RecordId};
use poste_dispatch::notify::{self, Line, Retried, WatchOptions, Watcher, What, commands};
use poste_verbs::watch::{dead, drop as drop_letter, list, status};
use schemars::JsonSchema;
use serde::Serialize;

use super::tail::has_reader;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Paint, Ui, escape};
use crate::{Result, notes};

/// Send notifications for the [[on]] rules
///
/// Reads the rules of poste.toml and .poste/local.toml, and runs until it is interrupted. Any number of watchers can
/// run next to each other and next to the dispatcher: one at a time handles a rule, and each message keeps its
/// idempotency key. Acts as `dispatcher` unless a name is given.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  poste watch\n  poste watch --once\n  poste watch --rule pager --json\n  poste watch status\n  \
                  poste watch test pager\n  poste watch dead\n  poste watch retry pager"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<WatchCommand>,
    /// Send the notifications that are due now, then exit
    #[arg(long)]
    once: bool,
    /// Only this rule; may be repeated
    #[arg(long, value_name = "NAME")]
    rule: Vec<Label>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
}

#[derive(Debug, clap::Subcommand)]
enum WatchCommand {
    /// List the rules and whether each may run here
    #[command(after_help = "Example:\n  poste watch list")]
    List,
    /// Show the progress and dead letters of each rule
    #[command(after_help = "Example:\n  poste watch status --json")]
    Status,
    /// List notifications that could not be sent
    #[command(after_help = "Examples:\n  poste watch dead\n  poste watch dead pager")]
    Dead {
        /// Only notifications of this rule
        rule: Option<Label>,
        /// Maximum number of notifications
        #[arg(long, default_value_t = dead::LIMIT_DEFAULT, value_parser = clap::value_parser!(u16).range(1..=i64::from(dead::LIMIT_MAX)))]
        limit: u16,
    },
    /// Retry failed notifications
    #[command(after_help = "Examples:\n  poste watch retry pager\n  poste watch retry pager 12 15")]
    Retry {
        /// Name of the rule
        rule: Label,
        /// Messages to retry; otherwise all that failed
        #[arg(value_parser = crate::cli::number)]
        numbers: Vec<MessageNo>,
        /// How long to wait for another process that handles the rule
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
        wait: Duration,
    },
    /// Give up on a failed notification
    #[command(after_help = "Example:\n  poste watch drop pager 12 --as anna")]
    Drop {
        /// Name of the rule
        rule: Label,
        /// Message number
        #[arg(value_parser = crate::cli::number)]
        number: MessageNo,
        /// Idempotency key: repeating the command with it is safe
        #[arg(long, value_name = "ID")]
        id: Option<RecordId>,
    },
    /// Send a test notification, without recording it
    #[command(after_help = "Example:\n  poste watch test pager")]
    Test {
        /// Name of the rule
        rule: Label,
    },
}

impl Answer for Line {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let (paint, what) = match self.what {
            What::Begun => (Paint::Good, "started"),
            What::Told => (Paint::Good, "sent"),
            What::Failed => (Paint::Attention, "failed"),
            What::Dead => (Paint::Bad, "DEAD"),
            What::Lost => (Paint::Attention, "lost"),
            What::Untrusted => (Paint::Attention, "untrusted"),
            What::Problem => (Paint::Bad, "problem"),
        };
        let rule = self.rule.as_ref().map_or("-", Label::as_str);
        let by = self.handler.as_ref().map(|handler| format!(" ({handler})")).unwrap_or_default();
        let message = self.message.map(|message| format!("  #{message}")).unwrap_or_default();
        let attempt = self.attempt.filter(|attempt| *attempt > 1 || self.what != What::Told);
        let attempt = attempt.map(|attempt| format!(", attempt {attempt}")).unwrap_or_default();
        let why = self.why.as_ref().map(|why| format!(": {}", escape::line(why))).unwrap_or_default();
        let next = self.next().map(|next| format!("; {}", notes::text(ui, &next))).unwrap_or_default();
        let at = &self.at.to_string()[11..19];
        writeln!(out, "{at}  {}  {rule}{by}{message}{attempt}{why}{next}", ui.paint(paint, what))
    }
}

impl Answer for list::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.rules.iter().map(|rule| {
            let state = match (rule.runs, &rule.missing) {
                (false, _) => ui.paint(Paint::Attention, "untrusted"),
                (true, Some(missing)) => ui.paint(Paint::Bad, &escape::line(missing)),
                (true, None) => ui.paint(Paint::Good, "runs"),
            };
            vec![rule.rule.to_string(), rule.handler.clone(), format!("{}:{}", rule.file, rule.line), state]
        });
        ui.lines(out, &["RULE", "HANDLER", "WHERE", "STATE"], rows.collect())
    }
}

impl Answer for status::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.rules.iter().map(|rule| {
            let handler = rule.handler.clone().unwrap_or_else(|| "(in no file)".to_owned());
            let Some(seen) = &rule.seen_to else {
                return vec![
                    rule.rule.to_string(),
                    handler,
                    "not handled yet".to_owned(),
                    String::new(),
                    String::new(),
                ];
            };
            let holder = match &seen.holder {
                Some(holder) => format!("handled by {} until {}", holder.agent, ui.time(holder.until)),
                None => "idle".to_owned(),
            };
            let dead = match seen.dead {
                0 => String::new(),
                dead => ui.paint(Paint::Bad, &format!("{dead} dead")),
            };
            let behind = ui::count(usize::try_from(seen.behind).unwrap_or(usize::MAX), "message");
            vec![rule.rule.to_string(), handler, holder, format!("{behind} since record {}", seen.cursor), dead]
        });
        ui.lines(out, &["RULE", "HANDLER", "NOW", "CURSOR", "DEAD"], rows.collect())
    }
}

impl Answer for dead::Answer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.letters.iter().map(|letter| {
            let error = letter.error.as_deref().unwrap_or("(redacted)");
            vec![
                letter.rule.to_string(),
                format!("#{}", letter.message),
                ui.time(letter.at),
                ui::count(letter.attempts as usize, "attempt"),
                escape::line(&letter.subject).into_owned(),
                escape::line(error).into_owned(),
            ]
        });
        ui.lines(out, &["RULE", "#", "GIVEN UP", "TRIED", "SUBJECT", "WHY"], rows.collect())
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RetryAnswer {
    pub retried: Vec<Retried>,
}

impl Answer for RetryAnswer {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        for one in &self.retried {
            let what = match &one.error {
                None => ui.paint(Paint::Good, "sent"),
                Some(why) => format!("{}: {}", ui.paint(Paint::Bad, "failed"), escape::line(why)),
            };
            writeln!(out, "{}  #{}  {what}", one.rule, one.message)?;
        }
        Ok(())
    }
}

impl Answer for drop_letter::Answer {
    fn print(&self, _: &Ui, out: &mut dyn Write) -> io::Result<()> {
        let message = self.message.map(|message| format!(" #{message}")).unwrap_or_default();
        writeln!(out, "{}{message}: {}", self.rule, self.what)
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    match args.command {
        None if args.once => once(cx, args.rule),
        None => watch(cx, args.rule, args.length),
        Some(WatchCommand::List) => rules(cx),
        Some(WatchCommand::Status) => cx.call(status::Input {}),
        Some(WatchCommand::Dead { rule, limit }) => cx.call(dead::Input { rule, limit }),
        Some(WatchCommand::Retry { rule, numbers, wait }) => retry(cx, &rule, &numbers, wait),
        Some(WatchCommand::Drop { rule, number, id }) => cx.call(drop_letter::Input { rule, number, id }),
        Some(WatchCommand::Test { rule }) => cx.ui.answer(&commands::test(&cx.place()?, &rule)?),
    }
}

fn options(cx: &mut Cx, only: Vec<Label>) -> Result<(WatchOptions, mpsc::Receiver<Line>)> {
    let (_, known) = cx.call_verb_here(list::Input { rules: only.clone() })?;
    if known.answer.rules.is_empty() {
        return Err(CommandError::not_found(
            "there are no rules: neither poste.toml nor .poste/local.toml has an [[on]] section",
        )
        .hint("to write one, see docs/handlers.md"));
    }
    let (lines, received) = mpsc::channel();
    let report = Arc::new(move |line: &Line| drop(lines.send(line.clone())));
    Ok((
        WatchOptions { place: cx.place()?, speaker: cx.optional_speaker(), only, carrier: cx.carrier(), report },
        received,
    ))
}

fn once(cx: &mut Cx, only: Vec<Label>) -> Result {
    let (options, lines) = options(cx, only)?;
    let ended = notify::catch_up(&options);
    drop(options);
    let mut dead = 0;
    for line in lines {
        dead += usize::from(line.what == What::Dead);
        cx.ui.answer(&line)?;
    }
    ended?;
    if dead > 0 {
        let message = format!("{} could not be sent", ui::count(dead, "notification"));
        return Err(CommandError::new(Kind::Unhealthy, message).code("untold").hint("see why: poste watch dead"));
    }
    Ok(())
}

/// How often to check for a reader and for signals.
const PERIOD: Duration = Duration::from_millis(100);

/// A flag that is set by the signals that would end this process, so that it releases its rules first.
fn stop_on_signals() -> Result<Arc<AtomicBool>> {
    poste_run::mark_signals_handled();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| CommandError::new(Kind::Internal, format!("signals: {error}")))?;
    }
    Ok(stop)
}

fn watch(cx: &mut Cx, only: Vec<Label>, length: Option<Duration>) -> Result {
    let (options, lines) = options(cx, only)?;
    let stop = stop_on_signals()?;
    let watcher = Watcher::start(options)?;
    cx.ui.say("watching; interrupt to stop");
    let started = Instant::now();
    let mut printed = Ok(());
    while !stop.load(Ordering::Relaxed)
        && !watcher.is_over()
        && length.is_none_or(|length| started.elapsed() < length)
        && has_reader()
    {
        if let Ok(line) = lines.recv_timeout(PERIOD) {
            printed = cx.ui.answer(&line);
            if printed.is_err() {
                break;
            }
        }
    }
    watcher.stop()?;
    printed?;
    for line in lines.try_iter() {
        cx.ui.answer(&line)?;
    }
    Ok(())
}

/// Lists the rules, with the secrets that this process would not find.
fn rules(cx: &mut Cx) -> Result {
    let (mut office, mut listed) = cx.call_verb_here(list::Input::default())?;
    let folder = office.path()?.parent().map(ToOwned::to_owned).unwrap_or_default();
    for rule in &mut listed.answer.rules {
        rule.missing = notify::unusable_secret(&rule.config, &folder);
    }
    cx.show(&mut office, listed)
}

fn retry(cx: &mut Cx, rule: &Label, numbers: &[MessageNo], wait: Duration) -> Result {
    let stop = stop_on_signals()?;
    let retried = commands::retry(&cx.place()?, &cx.carrier(), rule, numbers, wait, &stop)?;
    cx.note_stored(format!("the outcome of {}", ui::count(retried.len(), "message")));
    let failed = retried.iter().filter(|one| !one.told).count();
    if retried.is_empty() {
        cx.ui.say("no failed notifications");
    }
    cx.ui.answer(&RetryAnswer { retried })?;
    let untold = |message| Err(CommandError::new(Kind::Unhealthy, message).code("untold"));
    if stop.load(Ordering::Relaxed) {
        return untold("interrupted: the rest was not retried".to_owned());
    }
    match failed {
        0 => Ok(()),
        _ => untold(format!("{} could not be sent", ui::count(failed, "notification"))),
    }
}
