//! Runs one hook of a session, so that mail reaches the session without being asked for.
//!
//! A hook must never harm the session it serves: it exits with 0 whatever happens, prints what the program understands
//! or nothing, and is fast when nothing is new.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use poste_config::{ConfigFile, Value, read_config};
use poste_core::Timestamp;
use poste_core::log::MessageNo;
use poste_core::office::{Office, head};
use poste_core::store::tables::Agent;
use poste_core::store::{Folder, discover, last_rung};
use poste_core::text::{Name, Session};
use poste_core::views;
use poste_verbs::live::{Announced, Live};
use poste_verbs::program::Program;
use poste_verbs::session::Identity;
use poste_verbs::session::bind::{Binding, Standing};
use poste_verbs::{Error, Kind, Mark, Result};

use super::{Event, Moment, Reply, bind, broken, end, news, start, stop, takes_context, wait, written};
use crate::station::{Opened, Station};

/// Maximum wait for a busy office: the session is blocked during it.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum time between looks: a writer may die between its commit and the bell, and then only a look finds its mail.
const LOOK_AGAIN_MS: i64 = 60_000;
/// Minimum time between looks: something due that could not be settled must not cause a look at every tool call.
const LOOK_AGAIN_MS_MIN: i64 = 1_000;
/// More new messages than any budget holds.
pub(super) const NEWS_MAX: usize = 50;

/// The output of a hook: the program reads `out`, people read `err`.
pub struct Streams {
    pub out: Box<dyn Write>,
    pub err: Box<dyn Write>,
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Streams").finish_non_exhaustive()
    }
}

/// One run of a hook.
#[derive(Debug)]
pub(super) struct Call {
    pub moment: Moment,
    pub program: Program,
    pub event: Event,
    /// The `.poste` folder.
    pub office: PathBuf,
    /// The program's own id of the session.
    pub session: Session,
    streams: RefCell<Streams>,
    /// A program reads only one answer, whatever goes wrong after it.
    printed: Cell<bool>,
}

/// Serves the event that `input` describes, and returns the exit code. `office` is the one that was named. If `station`
/// is an error, the session is told why.
pub fn attend(
    moment: Moment,
    program: Program,
    office: Option<PathBuf>,
    station: Result<Station>,
    input: impl Read,
    mut streams: Streams,
) -> u8 {
    let event = super::read(input);
    let office = office.or_else(|| found_from(program, &event));
    let (Some(office), Some(session)) = (office, event.session.clone()) else {
        let _ = written(program, moment, &event, &Reply::Nothing).map(|line| print(&mut streams, &line));
        return 0;
    };
    let (streams, printed) = (RefCell::new(streams), Cell::new(false));
    let call = Call { moment, program, event, office, session, streams, printed };
    match station {
        Ok(station) => {
            let station = Station { office: Some(call.office.clone()), lock_timeout: PATIENCE, ..station };
            if moment == Moment::Wait {
                return wait::run(&station, &call);
            }
            if let Err(error) = call.serve(&station) {
                let hint = error.hints.first().map(|hint| station.shell_text(hint));
                broken::tell(&call, &error, hint.as_deref());
            }
        }
        Err(error) if moment != Moment::Wait => broken::tell(&call, &error, None),
        Err(_) => {}
    }
    let _ = call.say(&Reply::Nothing);
    0
}

/// The office of the project that the session was started in, because an agent may change its folder. The current
/// folder counts only if the program names no project with an office.
fn found_from(program: Program, event: &Event) -> Option<PathBuf> {
    let project = program.project_variable().and_then(std::env::var_os).map(PathBuf::from);
    let here = || event.cwd.clone().or_else(|| std::env::current_dir().ok());
    let found = project.filter(|path| path.is_absolute()).and_then(|project| discover::find(&project));
    found.or_else(|| discover::find(&here()?))
}

/// Prints a line and flushes it.
fn print(streams: &mut Streams, line: &str) -> io::Result<()> {
    writeln!(streams.out, "{line}")?;
    streams.out.flush()
}

impl Call {
    /// Whether two small files show that a look would find nothing: no record since the last look, and the next look is
    /// not due. This is sound because every commit rings the bell with its position. If a writer dies in between, the
    /// bell is late until the next commit; [`LOOK_AGAIN_MS`] bounds that.
    fn has_nothing_new(&self, now: Timestamp) -> bool {
        if !matches!(self.moment, Moment::Prompt | Moment::Tool) {
            return false;
        }
        let Some(live) = self.live() else { return false };
        let told = &live.told;
        let rests = told.unmarked.is_empty() && (told.holds == 0 || self.moment == Moment::Tool);
        let rung = || last_rung(&Folder::open(&self.office).ok()?);
        let heard = told.looked_until.is_some_and(|until| rung().is_some_and(|rung| rung <= until));
        // A time further ahead than any that is written means that the clock was set back.
        let in_time = told.look_again_at.is_some_and(|at| now < at && at <= now.plus_ms(LOOK_AGAIN_MS));
        rests && heard && in_time
    }

    /// The live record of this session, under the id it has in the office.
    pub(super) fn live(&self) -> Option<Live> {
        let live = Live::load(&self.office, &self.session)?;
        match &live.runs_as {
            Some(run) => Live::load(&self.office, run),
            None => Some(live),
        }
    }

    fn serve(&self, station: &Station) -> Result {
        if self.has_nothing_new(station.clock.wall()) {
            return Ok(());
        }
        if self.moment == Moment::SessionEnd {
            return end::end(station, self);
        }
        let mut open = station.open()?;
        open.office.settle()?;
        open.desk().carry_out();
        let binding = bind::bind(&mut open, self)?;
        if binding.session != self.session {
            change(self, &self.session, |live| {
                live.runs_as = Some(binding.session.clone());
                Ok(())
            })?;
        }
        let reply = change(self, &binding.session, |live| self.serve_as(&mut open, &binding, live))?;
        self.say(&reply)?;
        if matches!(self.moment, Moment::Prompt | Moment::Stop) {
            // A sender may have died before it rang. Without a dispatcher, hooks ring instead.
            let desk = open.desk();
            let _ = desk.carrier().ring_owed(desk.office, |_, _| false);
        }
        if self.moment == Moment::SessionStart {
            let live = views::live_sessions(open.office.store())?;
            // What cannot be removed now is found next time.
            let _ = Live::sweep(&self.office, &live);
        }
        Ok(())
    }

    /// Returns what may be printed only after `live` was saved.
    fn serve_as(&self, open: &mut Opened, binding: &Binding, live: &mut Live) -> Result<Reply> {
        if self.moment == Moment::SessionStart || live.process.is_none() {
            live.reach = bind::reach(self);
            live.program = Some(self.program);
            live.process = binding.process.clone();
        }
        let was = live.agent.take();
        let Standing::Bound(bound) = &binding.standing else {
            return self.serve_unbound(&open.office, binding, live, was);
        };
        let agent = &bound.agent;
        live.agent = Some(agent.name.clone());
        let own = Identity { agent: Some(agent.name.clone()), session: Some(binding.session.clone()) };
        open.act_as(&own);
        self.mark_late(open, &mut live.told);
        // The next hook tries again to extend a lease; what this one prints must not wait for that.
        let half_over = open.desk().extend_held().unwrap_or_default();
        let mut reply = Reply::Nothing;
        match self.moment {
            Moment::SessionStart => {
                let text = start::text(&open.office, self, binding, bound, &mut live.told)?;
                bind::tell_shell(self, &agent.name, &binding.session);
                self.say(&Reply::Context(text))?;
            }
            Moment::Prompt | Moment::Tool => {
                if self.moment == Moment::Prompt && self.event.prompt.as_deref().is_some_and(stop::is_new_work) {
                    live.told.holds = 0;
                }
                // A subagent has its own context: the session would never see what is printed there.
                if takes_context(self.program, self.moment) && !self.event.in_subagent {
                    self.tell_news(open, agent, &binding.session, &mut live.told)?;
                }
            }
            // Printed only after the count was saved: if it cannot be saved, this would repeat forever.
            _ => reply = stop::reply(&open.office, self, agent, &own, &mut live.told)?,
        }
        plan_next_look(&open.office, half_over, &mut live.told)?;
        Ok(reply)
    }

    /// Tells a session that it is not bound, when it starts and when that changes.
    fn serve_unbound(&self, office: &Office, binding: &Binding, live: &mut Live, was: Option<Name>) -> Result<Reply> {
        if !takes_context(self.program, self.moment) {
            // The next moment that takes text tells it: that one looks again, because nothing was looked at here.
            live.agent = was;
            return Ok(Reply::Nothing);
        }
        let is_news = self.moment == Moment::SessionStart || live.told.looked_until.is_none() || was.is_some();
        live.told = Announced { looked_until: Some(head(office.store())?), ..Announced::default() };
        plan_next_look(office, None, &mut live.told)?;
        if let Some(text) = start::unbound_text(self, binding, office.now()?).filter(|_| is_news) {
            self.say(&Reply::Context(text))?;
        }
        Ok(Reply::Nothing)
    }

    fn tell_news(&self, open: &mut Opened, agent: &Agent, session: &Session, told: &mut Announced) -> Result {
        let found = news::look(&open.office, agent, session, told)?;
        let budget = self.budget("turn_tokens");
        let said = news::compose(&open.desk().host.ids, agent, &found.messages, budget);
        if let Some(text) = &said.text {
            self.say(&Reply::Context(text.clone()))?;
        }
        // Mark only what was printed. If the hook dies here, the next one prints it again.
        told.unmarked.extend(said.shown.iter().copied());
        self.mark_late(open, told);
        told.listed.extend(said.listed.iter().copied());
        if said.left == 0 && found.cursor.is_some() {
            told.looked_until = found.cursor;
            told.addresses = agent.addresses();
        }
        Ok(())
    }

    /// Marks as shown what was printed and could not be marked before.
    fn mark_late(&self, open: &mut Opened, told: &mut Announced) {
        let numbers: Vec<MessageNo> = told.unmarked.iter().copied().collect();
        if !numbers.is_empty() && open.desk().confirm(vec![Mark::Shown(numbers)]).is_ok() {
            told.unmarked = BTreeSet::new();
        }
    }

    /// Prints a reply, unless one was printed before.
    pub(super) fn say(&self, reply: &Reply) -> Result {
        if self.printed.get() {
            return Ok(());
        }
        let Some(line) = written(self.program, self.moment, &self.event, reply) else { return Ok(()) };
        self.printed.set(true);
        print(&mut self.streams.borrow_mut(), &line).map_err(|error| Error::internal(error.to_string()))
    }

    pub(super) fn has_printed(&self) -> bool {
        self.printed.get()
    }

    /// Prints a line for people. Failing to print it changes nothing.
    pub(super) fn print_for_people(&self, line: &str) {
        let _ = writeln!(self.streams.borrow_mut().err, "{line}");
    }

    /// Maximum number of tokens of a text.
    pub(super) fn budget(&self, key: &str) -> usize {
        let count = setting(&self.office, "hooks", key).and_then(|value| value.count()).unwrap_or(0);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// Plans the next look, whatever the bell says. In wall-clock time, because that is what the next hook checks first.
fn plan_next_look(office: &Office, half_over: Option<Timestamp>, told: &mut Announced) -> Result {
    let now = office.now()?;
    let due = [half_over, views::next_due(office.store())?];
    let in_ms = due.into_iter().flatten().map(|at| at.since_ms(now).max(LOOK_AGAIN_MS_MIN)).min();
    let in_ms = in_ms.unwrap_or(LOOK_AGAIN_MS).min(LOOK_AGAIN_MS);
    told.look_again_at = Some(office.wall().plus_ms(in_ms));
    Ok(())
}

/// A setting from the files of an office. Files that cannot be read are ignored: other commands report them.
pub(super) fn setting(office: &Path, section: &str, key: &str) -> Option<Value> {
    let read = |path: &Path| read_config(path).ok().flatten();
    let file = read(&office.with_file_name(poste_config::FILE)).map(|text| ConfigFile::check(&text).0);
    let local = read(&office.join(poste_config::LOCAL_FILE)).map(|text| poste_config::read_local(&text).0);
    file.unwrap_or_default().machine_value(&local.unwrap_or_default(), section, key)
}

/// Changes the live record of a session, under its lock.
pub(super) fn change<T>(call: &Call, session: &Session, change: impl FnOnce(&mut Live) -> Result<T>) -> Result<T> {
    let changed =
        Live::change_within(&call.office, session, PATIENCE, |live| change(live).map_err(ChangeError::Change));
    changed.map_err(|error| match error {
        ChangeError::Change(error) => error,
        ChangeError::Storage(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Error::new(Kind::Busy, "another hook of this session is still running")
        }
        ChangeError::Storage(error) => cannot_save(call, &error),
    })
}

pub(super) fn cannot_save(call: &Call, error: &io::Error) -> Error {
    let folder = call.office.join(poste_verbs::live::FOLDER);
    let message = format!("cannot save the state of a session in {}: {error}", folder.display());
    Error::internal(message)
}

/// An error of the change itself, or of reading and saving the record.
enum ChangeError {
    Change(Error),
    Storage(io::Error),
}

impl From<io::Error> for ChangeError {
    fn from(error: io::Error) -> Self {
        Self::Storage(error)
    }
}
