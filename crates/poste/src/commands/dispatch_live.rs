//! What a dispatcher brings along from the command line: how it starts supervisors, and how people see what it does.

use std::collections::BTreeSet;
use std::io::{self, Read as _, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use poste_config::{Mode, Runners};
use poste_core::log::{MessageNo, RunOutcome};
use poste_core::office::{Office, Place};
use poste_core::text::{Name, Session};
use poste_core::time::length;
use poste_core::views::WhyLater;
use poste_dispatch::engine::{self, AgentPicture, AgentState, Event, Hooks, Picture, Stopper};
use poste_dispatch::notify::{Line, WatchOptions, Watcher, What};
use poste_dispatch::{run, team};
use poste_verbs::actions::Carrier;
use poste_verbs::workflow;

use super::dispatch::{DRAWN_PERIOD, HEADER, for_what, held_text, later_text, rows};
use crate::Result;
use crate::context::Cx;
use crate::error::{CommandError, Kind};
use crate::ui::{self, Answer, Paint, Ui, escape};

#[derive(Debug)]
pub(super) struct Desk<'c> {
    cx: &'c Cx,
    ui: Ui,
    program: PathBuf,
    office: PathBuf,
    only: Vec<Name>,
    /// The picture is drawn, and drawn again in the same place.
    pub is_live: bool,
    picture: Option<Picture>,
    /// Lines of the picture on the terminal.
    drawn: usize,
    drawn_at: Option<Instant>,
    counts: Counts,
    /// Nobody reads what it prints.
    failed: Option<CommandError>,
    /// What the rules of this machine tell.
    lines: Option<mpsc::Receiver<Line>>,
    /// Whoever asked wants only what comes of it.
    pub is_silent: bool,
    /// What workflows wait for, as far as it was told.
    waiting: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Counts {
    started: usize,
    ended: usize,
    failed: usize,
    stopped: usize,
    held: usize,
    untold: usize,
    not_started: usize,
}

const SEE_WHY: &str = "see why: poste dispatch runs, poste dispatch logs RUN";

/// Whether a run did what it was started for.
fn went_well(how: RunOutcome, code: Option<u8>, undone: &[MessageNo]) -> bool {
    how == RunOutcome::Exited && code == Some(0) && undone.is_empty()
}

/// Agents, as a dispatcher leaves them.
struct Left {
    /// Their programs go on without it.
    kept: Vec<Name>,
    /// They are to be started for something, and are not before somebody lets it go or a time is over.
    held: Vec<Name>,
    /// What comes back by itself, in words.
    later: Vec<String>,
}

impl<'c> Desk<'c> {
    pub(super) fn new(cx: &'c Cx, office: &Path, only: Vec<Name>) -> Result<Self> {
        Ok(Self {
            cx,
            ui: cx.ui.clone(),
            program: std::env::current_exe()?,
            office: office.canonicalize()?,
            only,
            is_live: false,
            picture: None,
            drawn: 0,
            drawn_at: None,
            counts: Counts::default(),
            failed: None,
            lines: None,
            is_silent: false,
            waiting: BTreeSet::new(),
        })
    }

    /// It acts in nobody's name, so everybody may be rung.
    pub(super) fn carrier(&self) -> Carrier {
        Carrier { program: Some(self.program.clone()), caller: None, session: None }
    }

    /// Sees to the rules of this machine that tell people of mail, beside whoever else does.
    pub(super) fn watch(&mut self, place: &Place) -> Result<Watcher> {
        let (lines, received) = mpsc::channel();
        self.lines = Some(received);
        let report = Arc::new(move |line: &Line| drop(lines.send(line.clone())));
        Ok(Watcher::start(WatchOptions {
            place: place.clone(),
            speaker: None,
            only: Vec::new(),
            carrier: self.carrier(),
            report,
        })?)
    }

    /// Sees to the rules once, in this way.
    pub(super) fn rules(
        &mut self,
        see_to: impl Fn(&WatchOptions) -> std::result::Result<(), poste_core::Error>,
    ) -> Result {
        let (lines, received) = mpsc::channel();
        let report = Arc::new(move |line: &Line| drop(lines.send(line.clone())));
        let options =
            WatchOptions { place: self.cx.place()?, speaker: None, only: Vec::new(), carrier: self.carrier(), report };
        let ended = see_to(&options);
        drop(options);
        received.into_iter().for_each(|line| self.tell(&Event::Watched { line }));
        Ok(ended?)
    }

    /// The last word. Whoever started it once is told by the code, too, whether all is well.
    pub(super) fn finish(&mut self, once: bool) -> Result {
        if let Some(failed) = self.failed.take() {
            return Err(failed);
        }
        let Counts { started, ended, failed, stopped, held, .. } = self.counts;
        let mut said = format!("{} started", ui::count(started, "run"));
        if started > 0 {
            said.push_str(&format!(", {} ended well", ended - failed - stopped));
        }
        for (count, what) in [(failed, "failed"), (stopped, "stopped"), (held, "held")] {
            if count > 0 {
                said.push_str(&format!(", {count} {what}"));
            }
        }
        if started > ended {
            said.push_str(&format!(", {} still under way", started - ended));
        }
        self.ui.say(said);
        let left = self.left();
        if once {
            left.iter().flat_map(|left| &left.later).for_each(|later| self.ui.say(later));
        }
        for name in left.iter().flat_map(|left| &left.kept) {
            self.ui.say(format!("{name} is kept running, also without this; end it: poste team stop {name}"));
        }
        match once {
            true => self.all_is_well(&left?),
            false => {
                self.went_wrong().into_iter().for_each(|wrong| self.ui.warn(format!("{wrong}; {SEE_WHY}")));
                Ok(())
            }
        }
    }

    fn left(&self) -> Result<Left> {
        let office = self.cx.place()?.open()?;
        let runners = poste_config::runners(&office)?;
        let picture = engine::picture(&office, &runners, &self.only)?;
        let is_resident = |name: &Name| runners.agents.get(name).is_some_and(|config| config.mode == Mode::Resident);
        let is_kept = |agent: &&AgentPicture| {
            matches!(agent.state, AgentState::Running | AgentState::Restarting) && is_resident(&agent.agent)
        };
        let holds_mail = |agent: &&AgentPicture| {
            let is_held = agent.holds.iter().any(|hold| hold.message.is_none());
            is_held && agent.queue > 0 || agent.later.iter().any(|later| later.why == WhyLater::Held)
        };
        let name = |agent: &AgentPicture| agent.agent.clone();
        // Of each the first; what is held is told otherwise.
        let first = |agent: &AgentPicture| agent.later.iter().find(|later| later.until.is_some()).cloned();
        let later = picture.agents.iter().filter_map(first);
        Ok(Left {
            later: later
                .map(|later| format!("#{} waits for {}: {}", later.message, later.agent, later_text(&self.ui, &later)))
                .collect(),
            kept: picture.agents.iter().filter(is_kept).map(name).collect(),
            held: picture.agents.iter().filter(holds_mail).map(name).collect(),
        })
    }

    /// Of what was started here.
    fn went_wrong(&self) -> Vec<String> {
        let Counts { failed, not_started, .. } = self.counts;
        let counted = [(failed, "failed"), (not_started, "could not be started")].into_iter();
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
        if self.counts.untold > 0 {
            wrong.push(format!("{} could not be told", ui::count(self.counts.untold, "message")));
            hints.push("see why: poste watch dead");
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let error = CommandError::new(Kind::Unhealthy, wrong.join("; ")).code("not_all_well");
        Err(hints.into_iter().fold(error, CommandError::hint))
    }

    fn count(&mut self, event: &Event) {
        match event {
            Event::Started { .. } => self.counts.started += 1,
            Event::Ended { how, code, undone, .. } => {
                self.counts.ended += 1;
                match how {
                    RunOutcome::Stopped => self.counts.stopped += 1,
                    _ => self.counts.failed += usize::from(!went_well(*how, *code, undone)),
                }
            }
            // Nothing came of the start.
            Event::NotTaken { .. } => self.counts.started = self.counts.started.saturating_sub(1),
            Event::CouldNotRun { .. } => {
                self.counts.started = self.counts.started.saturating_sub(1);
                self.counts.not_started += 1;
            }
            Event::Held { .. } => self.counts.held += 1,
            Event::Watched { line } => self.counts.untold += usize::from(line.what == What::Dead),
            _ => {}
        }
    }

    fn put(&mut self, event: Option<&Event>) -> Result {
        if !self.is_live {
            return event.map_or(Ok(()), |event| self.ui.answer(event));
        }
        let mut screen = Vec::new();
        if self.drawn > 0 {
            // Up to the first line of the picture, and everything from there is gone.
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

    fn note(&mut self, put: Result) {
        if let Err(error) = put {
            self.failed.get_or_insert(error);
        }
    }
}

/// No longer than the terminal is high, or it could not be drawn over.
fn draw(ui: &Ui, picture: &Picture, out: &mut Vec<u8>) -> io::Result<()> {
    const AROUND: usize = 4;
    const USUAL: usize = 24;
    let high = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_row));
    let high = if high == 0 { USUAL } else { high };
    let room = high.saturating_sub(AROUND).max(1);
    let mut rows = rows(ui, picture);
    // Those who do something stay in sight.
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

impl Hooks for Desk<'_> {
    fn supervisor(&mut self, agent: &Name, messages: &[MessageNo]) -> Command {
        run::supervisor(&self.program, &self.office, agent, messages)
    }

    fn sweep(&mut self, office: &mut Office) -> std::result::Result<Vec<Session>, poste_core::Error> {
        // Within a run, what is swept up may be this very process.
        match std::env::var_os(run::RUN) {
            Some(_) => Ok(Vec::new()),
            None => {
                let lost = run::sweep(office, None)?.lost;
                team::alerts(office)?;
                Ok(lost)
            }
        }
    }

    fn advance(&mut self, office: &mut Office) -> std::result::Result<bool, poste_core::Error> {
        let advanced = workflow::advance(office)?;
        for text in advanced.waiting {
            // It is met at every look, and told once.
            if self.waiting.insert(text.clone()) {
                self.tell(&Event::Trouble { text });
            }
        }
        Ok(advanced.records > 0)
    }

    fn ring(&mut self, agent: &Name, _: &[MessageNo]) {
        // If it cannot be rung, its mail is there when it looks.
        let _ = self.carrier().ring_agent(&self.office, agent);
    }

    fn tell(&mut self, event: &Event) {
        self.count(event);
        if !self.is_silent || matches!(event, Event::Held { .. } | Event::Trouble { .. }) {
            let put = self.put(Some(event));
            self.note(put);
        }
    }

    fn show(&mut self, office: &Office, runners: &Runners) -> std::result::Result<Option<Duration>, poste_core::Error> {
        self.ui.now = office.now()?;
        let lines: Vec<Line> = self.lines.iter().flat_map(mpsc::Receiver::try_iter).collect();
        lines.into_iter().for_each(|line| self.tell(&Event::Watched { line }));
        if !self.is_live {
            return Ok(None);
        }
        if self.drawn_at.is_some_and(|at| at.elapsed() < DRAWN_PERIOD) {
            return Ok(Some(DRAWN_PERIOD));
        }
        self.drawn_at = Some(Instant::now());
        self.picture = Some(engine::picture(office, runners, &self.only)?);
        let put = self.put(None);
        self.note(put);
        Ok(None)
    }
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
                    (RunOutcome::Exited, Some(0)) => " (it ended with 0, and left it undone)".to_owned(),
                    (RunOutcome::Exited, Some(code)) => format!(" (exit code {code})"),
                    (RunOutcome::Signalled, Some(signal)) => format!(" (signal {signal})"),
                    (how, _) => format!(" ({how})"),
                };
                writeln!(out, "{agent} {word} {} after {took}{how}", for_what(messages))
            }
            Self::NotTaken { agent, messages } => {
                writeln!(out, "{agent} not started {}: somebody else has it", for_what(messages))
            }
            Self::CouldNotRun { agent, messages, reason } => {
                let word = ui.paint(Paint::Bad, "could not be started");
                writeln!(out, "{agent} {word} {}: {}", for_what(messages), escape::line(reason))
            }
            Self::Held { hold, .. } => writeln!(out, "{} {}", ui.paint(Paint::Bad, "held"), held_text(ui, hold)),
            Self::Resumed { agent } => writeln!(out, "{agent} can be started again: what it was held for is over"),
            Self::Registered { agent } => writeln!(out, "{agent} registered, as poste.toml runs something for it"),
            Self::Watched { line } => line.print(ui, out),
            Self::Lost { run } => writeln!(out, "run {run} lost its supervisor; what was left of it was ended"),
            Self::Trouble { text } => writeln!(out, "{} {}", ui.paint(Paint::Bad, "trouble:"), escape::line(text)),
        }
    }
}

/// Ctrl-C and its like ask the dispatcher to stop; the second time they stop what it started.
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
                (1, false) => "nothing more is started; what runs goes on to its end. Ctrl-C again stops it",
                (1, true) | (2, false) => "what runs is stopped",
                // It does not end for whatever reason; supervisors need nobody.
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
