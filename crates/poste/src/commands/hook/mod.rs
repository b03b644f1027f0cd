//! `poste hook`: what agent programs run at the turns of a session, so that mail reaches it without being asked for.
//!
//! A hook must never harm the session it serves: it ends with 0 whatever happens, prints what the program understands or
//! nothing, and is fast when nothing is new.

mod bind;
mod broken;
mod end;
mod news;
mod start;
mod stop;
mod wait;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use poste_config::{ConfigFile, Value, read_config};
use poste_connect::hook::{self, Event, Moment, Reply};
use poste_core::Timestamp;
use poste_core::log::MessageNo;
use poste_core::office::{Office, head};
use poste_core::store::schema::Schema;
use poste_core::store::tables::Agent;
use poste_core::store::{discover, last_rung};
use poste_core::text::{Name, Session};
use poste_core::views;
use poste_verbs::live::{Live, Told};
use poste_verbs::program::Program;
use poste_verbs::session::bind::{Binding, Standing};
use schemars::JsonSchema;
use serde::Serialize;

use crate::Result;
use crate::cli::Global;
use crate::context::{Cx, Mark, clock};
use crate::error::{CommandError, Kind, exit_code};
use crate::identity::Identity;

/// Serve a session of an agent program, at one of its turns
///
/// Agent programs run it; `poste setup` tells them to. The program's JSON comes on stdin, and what is printed is JSON as that
/// program takes it: mail that is new and urgent enough, or nothing. `stop` keeps a session from stopping while it holds work.
/// `wait` waits in the background and ends with exit code 2 to wake an idle session. No other hook ever fails.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  poste hook session-start --program claude-code < event.json\n  \
                        poste hook tool --program gemini < event.json\n  \
                        echo '{\"session_id\":\"s1\"}' | poste hook stop --program codex")]
pub(crate) struct Args {
    /// session-start, prompt, tool, stop, session-end or wait
    #[arg(value_name = "EVENT")]
    moment: Moment,
    /// claude-code, codex, gemini, opencode or cursor
    #[arg(long)]
    program: Program,
}

/// What the program is told. Every program has a shape of its own for it, which is what is printed.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(transparent)]
pub(crate) struct HookAnswer(
    #[allow(dead_code, reason = "only its schema is asked for")] serde_json::Map<String, serde_json::Value>,
);

/// The office is not waited for longer: a session stands still meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);
/// A look is made at least so often: a writer may die between its commit and the bell, and then only looking tells.
const LOOK_AGAIN_MS: i64 = 60_000;
/// What falls due and could not be settled is not asked for at every tool.
const LOOK_AGAIN_MS_MIN: i64 = 1_000;
/// More new messages than any budget holds.
const NEWS_MAX: usize = 50;

/// One run of a hook.
#[derive(Debug)]
struct Call {
    schema: Schema,
    moment: Moment,
    program: Program,
    event: Event,
    /// The `.poste` folder.
    office: PathBuf,
    /// The program's own name for its session.
    session: Session,
    /// One answer is all that a program reads, whatever goes wrong after it.
    printed: Cell<bool>,
}

pub(crate) fn run(cx: &mut Cx, args: Args) -> Result {
    let code = attend(cx.schema(), args.moment, args.program, cx.explicit_office());
    if code == wait::WAKE {
        #[expect(clippy::exit, reason = "it is no failure, so it is not told as one")]
        std::process::exit(i32::from(code));
    }
    Ok(())
}

/// The command as set-up writes it, without describing any argument to the parser of arguments: that alone takes longer than
/// finding out that there is nothing to say. `None`: it was typed in another way.
pub(crate) fn plainly(arguments: &[OsString], schema: Schema) -> Option<ExitCode> {
    let words: Vec<&str> = arguments.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    let ["hook", moment, "--program", program] = words.as_slice() else { return None };
    let (moment, program) = (moment.parse().ok()?, program.parse().ok()?);
    let office = std::env::var_os("POSTE_HOME").filter(|path| !path.is_empty()).map(PathBuf::from);
    Some(ExitCode::from(attend(schema, moment, program, office)))
}

/// The exit code a command ends with. Agent programs take 2 of a hook for "do not let it": what is wrong with a command line, or
/// with the environment, must not keep a session from anything.
pub(crate) fn harmless(arguments: &[OsString], code: u8) -> u8 {
    let is_hook = arguments.get(1).is_some_and(|word| word == "hook");
    if is_hook && code == exit_code(Kind::Usage) { exit_code(Kind::Internal) } else { code }
}

fn attend(schema: Schema, moment: Moment, program: Program, office: Option<PathBuf>) -> u8 {
    let event = hook::read(io::stdin().lock());
    let office = office.or_else(|| found_from(program, &event));
    let (Some(office), Some(session)) = (office, event.session.clone()) else {
        let _ = hook::written(program, moment, &event, &Reply::Nothing).map(|line| print(&line));
        return 0;
    };
    let call = Call { schema, moment, program, event, office, session, printed: Cell::new(false) };
    if moment == Moment::Wait {
        return wait::run(&call);
    }
    if !call.has_nothing_new()
        && let Err(error) = call.serve()
    {
        broken::tell(&call, &error);
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
fn print(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

impl Call {
    /// Whether looking would find nothing, as far as two small files tell: no record came since the last look, and the next one
    /// is not due. Sound because the bell is rung after every commit with its position. Whoever dies in between leaves it at
    /// an older one; the next commit rings it, and [`LOOK_AGAIN_MS`] bounds how long nobody looks.
    fn has_nothing_new(&self) -> bool {
        if !matches!(self.moment, Moment::Prompt | Moment::Tool) {
            return false;
        }
        let Some(live) = self.live() else { return false };
        let Ok(now) = clock().map(|clock| clock.wall()) else { return false };
        let told = &live.told;
        let rests = told.unmarked.is_empty() && (told.holds == 0 || self.moment == Moment::Tool);
        let heard = told.looked_until.is_some_and(|until| last_rung(&self.office).is_some_and(|rung| rung <= until));
        // A moment further ahead than any was ever written is of a clock that was set back.
        let in_time = told.look_again_at.is_some_and(|at| now < at && at <= now.plus_ms(LOOK_AGAIN_MS));
        rests && heard && in_time
    }

    /// What is known of the run that this session of the program is.
    fn live(&self) -> Option<Live> {
        let live = Live::load(&self.office, &self.session)?;
        match &live.runs_as {
            Some(run) => Live::load(&self.office, run),
            None => Some(live),
        }
    }

    fn cx(&self, own: Option<(&Name, &Session)>) -> Result<Cx> {
        self.cx_within(PATIENCE, own)
    }

    fn cx_within(&self, patience: Duration, own: Option<(&Name, &Session)>) -> Result<Cx> {
        let global = Global {
            speaker: own.map(|(agent, _)| agent.clone()),
            session: own.map(|(_, session)| session.clone()),
            office: Some(self.office.clone()),
            lock_timeout: Some(patience),
            ..Global::default()
        };
        Cx::new(global, "hook", self.schema)
    }

    fn serve(&self) -> Result {
        if self.moment == Moment::SessionEnd {
            return end::end(self);
        }
        let mut cx = self.cx(None)?;
        let mut office = cx.open()?;
        let binding = bind::bind(&cx, &mut office, self)?;
        if binding.session != self.session {
            change(self, &self.session, |live| {
                live.runs_as = Some(binding.session.clone());
                Ok(())
            })?;
        }
        let reply = change(self, &binding.session, |live| self.serve_as(&mut cx, &mut office, &binding, live))?;
        self.say(&reply)?;
        if matches!(self.moment, Moment::Prompt | Moment::Stop) {
            // Whoever sent something may have died before it rang. Where no dispatcher runs, turns of sessions come by instead.
            let _ = cx.carrier().ring_owed(&office, &BTreeSet::new());
        }
        if self.moment == Moment::SessionStart {
            let live = views::live_sessions(office.store())?;
            // What is left this time is found the next time.
            let _ = Live::sweep(&self.office, &live);
        }
        Ok(())
    }

    /// What is still to be said once it is kept what the session was told.
    fn serve_as(&self, cx: &mut Cx, office: &mut Office, binding: &Binding, live: &mut Live) -> Result<Reply> {
        if self.moment == Moment::SessionStart || live.process.is_none() {
            live.reach = bind::reach(self);
            live.program = Some(self.program);
            live.process = binding.process.clone();
        }
        let was = live.agent.take();
        let Standing::Bound(bound) = &binding.standing else {
            return self.serve_unbound(cx, office, binding, live, was);
        };
        let agent = &bound.agent;
        live.agent = Some(agent.name.clone());
        *cx = self.cx(Some((&agent.name, &binding.session)))?;
        cx.ui.now = office.now()?;
        self.mark_late(cx, office, &mut live.told);
        let own = Identity { agent: Some(agent.name.clone()), session: Some(binding.session.clone()) };
        // A lease that cannot be extended now can be at the next hook; what there is to say must not wait for it.
        let half_over = cx.with_desk(office, |desk| desk.extend_held()).unwrap_or_default();
        let mut reply = Reply::Nothing;
        match self.moment {
            Moment::SessionStart => {
                let text = start::text(cx, office, self, binding, bound, &mut live.told)?;
                bind::tell_shell(&agent.name, &binding.session);
                self.say(&Reply::Context(text))?;
            }
            Moment::Prompt | Moment::Tool => {
                if self.moment == Moment::Prompt && self.event.prompt.as_deref().is_some_and(stop::is_new_work) {
                    live.told.holds = 0;
                }
                // A helper of the session has a context of its own: what it is told, the session never sees.
                if hook::takes_context(self.program, self.moment) && !self.event.in_subagent {
                    self.tell_news(cx, office, agent, &binding.session, &mut live.told)?;
                }
            }
            // Said only once it is kept how often: where nothing can be kept, it would be said for ever.
            _ => reply = stop::reply(office, self, agent, &own, cx, &mut live.told)?,
        }
        self.plan_next_look(office, half_over, &mut live.told)?;
        Ok(reply)
    }

    /// A session that speaks for nobody is told so when it starts, and when that changes.
    fn serve_unbound(
        &self,
        cx: &Cx,
        office: &Office,
        binding: &Binding,
        live: &mut Live,
        was: Option<Name>,
    ) -> Result<Reply> {
        if !hook::takes_context(self.program, self.moment) {
            // It is told at the next moment that takes a text, which looks again because nothing was looked at here.
            live.agent = was;
            return Ok(Reply::Nothing);
        }
        let is_news = self.moment == Moment::SessionStart || live.told.looked_until.is_none() || was.is_some();
        live.told = Told { looked_until: Some(head(office.store())?), ..Told::default() };
        self.plan_next_look(office, None, &mut live.told)?;
        if let Some(text) = start::unbound_text(cx, self, binding).filter(|_| is_news) {
            self.say(&Reply::Context(text))?;
        }
        Ok(Reply::Nothing)
    }

    fn tell_news(&self, cx: &Cx, office: &mut Office, agent: &Agent, session: &Session, told: &mut Told) -> Result {
        let found = news::look(office, agent, session, told)?;
        let budget = self.budget("turn_tokens");
        let said = news::compose(cx, agent, &found.messages, budget);
        if let Some(text) = &said.text {
            self.say(&Reply::Context(text.clone()))?;
        }
        // Only now: what was not printed is not marked, and whoever dies here shows it again.
        told.unmarked.extend(said.shown.iter().copied());
        self.mark_late(cx, office, told);
        told.listed.extend(said.listed.iter().copied());
        if said.left == 0 && found.cursor.is_some() {
            told.looked_until = found.cursor;
            told.addresses = agent.addresses();
        }
        Ok(())
    }

    /// Marks what was put before the session and could not be marked yet.
    fn mark_late(&self, cx: &Cx, office: &mut Office, told: &mut Told) {
        let numbers: Vec<MessageNo> = told.unmarked.iter().copied().collect();
        if !numbers.is_empty() && cx.confirm(office, vec![Mark::Shown(numbers)]).is_ok() {
            told.unmarked = BTreeSet::new();
        }
    }

    /// The first thing that is said is all.
    fn say(&self, reply: &Reply) -> Result {
        if self.printed.get() {
            return Ok(());
        }
        let Some(line) = hook::written(self.program, self.moment, &self.event, reply) else { return Ok(()) };
        self.printed.set(true);
        Ok(print(&line)?)
    }

    /// When to look again whatever the bell says. On the wall clock, since that is what the next hook asks first.
    fn plan_next_look(&self, office: &Office, half_over: Option<Timestamp>, told: &mut Told) -> Result {
        let now = office.now()?;
        let due = [half_over, views::next_due(office.store())?];
        let in_ms = due.into_iter().flatten().map(|at| at.since_ms(now).max(LOOK_AGAIN_MS_MIN)).min();
        let in_ms = in_ms.unwrap_or(LOOK_AGAIN_MS).min(LOOK_AGAIN_MS);
        told.look_again_at = Some(clock()?.wall().plus_ms(in_ms));
        Ok(())
    }

    /// How many tokens a text may cost.
    fn budget(&self, key: &str) -> usize {
        let count = setting(&self.office, "hooks", key).and_then(|value| value.count()).unwrap_or(0);
        usize::try_from(count).unwrap_or(usize::MAX)
    }
}

/// What the files of an office say about the sessions here. One that cannot be read is others' to complain about.
fn setting(office: &Path, section: &str, key: &str) -> Option<Value> {
    let read = |path: &Path| read_config(path).ok().flatten();
    let file = read(&office.with_file_name(poste_config::FILE)).map(|text| ConfigFile::check(&text).0);
    let local = read(&office.join(poste_config::LOCAL_FILE)).map(|text| poste_config::read_local(&text).0);
    file.unwrap_or_default().machine_value(&local.unwrap_or_default(), section, key)
}

/// What this machine knows of a session, while nobody else changes it.
fn change<T>(call: &Call, session: &Session, change: impl FnOnce(&mut Live) -> Result<T>) -> Result<T> {
    let changed = Live::change_within(&call.office, session, PATIENCE, |live| change(live).map_err(Trouble::Told));
    changed.map_err(|trouble| match trouble {
        Trouble::Told(error) => error,
        Trouble::Kept(error) if error.kind() == io::ErrorKind::WouldBlock => {
            CommandError::new(Kind::Busy, "another hook of this session has not ended")
        }
        Trouble::Kept(error) => unkept(call, &error),
    })
}

fn unkept(call: &Call, error: &io::Error) -> CommandError {
    let folder = call.office.join(poste_verbs::live::FOLDER);
    let message = format!("what a session was told cannot be kept in {}: {error}", folder.display());
    CommandError::new(Kind::Internal, message)
}

/// What may go wrong while something is told and remembered.
enum Trouble {
    Told(CommandError),
    Kept(io::Error),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Kept(error)
    }
}
