use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use poste_core::office::Office;
use poste_core::store::Interest;
use poste_core::text::Topic;
use poste_core::views::TimelineLine;
use poste_core::{Position, Timestamp};
use poste_verbs::{Error, tail};

use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::ui::{Answer, Ui, escape};

/// Follow an inbox, a topic or the whole log
///
/// Acting as an agent, it follows the inbox of that agent, otherwise the log. Each line is one event, or one JSON
/// object with --json. It marks nothing as shown.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  poste tail --as coder\n  poste tail --topic TaskCompleted\n  poste tail --log --after 0 --for 5s"
)]
pub(crate) struct Args {
    /// Follow this topic
    #[arg(long, conflicts_with = "log")]
    topic: Option<Topic>,
    /// Follow the whole log
    #[arg(long)]
    log: bool,
    /// Start after this log position; otherwise now
    #[arg(long, value_name = "POSITION", value_parser = crate::cli::position)]
    after: Option<Position>,
    /// Stop after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    length: Option<Duration>,
}

impl Answer for TimelineLine {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}  {}  {}", self.position, clock_time(ui, self.at), escape::line(&self.what))
    }
}

/// In a running stream, "2 minutes ago" would soon be wrong.
fn clock_time(ui: &Ui, at: Timestamp) -> String {
    match ui.time_style {
        crate::ui::time::TimeStyle::Relative => at.to_string()[11..19].to_owned(),
        _ => ui.time(at),
    }
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    follow(cx, tail::Input { topic: args.topic, log: args.log, after: args.after }, args.length)
}

/// `log follow`: the whole log.
pub(crate) fn follow_log(cx: &mut Cx, after: Option<Position>, length: Option<Duration>) -> Result {
    follow(cx, tail::Input { topic: None, log: true, after }, length)
}

fn follow(cx: &mut Cx, mut input: tail::Input, length: Option<Duration>) -> Result {
    let mut office = cx.open()?;
    let started = Instant::now();
    let mut damage = BTreeSet::new();
    // An inbox changes with mail for its agent; a topic or the log can change with any record.
    let interest = match (&input.topic, input.log, cx.optional_speaker()) {
        (None, false, Some(speaker)) => Interest::mail(&speaker),
        _ => Interest::everything(),
    };
    loop {
        let left = length.map(|length| length.saturating_sub(started.elapsed()));
        let period = left.unwrap_or(READER_PERIOD).min(READER_PERIOD);
        cx.wait(&mut office, &interest, Some(period), |office| {
            print_new(cx, office, &mut input, &mut damage)?;
            Ok(None::<()>)
        })?;
        if left.is_some_and(|left| left <= READER_PERIOD) || !has_reader() {
            return if damage.is_empty() { Ok(()) } else { Err(Error::damaged().into()) };
        }
    }
}

/// How often to check for a reader: only a write would show that it is gone, and there may be none for days.
const READER_PERIOD: Duration = Duration::from_millis(500);

/// Whether stdout still has a reader: that of a pipe may have closed it.
pub(crate) fn has_reader() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stdout = io::stdout();
    let mut polled = [PollFd::new(&stdout, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut polled, Some(&now)) {
        Ok(_) => !polled[0].revents().intersects(PollFlags::ERR | PollFlags::HUP),
        Err(_) => true,
    }
}

/// Prints what happened since the last call, and warns about each damage once.
fn print_new(cx: &Cx, office: &mut Office, input: &mut tail::Input, damage: &mut BTreeSet<String>) -> Result {
    loop {
        let page = cx.call_verb(office, input.clone())?.answer;
        page.lines.iter().try_for_each(|line| cx.ui.answer(line))?;
        for why in page.damage {
            if !damage.contains(&why) {
                cx.ui.warn(&why);
                damage.insert(why);
            }
        }
        input.after = Some(page.cursor);
        if !page.more {
            return Ok(());
        }
    }
}
