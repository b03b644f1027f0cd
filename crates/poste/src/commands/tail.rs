use std::collections::BTreeSet;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use poste_core::office::{Office, head};
use poste_core::text::Topic;
use poste_core::views::{self, TimelineLine};
use poste_core::{Position, Timestamp};

use crate::Result;
use crate::cli::duration;
use crate::context::Cx;
use crate::error::CommandError;
use crate::ui::{Answer, Ui, escape};

/// Follow an inbox, a topic or the whole log; marks nothing as shown
///
/// With a speaker it follows that inbox, otherwise the log. Each line is one event; --json gives one object a line.
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
    /// Start after this position; otherwise now
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

/// In a stream that goes on, "2 minutes ago" would soon be wrong.
fn clock_time(ui: &Ui, at: Timestamp) -> String {
    match ui.time_style {
        crate::ui::time::TimeStyle::Relative => at.to_string()[11..19].to_owned(),
        _ => ui.time(at),
    }
}

/// Whose news to follow.
enum Follow {
    Inbox(poste_core::text::Name),
    Topic(Topic),
    Log,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let mut office = cx.open()?;
    let follow = match (args.topic, args.log, cx.optional_speaker()) {
        (Some(topic), ..) => Follow::Topic(topic),
        (None, false, Some(_)) => Follow::Inbox(cx.agent(&office)?.name),
        _ => Follow::Log,
    };
    follow_from(cx, &mut office, &follow, args.after, args.length)
}

/// `log follow`: the whole log.
pub(crate) fn follow_log(cx: &mut Cx, after: Option<Position>, length: Option<Duration>) -> Result {
    let mut office = cx.open()?;
    follow_from(cx, &mut office, &Follow::Log, after, length)
}

fn follow_from(
    cx: &Cx,
    office: &mut Office,
    follow: &Follow,
    after: Option<Position>,
    length: Option<Duration>,
) -> Result {
    let mut cursor = match after {
        Some(after) => after,
        None => head(office.store())?,
    };
    super::wait::check_cursor(office, cursor)?;
    let ui = cx.ui.clone();
    let started = Instant::now();
    let mut damage = BTreeSet::new();
    loop {
        let left = length.map(|length| length.saturating_sub(started.elapsed()));
        let mut failed = None;
        office.wait_for(Some(left.unwrap_or(READER_PERIOD).min(READER_PERIOD)), |office| {
            if let Err(error) = print_new(&ui, office, follow, &mut cursor, &mut damage) {
                failed = Some(error);
                return Ok(Some(()));
            }
            Ok(None)
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if left.is_some_and(|left| left <= READER_PERIOD) || !has_reader() {
            return if damage.is_empty() { Ok(()) } else { Err(CommandError::damaged()) };
        }
    }
}

/// How often it is asked whether anybody still reads: a write would tell, and there may be none for days.
const READER_PERIOD: Duration = Duration::from_millis(500);

/// Whether somebody can still read stdout: a pipe's reader may have seen enough and gone.
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

fn print_new(
    ui: &Ui,
    office: &Office,
    follow: &Follow,
    cursor: &mut Position,
    damage: &mut BTreeSet<String>,
) -> Result {
    const PAGE: usize = 500;
    loop {
        let lines = views::timeline(office.store(), *cursor, PAGE)?;
        for line in &lines {
            let wanted = match follow {
                Follow::Log => true,
                Follow::Topic(topic) => line.topic.as_ref() == Some(topic),
                Follow::Inbox(name) => line.recipients.iter().any(|recipient| recipient == name.as_str()),
            };
            if wanted {
                ui.answer(line)?;
            }
            // Told whether it is wanted or not: to whom it went may be among what cannot be read.
            if let Some(why) = line.unreadable.as_ref().filter(|why| !damage.contains(*why)) {
                ui.warn(why);
                damage.insert(why.clone());
            }
            *cursor = line.position;
        }
        if lines.len() < PAGE {
            return Ok(());
        }
    }
}
