//! What a command works with: the office, the speaker, the clock, fresh ids.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ColorChoice;
use poste_core::Timestamp;
use poste_core::fold::{Effect, Outcome};
use poste_core::log::{Author, Content, Intent, MessageNo, Proposal, Via};
use poste_core::office::{Office, Place};
use poste_core::store::artifact::Worktree;
use poste_core::store::clock::{Boot, Clock, SystemClock};
use poste_core::store::schema::Schema;
use poste_core::store::tables::Agent;
use poste_core::store::{Interest, LOCK_TIMEOUT_MS_DEFAULT, Options, discover};
use poste_core::text::{Name, RecordId, Session};
use poste_core::views;
use poste_verbs::actions::Carrier;
use poste_verbs::answer::Stored;
use poste_verbs::caller::Ids;
use poste_verbs::desk::{self, no_speaker};
use poste_verbs::{Answered, Caller, Desk, Files, Host, Verb};

use crate::cli::{Global, duration};
use crate::error::{CommandError, Kind};
use crate::ui::progress::Screen;
use crate::ui::{Answer, Ui};
use crate::{Result, notes, ui};

#[derive(Debug)]
pub(crate) struct Cx {
    pub ui: Ui,
    global: Global,
    command: &'static str,
    /// The surface the command came in by.
    via: Via,
    schema: Schema,
    clock: Arc<dyn Clock>,
    host: Host,
    stored: RefCell<Vec<Stored>>,
    /// Warnings of verbs so far: one that is asked again and again gives the same each time.
    warned: RefCell<BTreeSet<String>>,
}

pub(crate) use poste_verbs::Mark;
pub(crate) use poste_verbs::desk::NO_SPEAKER;

/// The surface that commands of this name are.
fn via(command: &str) -> Via {
    match command {
        "mcp" => Via::Mcp,
        "hook" => Via::Hook,
        "run-agent" => Via::Dispatch,
        "ingest" => Via::Ingest,
        _ => Via::Cli,
    }
}

impl Cx {
    pub(crate) fn new(mut global: Global, command: &'static str, schema: Schema) -> Result<Self> {
        global.speaker = from_environment(global.speaker, "POSTE_AGENT", |text| text.parse::<Name>())?;
        global.session = from_environment(global.session, "POSTE_SESSION", |text| text.parse::<Session>())?;
        global.office = from_environment(global.office, "POSTE_HOME", |text| Ok::<_, String>(PathBuf::from(text)))?;
        global.lock_timeout = from_environment(global.lock_timeout, "POSTE_LOCK_TIMEOUT", duration)?;
        let clock = clock()?;
        let colour = match global.color {
            ColorChoice::Auto => None,
            ColorChoice::Always => Some(true),
            ColorChoice::Never => Some(false),
        };
        let ui = Ui::new(global.json, colour, global.time, clock.wall());
        Ok(Self {
            ui,
            global,
            command,
            schema,
            clock,
            host: host(),
            via: via(command),
            stored: RefCell::default(),
            warned: RefCell::default(),
        })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The surface this command came in by.
    pub(crate) fn via(&self) -> Via {
        self.via
    }

    /// For what prepares the office itself: a verb, before it is run.
    pub(crate) fn office(&self) -> Result<Office> {
        Ok(self.place()?.open()?)
    }

    pub(crate) fn cwd(&self) -> Result<PathBuf> {
        std::env::current_dir()
            .map_err(|error| CommandError::new(Kind::NotFound, format!("the current folder is gone: {error}")))
    }

    /// Where the office is, by --office, POSTE_HOME or the folders upward.
    pub(crate) fn place(&self) -> Result<Place> {
        let path = match &self.global.office {
            Some(path) => path.clone(),
            None => {
                let cwd = self.cwd()?;
                discover::find(&cwd).ok_or_else(|| {
                    CommandError::not_found(format!("no office in {} or any folder above it", cwd.display()))
                        .hint("make one: poste init")
                })?
            }
        };
        Ok(self.place_at(path))
    }

    pub(crate) fn schema(&self) -> Schema {
        self.schema
    }

    /// The office folder that was named, if one was.
    pub(crate) fn explicit_office(&self) -> Option<PathBuf> {
        self.global.office.clone()
    }

    pub(crate) fn place_at(&self, path: PathBuf) -> Place {
        let options = Options {
            schema: self.schema,
            program: format!("poste {}", self.command),
            lock_timeout: self.global.lock_timeout.unwrap_or(Duration::from_millis(LOCK_TIMEOUT_MS_DEFAULT)),
            ..Options::default()
        };
        Place { path, clock: self.clock.clone(), options }
    }

    /// For commands that look: what is due is settled first, if it can be.
    pub(crate) fn open(&mut self) -> Result<Office> {
        let mut office = self.office()?;
        office.settle()?;
        self.carry_out(&mut office);
        self.ui.now = office.now()?;
        Ok(office)
    }

    /// For commands that write: this machine's poste.toml comes first.
    pub(crate) fn open_to_write(&mut self) -> Result<Office> {
        let mut office = self.office()?;
        office.sync_policy()?;
        self.carry_out(&mut office);
        self.ui.now = office.now()?;
        self.warn_of_session(&office)?;
        Ok(office)
    }

    /// Calls a verb on the office of this folder, prints its answer and says what belongs to it.
    pub(crate) fn call<V: Verb<Answer: Answer>>(&mut self, verb: V) -> Result {
        let (mut office, answered) = self.ask_here(verb)?;
        self.show(&mut office, answered)
    }

    /// As [`Self::call`], where a command prints the answer in its own way.
    pub(crate) fn call_as<V: Verb, A: Answer>(&mut self, verb: V, shown: impl FnOnce(V::Answer) -> A) -> Result {
        let (mut office, answered) = self.ask_here(verb)?;
        self.show(&mut office, answered.map(shown))
    }

    /// Calls a verb on the office of this folder.
    pub(crate) fn ask_here<V: Verb>(&mut self, verb: V) -> Result<(Office, Answered<V::Answer>)> {
        let mut office = self.office()?;
        self.ui.now = office.now()?;
        let answered = self.ask(&mut office, verb)?;
        self.ui.now = office.now()?;
        Ok((office, answered))
    }

    /// Asks again whenever the office changes, until there is something or the time is up.
    pub(crate) fn wait<T>(
        &self,
        office: &mut Office,
        interest: &Interest,
        patience: Option<Duration>,
        mut look: impl FnMut(&mut Office) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.wait_for(office, interest, patience, |office| Ok(look(office).transpose()))?.transpose()
    }

    /// As [`Self::call`], on an office that is open already.
    pub(crate) fn call_on<V: Verb<Answer: Answer>>(&mut self, office: &mut Office, verb: V) -> Result {
        self.ui.now = office.now()?;
        let answered = self.ask(office, verb)?;
        self.ui.now = office.now()?;
        self.show(office, answered)
    }

    /// Calls a verb. Whatever it wrote is remembered, and acted upon.
    pub(crate) fn ask<V: Verb>(&self, office: &mut Office, verb: V) -> Result<Answered<V::Answer>> {
        let caller = self.caller(office);
        let mut screen = Screen::new(&self.ui);
        let answered = Desk::new(office, &caller, &self.host).watched_by(&mut screen).call(verb);
        drop(screen);
        match answered {
            Ok(mut answered) => {
                answered.warnings.retain(|note| self.is_new_warning(notes::text(&self.ui, note)));
                self.stored.borrow_mut().extend_from_slice(&answered.stored);
                Ok(answered)
            }
            Err(mut error) => {
                let before = error.before.take().unwrap_or_default();
                before.warnings.iter().for_each(|note| self.warn_once(notes::text(&self.ui, note)));
                self.stored.borrow_mut().extend(before.stored);
                Err(CommandError::of(&self.ui, error))
            }
        }
    }

    fn is_new_warning(&self, text: String) -> bool {
        self.warned.borrow_mut().insert(text)
    }

    fn warn_once(&self, text: String) {
        if self.is_new_warning(text.clone()) {
            self.ui.warn(text);
        }
    }

    /// Prints an answer, says what it came with, then marks what it has shown.
    pub(crate) fn show<A: Answer>(&self, office: &mut Office, answered: Answered<A>) -> Result {
        self.show_as(office, answered, |answer| self.ui.answer(answer))
    }

    /// As [`Self::show`], printed in a form of its own.
    pub(crate) fn show_as<A>(
        &self,
        office: &mut Office,
        answered: Answered<A>,
        print: impl FnOnce(&A) -> Result,
    ) -> Result {
        answered.first.iter().for_each(|note| self.ui.say(notes::text(&self.ui, note)));
        print(&answered.answer)?;
        notes::say(&self.ui, &answered);
        self.confirm_printed(office, answered.marks);
        answered.failed.map_or(Ok(()), |error| Err(CommandError::of(&self.ui, *error)))
    }

    /// Prints the answer of work that needs no open office, and says what it came with.
    pub(crate) fn tell<A: Answer>(&self, answered: Answered<A>) -> Result {
        self.stored.borrow_mut().extend_from_slice(&answered.stored);
        self.ui.answer(&answered.answer)?;
        notes::say(&self.ui, &answered);
        answered.failed.map_or(Ok(()), |error| Err((*error).into()))
    }

    /// Marks something as shown.
    pub(crate) fn confirm(&self, office: &mut Office, marks: Vec<Mark>) -> Result {
        Ok(self.with_desk(office, |desk| desk.confirm(marks))?)
    }

    /// Marks what was just printed. It was printed whatever becomes of that, so a failure is told and no more.
    pub(crate) fn confirm_printed(&self, office: &mut Office, marks: Vec<Mark>) {
        if marks.is_empty() {
            return;
        }
        if let Err(error) = self.confirm(office, marks) {
            self.ui.warn(format!("not marked as shown: {}", error.text()));
        }
    }

    /// The office and who speaks, for what verbs have in common. Whatever is written there is remembered, and acted upon.
    pub(crate) fn with_desk<T>(&self, office: &mut Office, work: impl FnOnce(&mut Desk<'_>) -> T) -> T {
        let caller = self.caller(office);
        let mut desk = Desk::new(office, &caller, &self.host);
        let worked = work(&mut desk);
        self.stored.borrow_mut().extend(desk.take_stored());
        self.carry_out(office);
        worked
    }

    /// Whoever gave this command, and the files it may touch.
    pub(crate) fn caller(&self, office: &Office) -> Caller {
        Caller { actor: self.optional_speaker(), session: self.session(), via: self.via, files: self.files(office) }
    }

    /// The files this command may touch: those of the worktree it was started in, else of the folder of the office.
    fn files(&self, office: &Office) -> Files {
        let Ok(path) = office.path() else { return Files::None };
        match self.worktree_beside(path).and_then(|root| Worktree::new(&root).ok()) {
            Some(worktree) => Files::Worktree(worktree.apart_from(path)),
            None => Files::None,
        }
    }

    /// The git worktree this command was started in, else the folder the office is in, else the current one.
    fn worktree_beside(&self, office: &Path) -> Option<PathBuf> {
        let cwd = self.cwd().ok()?;
        let beside =
            office.parent().and_then(|beside| beside.canonicalize().ok()).filter(|beside| cwd.starts_with(beside));
        discover::git_top(&cwd).or(beside).or(Some(cwd))?.canonicalize().ok()
    }

    /// A path as it was typed, for a verb: relative to the worktree where it is below it.
    pub(crate) fn path(&self, path: PathBuf) -> PathBuf {
        let root = self.place().ok().and_then(|place| self.worktree_beside(&place.path));
        match (self.cwd(), root) {
            (Ok(cwd), Some(root)) if cwd != root => {
                let whole = cwd.join(&path);
                whole.strip_prefix(&root).map(PathBuf::from).unwrap_or(whole)
            }
            _ => path,
        }
    }

    pub(crate) fn paths(&self, paths: Vec<PathBuf>) -> Vec<PathBuf> {
        paths.into_iter().map(|path| self.path(path)).collect()
    }

    /// Mail is taken from a session that is over, too: what somebody has to say must not be lost to that. But it is told.
    fn warn_of_session(&self, office: &Office) -> Result {
        let Some(id) = self.global.session.as_ref().filter(|_| self.command != "session") else { return Ok(()) };
        if let Some(over) = views::session_over(office.store(), id)? {
            self.warn_once(over);
        }
        Ok(())
    }

    /// Who speaks. Never a guess.
    pub(crate) fn speaker(&self) -> Result<Name> {
        Ok(self.optional_speaker().ok_or_else(no_speaker)?)
    }

    pub(crate) fn optional_speaker(&self) -> Option<Name> {
        self.global.speaker.clone()
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.global.session.clone()
    }

    /// The speaker as a registered agent.
    pub(crate) fn agent(&self, office: &Office) -> Result<Agent> {
        Ok(self.caller(office).agent(office)?)
    }

    /// The speaker as an agent mail can come to.
    pub(crate) fn active_agent(&self, office: &Office) -> Result<Agent> {
        Ok(self.caller(office).active_agent(office)?)
    }

    /// A program that waited for an answer has it: to start it once more for that would never end.
    pub(crate) fn waited_for(&self, office: &mut Office, answer: MessageNo) -> Result {
        Ok(self.with_desk(office, |desk| desk.waited_for(answer))?)
    }

    pub(crate) fn proposal(
        &self,
        office: &Office,
        intent: Intent,
        content: Option<Content>,
        id: Option<RecordId>,
    ) -> Result<Proposal> {
        Ok(self.proposal_as(office, self.speaker()?, intent, content, id))
    }

    pub(crate) fn proposal_as(
        &self,
        office: &Office,
        actor: Name,
        intent: Intent,
        content: Option<Content>,
        id: Option<RecordId>,
    ) -> Proposal {
        let author = Author { actor, session: self.session(), via: self.via };
        Proposal { id: id.unwrap_or_else(|| self.new_id()), ..office.proposal(&author, intent, content) }
    }

    /// Proposes and expects to be accepted.
    pub(crate) fn decide(&self, office: &mut Office, proposal: &Proposal) -> Result<(Outcome, Effect)> {
        Ok(self.with_desk(office, |desk| desk.decide(proposal))?)
    }

    /// Who carries out what was committed here.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier { program: self.host.program.clone(), caller: self.optional_speaker(), session: self.session() }
    }

    /// Carries out what was settled while waiting or looking, and says what came of it. Calling a verb does so by itself.
    pub(crate) fn carry_out(&self, office: &mut Office) {
        let mut done = self.carrier().carry_out(office);
        // Agent programs read what a hook prints, so a hook says nothing.
        if self.command == "hook" {
            return;
        }
        done.all_warnings().iter().for_each(|note| self.warn_once(notes::text(&self.ui, note)));
        done.next.iter().for_each(|note| self.ui.say(notes::text(&self.ui, note)));
    }

    /// Blocks until `look` finds something or the time is up. What falls due meanwhile is settled here, and carried out.
    pub(crate) fn wait_for<T>(
        &self,
        office: &mut Office,
        interest: &Interest,
        patience: Option<Duration>,
        mut look: impl FnMut(&mut Office) -> std::result::Result<Option<T>, poste_core::Error>,
    ) -> std::result::Result<Option<T>, poste_core::Error> {
        office.wait_for(interest, patience, |office| {
            self.carry_out(office);
            look(office)
        })
    }

    /// Remembers a write that is no single record: it is done, whatever becomes of the answer.
    pub(crate) fn note_stored(&self, what: impl Into<String>) {
        self.stored.borrow_mut().push(Stored { what: what.into(), id: None });
    }

    pub(crate) fn forget_stored(&self) {
        self.stored.borrow_mut().clear();
    }

    /// An answer that could not be made or printed after something was stored must not read as if nothing had been.
    pub(crate) fn unshown(&self, error: CommandError) -> CommandError {
        let stored = self.stored.borrow();
        match stored.is_empty() || error.kind != Kind::Internal {
            true => error,
            false => desk::unshown(&stored, error.into_inner()).into(),
        }
    }

    /// Marks what was just printed as shown to the speaker.
    pub(crate) fn mark_shown(&self, office: &mut Office, numbers: Vec<MessageNo>) -> Result {
        self.confirm(office, vec![Mark::Shown(numbers)])
    }

    pub(crate) fn new_id(&self) -> RecordId {
        self.host.ids.fresh(self.clock.wall())
    }

    /// For fences: unpredictable to whoever wrote the message.
    pub(crate) fn new_nonce(&self) -> String {
        self.host.ids.nonce()
    }
}

/// What was given on the command line, else what a variable says. An empty variable says nothing.
fn from_environment<T, E: std::fmt::Display>(
    given: Option<T>,
    variable: &str,
    parse: impl Fn(&str) -> std::result::Result<T, E>,
) -> Result<Option<T>> {
    if given.is_some() {
        return Ok(given);
    }
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let wrong = |why: String| CommandError::usage(format!("the variable {variable}: {why}"));
    let text = value.to_str().ok_or_else(|| wrong("it is no UTF-8".to_owned()))?;
    parse(text).map(Some).map_err(|error| wrong(error.to_string()))
}

/// This process, as verbs need it. Tests give a seed so that output can be compared.
fn host() -> Host {
    let seed = std::env::var("POSTE_TEST_SEED").ok().and_then(|text| text.parse().ok());
    Host { ids: Ids::seeded(seed), program: std::env::current_exe().ok() }
}

/// The machine's clocks, or those of a test.
pub(crate) fn clock() -> Result<Arc<dyn Clock>> {
    Ok(test_clock()?.unwrap_or_else(|| Arc::new(SystemClock)))
}

/// A clock that stands still, for tests: `POSTE_TEST_CLOCK` is a moment, `POSTE_TEST_BOOT` milliseconds since boot.
#[derive(Debug)]
struct TestClock {
    wall: Timestamp,
    boot_ms: i64,
}

impl Clock for TestClock {
    fn wall(&self) -> Timestamp {
        self.wall
    }

    fn boot(&self) -> Boot {
        Boot { id: "test".to_owned(), ms: self.boot_ms }
    }
}

fn test_clock() -> Result<Option<Arc<dyn Clock>>> {
    let Ok(text) = std::env::var("POSTE_TEST_CLOCK") else { return Ok(None) };
    let Ok(poste_core::time::When::At(wall)) = poste_core::time::parse_when(&text) else {
        return Err(CommandError::usage("POSTE_TEST_CLOCK is no moment"));
    };
    let boot_ms = std::env::var("POSTE_TEST_BOOT").ok().and_then(|text| text.parse().ok()).unwrap_or(wall.ms());
    Ok(Some(Arc::new(TestClock { wall, boot_ms })))
}

/// A person's confirmation of what was sent to whom.
pub(crate) fn recipients_text(deliveries: &[poste_core::Address]) -> String {
    const SHOWN_MAX: usize = 6;
    match deliveries {
        [] => "nobody".to_owned(),
        few if few.len() <= SHOWN_MAX => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        many => ui::count(many.len(), "recipient"),
    }
}
