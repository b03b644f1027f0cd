//! What agent programs run at the turns of a session, so that mail reaches it without being asked for.
//!
//! A hook must never harm the session it serves: it ends with 0 whatever happens, prints what the program understands or
//! nothing, and is fast when nothing is new.

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
use poste_core::store::{discover, last_rung};
use poste_core::text::{Name, Session};
use poste_core::views;
use poste_verbs::live::{Live, Told};
use poste_verbs::program::Program;
use poste_verbs::session::Identity;
use poste_verbs::session::bind::{Binding, Standing};
use poste_verbs::{Error, Kind, Mark, Result};

use super::{Event, Moment, Reply, bind, broken, end, news, start, stop, takes_context, wait, written};
use crate::station::{Opened, Station};

/// The office is not waited for longer: a session stands still meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// A look is made at least so often: a writer may die between its commit and the bell, and then only looking tells.
const LOOK_AGAIN_MS: i64 = 60_000;
/// What falls due and could not be settled is not asked for at every tool.
const LOOK_AGAIN_MS_MIN: i64 = 1_000;
/// More new messages than any budget holds.
pub(super) const NEWS_MAX: usize = 50;

/// Where a hook is heard: the program reads `out`, people read `err`.
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
    /// The program's own name for its session.
    pub session: Session,
    streams: RefCell<Streams>,
    /// One answer is all that a program reads, whatever goes wrong after it.
    printed: Cell<bool>,
}

/// Serves one turn of a session, of which `input` tells, and says the exit code. `office`: the one that was named. Where there is no
/// station, the session is told why.
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

/// The office of the project that the session was begun in. An agent may go elsewhere in its course; only where no project was
/// told of is it the office of the folder it is in now.
fn found_from(program: Program, event: &Event) -> Option<PathBuf> {
    let project = program.project_variable().and_then(std::env::var_os).map(PathBuf::from);
    let here = || event.cwd.clone().or_else(|| std::env::current_dir().ok());
    let found = project.filter(|path| path.is_absolute()).and_then(|project| discover::find(&project));
    found.or_else(|| discover::find(&here()?))
}

/// It is out when this returns.
fn print(streams: &mut Streams, line: &str) -> io::Result<()> {
    writeln!(streams.out, "{line}")?;
    streams.out.flush()
}

impl Call {
    /// Whether looking would find nothing, as far as two small files tell: no record came since the last look, and the next one
    /// is not due. Sound because the bell is rung after every commit with its position. Whoever dies in between leaves it at
    /// an older one; the next commit rings it, and [`LOOK_AGAIN_MS`] bounds how long nobody looks.
    fn has_nothing_new(&self, now: Timestamp) -> bool {
        if !matches!(self.moment, Moment::Prompt | Moment::Tool) {
            return false;
        }
        let Some(live) = self.live() else { return false };
        let told = &live.told;
        let rests = told.unmarked.is_empty() && (told.holds == 0 || self.moment == Moment::Tool);
        let heard = told.looked_until.is_some_and(|until| last_rung(&self.office).is_some_and(|rung| rung <= until));
        // A moment further ahead than any was ever written is of a clock that was set back.
        let in_time = told.look_again_at.is_some_and(|at| now < at && at <= now.plus_ms(LOOK_AGAIN_MS));
        rests && heard && in_time
    }

    /// What is known of the run that this session of the program is.
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
            // Whoever sent something may have died before it rang. Where no dispatcher runs, turns of sessions come by instead.
            let desk = open.desk();
            let _ = desk.carrier().ring_owed(desk.office, |_, _| false);
        }
        if self.moment == Moment::SessionStart {
            let live = views::live_sessions(open.office.store())?;
            // What is left this time is found the next time.
            let _ = Live::sweep(&self.office, &live);
        }
        Ok(())
    }

    /// What is still to be said once it is kept what the session was told.
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
        open.speak_as(&own);
        self.mark_late(open, &mut live.told);
        // A lease that cannot be extended now can be at the next hook; what there is to say must not wait for it.
        let half_over = open.desk().extend_held().unwrap_or_default();
        let mut reply = Reply::Nothing;
        match self.moment {
            Moment::SessionStart => {
                let text = start::text(&open.office, self, binding, bound, &mut live.told)?;
                bind::tell_shell(&agent.name, &binding.session);
                self.say(&Reply::Context(text))?;
            }
            Moment::Prompt | Moment::Tool => {
                if self.moment == Moment::Prompt && self.event.prompt.as_deref().is_some_and(stop::is_new_work) {
                    live.told.holds = 0;
                }
                // A helper of the session has a context of its own: what it is told, the session never sees.
                if takes_context(self.program, self.moment) && !self.event.in_subagent {
                    self.tell_news(open, agent, &binding.session, &mut live.told)?;
                }
            }
            // Said only once it is kept how often: where nothing can be kept, it would be said for ever.
            _ => reply = stop::reply(&open.office, self, agent, &own, &mut live.told)?,
        }
        plan_next_look(&open.office, half_over, &mut live.told)?;
        Ok(reply)
    }

    /// A session that speaks for nobody is told so when it starts, and when that changes.
    fn serve_unbound(&self, office: &Office, binding: &Binding, live: &mut Live, was: Option<Name>) -> Result<Reply> {
        if !takes_context(self.program, self.moment) {
            // It is told at the next moment that takes a text, which looks again because nothing was looked at here.
            live.agent = was;
            return Ok(Reply::Nothing);
        }
        let is_news = self.moment == Moment::SessionStart || live.told.looked_until.is_none() || was.is_some();
        live.told = Told { looked_until: Some(head(office.store())?), ..Told::default() };
        plan_next_look(office, None, &mut live.told)?;
        if let Some(text) = start::unbound_text(self, binding, office.now()?).filter(|_| is_news) {
            self.say(&Reply::Context(text))?;
        }
        Ok(Reply::Nothing)
    }

    fn tell_news(&self, open: &mut Opened, agent: &Agent, session: &Session, told: &mut Told) -> Result {
        let found = news::look(&open.office, agent, session, told)?;
        let budget = self.budget("turn_tokens");
        let said = news::compose(&open.desk().host.ids, agent, &found.messages, budget);
        if let Some(text) = &said.text {
            self.say(&Reply::Context(text.clone()))?;
        }
        // Only now: what was not printed is not marked, and whoever dies here shows it again.
        told.unmarked.extend(said.shown.iter().copied());
        self.mark_late(open, told);
        told.listed.extend(said.listed.iter().copied());
        if said.left == 0 && found.cursor.is_some() {
            told.looked_until = found.cursor;
            told.addresses = agent.addresses();
        }
        Ok(())
    }

    /// Marks what was put before the session and could not be marked yet.
    fn mark_late(&self, open: &mut Opened, told: &mut Told) {
        let numbers: Vec<MessageNo> = told.unmarked.iter().copied().collect();
        if !numbers.is_empty() && open.desk().confirm(vec![Mark::Shown(numbers)]).is_ok() {
            told.unmarked = BTreeSet::new();
        }
    }

    /// The first thing that is said is all.
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

    /// Something for people. That nobody can hear it changes nothing.
    pub(super) fn talk(&self, line: &str) {
        let _ = writeln!(self.streams.borrow_mut().err, "{line}");
    }

    /// How many tokens a text may cost.
    pub(super) fn budget(&self, key: &str) -> usize {
        let count = setting(&self.office, "hooks", key).and_then(|value| value.count()).unwrap_or(0);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// When to look again whatever the bell says. On the wall clock, since that is what the next hook asks first.
fn plan_next_look(office: &Office, half_over: Option<Timestamp>, told: &mut Told) -> Result {
    let now = office.now()?;
    let due = [half_over, views::next_due(office.store())?];
    let in_ms = due.into_iter().flatten().map(|at| at.since_ms(now).max(LOOK_AGAIN_MS_MIN)).min();
    let in_ms = in_ms.unwrap_or(LOOK_AGAIN_MS).min(LOOK_AGAIN_MS);
    told.look_again_at = Some(office.wall().plus_ms(in_ms));
    Ok(())
}

/// What the files of an office say about the sessions here. One that cannot be read is others' to complain about.
pub(super) fn setting(office: &Path, section: &str, key: &str) -> Option<Value> {
    let read = |path: &Path| read_config(path).ok().flatten();
    let file = read(&office.with_file_name(poste_config::FILE)).map(|text| ConfigFile::check(&text).0);
    let local = read(&office.join(poste_config::LOCAL_FILE)).map(|text| poste_config::read_local(&text).0);
    file.unwrap_or_default().machine_value(&local.unwrap_or_default(), section, key)
}

/// What this machine knows of a session, while nobody else changes it.
pub(super) fn change<T>(call: &Call, session: &Session, change: impl FnOnce(&mut Live) -> Result<T>) -> Result<T> {
    let changed = Live::change_within(&call.office, session, PATIENCE, |live| change(live).map_err(Trouble::Told));
    changed.map_err(|trouble| match trouble {
        Trouble::Told(error) => error,
        Trouble::Kept(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Error::new(Kind::Busy, "another hook of this session has not ended")
        }
        Trouble::Kept(error) => unkept(call, &error),
    })
}

pub(super) fn unkept(call: &Call, error: &io::Error) -> Error {
    let folder = call.office.join(poste_verbs::live::FOLDER);
    let message = format!("what a session was told cannot be kept in {}: {error}", folder.display());
    Error::internal(message)
}

/// What may go wrong while something is told and remembered.
enum Trouble {
    Told(Error),
    Kept(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Kept(error)
    }
}
