//! The output of a dispatcher while it runs, and its final summary.

use std::io::{self, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use poste_config::Runners;
use poste_core::log::RunOutcome;
use poste_core::office::{Office, Place};
use poste_core::text::Name;
use poste_core::time::length;
use poste_dispatch::engine::{self, Event, Left, Picture, Report, Stopper, Tally, went_well};

use super::dispatch::{HEADER, for_what, held_text, later_text, rows};
use crate::Result;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Paint, Ui, escape};

/// Minimum time between two redraws of the live picture.
const DRAWN_PERIOD: Duration = Duration::from_millis(100);
const SEE_WHY: &str = "see why: poste dispatch runs, poste dispatch logs RUN";

/// Prints the events of a dispatcher, and below them a picture that is redrawn in place.
#[derive(Debug)]
pub(super) struct Screen {
    ui: Ui,
    only: Vec<Name>,
    pub is_live: bool,
    /// Only holds and trouble are printed: the command prints the outcome itself.
    pub is_quiet: bool,
    picture: Option<Picture>,
    /// Lines of the picture on the terminal.
    drawn: usize,
    drawn_at: Option<Instant>,
    tally: Tally,
    /// The first error of printing.
    failed: Option<CommandError>,
}

impl Screen {
    pub(super) fn new(ui: &Ui, only: &[Name]) -> Self {
        Self {
            ui: ui.clone(),
            only: only.to_vec(),
            is_live: false,
            is_quiet: false,
            picture: None,
            drawn: 0,
            drawn_at: None,
            tally: Tally::default(),
            failed: None,
        }
    }

    /// Prints what a dispatcher reports. Returns when it has to report again to keep the picture up to date.
    pub(super) fn hear(&mut self, report: Report<'_>) -> Option<Duration> {
        let (printed, again) = match report {
            Report::Event(event) => (self.happened(&event), None),
            Report::Looked(office, runners) => match self.look(office, runners) {
                Ok(again) => (Ok(()), again),
                Err(error) => (Err(error), None),
            },
        };
        if let Err(error) = printed {
            self.failed.get_or_insert(error);
        }
        again
    }

    fn happened(&mut self, event: &Event) -> Result {
        self.tally.count(event);
        match self.is_quiet && !matches!(event, Event::Held { .. } | Event::Trouble { .. }) {
            true => Ok(()),
            false => self.put(Some(event)),
        }
    }

    fn look(&mut self, office: &Office, runners: &Runners) -> Result<Option<Duration>> {
        self.ui.now = office.now()?;
        if !self.is_live {
            return Ok(None);
        }
        if self.drawn_at.is_some_and(|at| at.elapsed() < DRAWN_PERIOD) {
            return Ok(Some(DRAWN_PERIOD));
        }
        self.drawn_at = Some(Instant::now());
        self.picture = Some(engine::picture(office, runners, &self.only)?);
        self.put(None)?;
        Ok(None)
    }

    /// Prints the summary. With --once, a failure or a hold is an error, for the exit code.
    pub(super) fn finish(mut self, place: &Place, once: bool) -> Result {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let Tally { started, ended, failed, stopped, held, .. } = self.tally;
        let mut said = format!("{} started", ui::count(started, "run"));
        if started > 0 {
            said.push_str(&format!(", {} succeeded", ended - failed - stopped));
        }
        for (count, what) in [(failed, "failed"), (stopped, "stopped"), (held, "held")] {
            if count > 0 {
                said.push_str(&format!(", {count} {what}"));
            }
        }
        if started > ended {
            said.push_str(&format!(", {} still running", started - ended));
        }
        self.ui.say(said);
        let left = self.left(place);
        for later in left.iter().filter(|_| once).flat_map(|left| &left.later) {
            let why = later_text(&self.ui, later);
            self.ui.say(format!("#{} waits for {}: {why}", later.message, later.agent));
        }
        for name in left.iter().flat_map(|left| &left.kept) {
            self.ui.say(format!("{name} is resident and keeps running; stop it: poste team stop {name}"));
        }
        match once {
            true => self.all_is_well(&left?),
            false => {
                self.went_wrong().into_iter().for_each(|wrong| self.ui.warn(format!("{wrong}; {SEE_WHY}")));
                Ok(())
            }
        }
    }

    fn left(&self, place: &Place) -> Result<Left> {
        let office = poste_config::open(place)?;
        Ok(engine::left(&office, &poste_config::runners(&office)?, &self.only)?)
    }

    /// Failures of the runs started here.
    fn went_wrong(&self) -> Vec<String> {
        let counted = [(self.tally.failed, "failed"), (self.tally.not_started, "could not be started")].into_iter();
        counted
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{} {what}", ui::count(count, "run")))
            .collect()
    }

    fn all_is_well(&self, left: &Left) -> Result {
        let mut wrong = self.went_wrong();
        let mut hints: Vec<&str> = wrong.first().map(|_| SEE_WHY).into_iter().collect();
        if !left.held.is_empty() {
            let names: Vec<&str> = left.held.iter().map(Name::as_str).collect();
            wrong.push(format!("mail is held for {}", names.join(", ")));
            hints.push("see what is held: poste dispatch status");
        }
        if self.tally.untold > 0 {
            wrong.push(format!("notifications failed for {}", ui::count(self.tally.untold, "message")));
            hints.push("see why: poste watch dead");
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let error = CommandError::new(Kind::Unhealthy, wrong.join("; ")).code("not_all_well");
        Err(hints.into_iter().fold(error, CommandError::hint))
    }

    fn put(&mut self, event: Option<&Event>) -> Result {
        if !self.is_live {
            return event.map_or(Ok(()), |event| self.ui.answer(event));
        }
        let mut screen = Vec::new();
        if self.drawn > 0 {
            // Move up to the first line of the picture and clear from there.
            write!(screen, "\x1b[{}F\x1b[0J", self.drawn)?;
        }
        if let Some(event) = event {
            event.print(&self.ui, &mut screen)?;
        }
        let mut picture = Vec::new();
        if let Some(found) = &self.picture {
            draw(&self.ui, found, &mut picture)?;
        }
        self.drawn = picture.iter().filter(|byte| **byte == b'\n').count();
        screen.extend(picture);
        let mut out = self.ui.out();
        out.write_all(&screen)?;
        out.flush()?;
        Ok(())
    }
}

/// Draws at most as many lines as the terminal has: more could not be redrawn in place.
fn draw(ui: &Ui, picture: &Picture, out: &mut Vec<u8>) -> io::Result<()> {
    const AROUND: usize = 4;
    const USUAL: usize = 24;
    let high = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    let high = if high == 0 { USUAL } else { high };
    let room = high.saturating_sub(AROUND).max(1);
    let mut rows = rows(ui, picture);
    // Active agents come first, so that they stay visible.
    rows.sort_by_key(|row| row.get(2).is_some_and(|what| what == "-"));
    let hidden = rows.len().saturating_sub(room);
    rows.truncate(room);
    let title = format!("{} of {} places taken", picture.taken, picture.places);
    writeln!(out, "{}", ui.paint(Paint::Strong, &title))?;
    ui.lines(out, &HEADER, rows)?;
    if hidden > 0 {
        writeln!(out, "and {hidden} more")?;
    }
    Ok(())
}

impl Answer for Event {
    fn print(&self, ui: &Ui, out: &mut dyn Write) -> io::Result<()> {
        match self {
            Self::Started { agent, messages, .. } => writeln!(out, "{agent} started {}", for_what(messages)),
            Self::Ended { agent, messages, how, code, took_ms, undone, .. } => {
                let went_well = went_well(*how, *code, undone);
                let took = length(i64::try_from(*took_ms).unwrap_or(i64::MAX));
                let word = match how {
                    _ if went_well => ui.paint(Paint::Good, "ended"),
                    RunOutcome::Stopped => ui.paint(Paint::Bad, "stopped"),
                    _ => ui.paint(Paint::Bad, "failed"),
                };
                let how = match (how, code) {
                    _ if went_well => String::new(),
                    (RunOutcome::Stopped, _) => String::new(),
                    (RunOutcome::Exited, Some(0)) => " (exit code 0 without a result)".to_owned(),
                    (RunOutcome::Exited, Some(code)) => format!(" (exit code {code})"),
                    (RunOutcome::Signalled, Some(signal)) => format!(" (signal {signal})"),
                    (how, _) => format!(" ({how})"),
                };
                writeln!(out, "{agent} {word} {} after {took}{how}", for_what(messages))
            }
            Self::NotTaken { agent, messages } => {
                writeln!(out, "{agent} not started {}: already claimed", for_what(messages))
            }
            Self::CouldNotRun { agent, messages, reason } => {
                let word = ui.paint(Paint::Bad, "could not be started");
                writeln!(out, "{agent} {word} {}: {}", for_what(messages), escape::line(reason))
            }
            Self::Held { hold, .. } => writeln!(out, "{} {}", ui.paint(Paint::Bad, "held"), held_text(ui, hold)),
            Self::Resumed { agent } => writeln!(out, "{agent} can be started again: its hold no longer applies"),
            Self::Registered { agent } => writeln!(out, "{agent} registered: poste.toml has a runner for it"),
            Self::Watched { line } => line.print(ui, out),
            Self::Lost { run } => writeln!(out, "run {run} lost its supervisor; its remaining processes were ended"),
            Self::Trouble { text } => writeln!(out, "{} {}", ui.paint(Paint::Bad, "trouble:"), escape::line(text)),
        }
    }
}

/// SIGINT and SIGTERM ask the dispatcher to stop; the second one stops its runs, too.
pub(super) fn on_signals(stopper: &Stopper, stops_runs: bool, is_silent: bool) -> Result {
    let (mut heard, rings) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, rings.try_clone()?)?;
    }
    let stopper = stopper.clone();
    std::thread::spawn(move || {
        let mut byte = [0];
        let mut times = 0;
        while heard.read_exact(&mut byte).is_ok() {
            times += 1;
            stopper.ask();
            let said = match (times, stops_runs) {
                (1, false) => "nothing more is started; waiting for active runs. Press Ctrl-C again to stop them",
                (1, true) | (2, false) => "stopping active runs",
                // The dispatcher hangs, so end it: supervisors do not need it.
                _ => {
                    let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGINT);
                    return;
                }
            };
            if !is_silent {
                ui::talk(said);
            }
        }
    });
    Ok(())
}
