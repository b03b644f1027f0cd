//! What a command works with: the office, the acting agent, the clock, new ids.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::ColorChoice;
use poste_config::token;
use poste_connect::person::{Doubt, Terminal, no_agent_above, run_above};
use poste_connect::station::{self, Station};
use poste_core::log::{MessageNo, Proof, Via};
use poste_core::office::{Office, Place};
use poste_core::store::clock::SystemClock;
use poste_core::store::schema::Schema;
use poste_core::store::state;
use poste_core::store::tables::Agent;
use poste_core::store::{Interest, LOCK_TIMEOUT_MS_DEFAULT};
use poste_core::text::{Name, RecordId, Session};
use poste_core::{Timestamp, views};
use poste_verbs::actions::{Carrier, RUN};
use poste_verbs::answer::Stored;
use poste_verbs::caller::Ids;
use poste_verbs::desk::{self, no_speaker};
use poste_verbs::session::Identity;
use poste_verbs::{Access, Answered, Caller, Desk, Host, Verb, person};

use crate::cli::{Global, duration};
use crate::error::{CommandError, Kind};
use crate::ui::progress::Screen;
use crate::ui::{Answer, Ui};
use crate::{Result, notes, switches, ui};

#[derive(Debug)]
pub(crate) struct Cx {
    pub ui: Ui,
    command: &'static str,
    station: Station,
    stored: RefCell<Vec<Stored>>,
    /// Warnings already printed: a verb called in a loop returns the same ones each time.
    warned: RefCell<BTreeSet<String>>,
    /// What proves that a person gave this command, as far as it was asked for.
    proof: Cell<Option<Proof>>,
    run: OnceCell<Option<Session>>,
}

pub(crate) use poste_verbs::Mark;

/// The surface of a command.
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
    pub(crate) fn new(global: Global, command: &'static str, schema: Schema) -> Result<Self> {
        let mut station = station(&global, command, schema)?;
        if let Some(timeout) = from_environment(global.lock_timeout, "POSTE_LOCK_TIMEOUT", duration)? {
            station.lock_timeout = timeout;
        }
        let colour = match global.color {
            ColorChoice::Auto => None,
            ColorChoice::Always => Some(true),
            ColorChoice::Never => Some(false),
        };
        let ui = Ui::new(global.json, colour, global.time, station.clock.wall());
        Ok(Self {
            ui,
            command,
            station,
            stored: RefCell::default(),
            warned: RefCell::default(),
            proof: Cell::default(),
            run: OnceCell::default(),
        })
    }

    pub(crate) fn host(&self) -> &Host {
        &self.station.host
    }

    /// For commands that run a server or a hook.
    pub(crate) fn station(&self) -> &Station {
        &self.station
    }

    /// The surface of this command.
    pub(crate) fn via(&self) -> Via {
        self.station.via
    }

    /// Sets the surface that started this command, for the records it writes.
    pub(crate) fn set_surface(&mut self, via: Option<Via>) {
        self.station.via = via.unwrap_or(self.station.via);
    }

    /// Opens the office without settling or syncing it: a verb does that itself.
    pub(crate) fn office(&self) -> Result<Office> {
        Ok(poste_config::open(&self.place()?)?)
    }

    pub(crate) fn cwd(&self) -> Result<PathBuf> {
        Ok(station::cwd()?)
    }

    /// Where the office is: from --office, POSTE_HOME or the folders upward.
    pub(crate) fn place(&self) -> Result<Place> {
        Ok(self.station.place()?)
    }

    pub(crate) fn wall(&self) -> Timestamp {
        self.station.clock.wall()
    }

    /// The office folder from --office or POSTE_HOME.
    pub(crate) fn explicit_office(&self) -> Option<PathBuf> {
        self.station.office.clone()
    }

    pub(crate) fn place_at(&self, path: PathBuf) -> Place {
        self.station.place_at(path)
    }

    /// For commands that read: settles what is due first, if possible.
    pub(crate) fn open(&mut self) -> Result<Office> {
        let mut office = self.office()?;
        office.settle()?;
        self.carry_out(&mut office);
        self.ui.now = office.now()?;
        Ok(office)
    }

    /// For commands that write: puts this machine's poste.toml into force first.
    pub(crate) fn open_to_write(&mut self) -> Result<Office> {
        let mut office = self.office()?;
        poste_config::sync_policy(&mut office)?;
        self.carry_out(&mut office);
        self.ui.now = office.now()?;
        self.warn_of_session(&office)?;
        Ok(office)
    }

    /// Calls a verb on the office of this folder, and prints its answer, warnings and next steps.
    pub(crate) fn call<V: Verb<Answer: Answer>>(&mut self, verb: V) -> Result {
        let (mut office, answered) = self.call_verb_here(verb)?;
        self.show(&mut office, answered)
    }

    /// Like [`Self::call`], but converts the answer before it is printed.
    pub(crate) fn call_as<V: Verb, A: Answer>(&mut self, verb: V, shown: impl FnOnce(V::Answer) -> A) -> Result {
        let (mut office, answered) = self.call_verb_here(verb)?;
        self.show(&mut office, answered.map(shown))
    }

    /// Calls a verb on the office of this folder. A person may also look at an office that is not adopted.
    pub(crate) fn call_verb_here<V: Verb>(&mut self, verb: V) -> Result<(Office, Answered<V::Answer>)> {
        let place = self.place()?;
        let mut office = match poste_config::open(&place) {
            Err(poste_core::Error::NotAdopted { .. }) if V::ACCESS == Access::Reads && self.has_person() => {
                poste_config::look(&place)?
            }
            opened => opened?,
        };
        if office.store().options().read_only {
            self.warn_once("this office is not adopted, so nothing in it is used: poste adopt".to_owned());
        }
        self.ui.now = office.now()?;
        let answered = self.call_verb(&mut office, verb)?;
        self.ui.now = office.now()?;
        Ok((office, answered))
    }

    /// Calls `look` whenever the office changes, until it returns something or the time is up.
    pub(crate) fn wait<T>(
        &self,
        office: &mut Office,
        interest: &Interest,
        patience: Option<Duration>,
        mut look: impl FnMut(&mut Office) -> Result<Option<T>>,
    ) -> Result<Option<T>> {
        self.wait_for(office, interest, patience, |office| Ok(look(office).transpose()))?.transpose()
    }

    /// Like [`Self::call`], on an office that is already open.
    pub(crate) fn call_on<V: Verb<Answer: Answer>>(&mut self, office: &mut Office, verb: V) -> Result {
        self.ui.now = office.now()?;
        let answered = self.call_verb(office, verb)?;
        self.ui.now = office.now()?;
        self.show(office, answered)
    }

    /// Calls a verb and remembers what it stored.
    pub(crate) fn call_verb<V: Verb>(&self, office: &mut Office, verb: V) -> Result<Answered<V::Answer>> {
        let caller = self.caller(office);
        let mut screen = Screen::new(&self.ui);
        let answered = Desk::new(office, &caller, self.host()).watched_by(&mut screen).call(verb);
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

    /// Prints an answer with its notes, then marks the printed messages as shown.
    pub(crate) fn show<A: Answer>(&self, office: &mut Office, answered: Answered<A>) -> Result {
        self.show_as(office, answered, |answer| self.ui.answer(answer))
    }

    /// Like [`Self::show`], with a custom way to print the answer.
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

    /// Prints an answer with its notes, for commands without an open office.
    pub(crate) fn print_answer<A: Answer>(&self, answered: Answered<A>) -> Result {
        self.stored.borrow_mut().extend_from_slice(&answered.stored);
        self.ui.answer(&answered.answer)?;
        notes::say(&self.ui, &answered);
        answered.failed.map_or(Ok(()), |error| Err((*error).into()))
    }

    /// Marks what was just printed as shown. A failure is only a warning, as the text was printed anyway.
    pub(crate) fn confirm_printed(&self, office: &mut Office, marks: Vec<Mark>) {
        if marks.is_empty() || office.store().options().read_only {
            return;
        }
        if let Err(error) = self.with_desk(office, |desk| desk.confirm(marks)) {
            self.ui.warn(format!("not marked as shown: {}", CommandError::from(error).text()));
        }
    }

    /// Runs `work` with the office and the caller. Remembers what it stored and carries out the resulting actions.
    pub(crate) fn with_desk<T>(&self, office: &mut Office, work: impl FnOnce(&mut Desk<'_>) -> T) -> T {
        let caller = self.caller(office);
        let mut desk = Desk::new(office, &caller, self.host());
        let worked = work(&mut desk);
        self.stored.borrow_mut().extend(desk.take_stored());
        self.carry_out(office);
        worked
    }

    /// The agent, session and surface of this command, and the files it may touch.
    pub(crate) fn caller(&self, office: &Office) -> Caller {
        let mut caller = self.station.caller(office);
        if caller.session.is_none() {
            caller.session = self.run(office);
        }
        // Looked for only if it matters: most commands are given by agents.
        let is_person = |name| office.agent(name).is_ok_and(|agent| agent.is_some_and(|agent| agent.is_person()));
        if self.proof.get().is_some() || caller.actor.as_ref().is_some_and(is_person) {
            caller.proof = self.prove(office);
        }
        caller
    }

    /// The run that this command belongs to although its environment names none: what it sends counts as the run's.
    fn run(&self, office: &Office) -> Option<Session> {
        self.run.get_or_init(|| Some(run_above(office).ok()??.session)).clone()
    }

    /// Whether text of other agents is printed for a model: it asked for that, or it is an agent that gave the command.
    pub(crate) fn is_for_model(&self, wanted: bool, office: &Office) -> bool {
        let is_by_agent = || {
            let is_person = switches::person() || self.station.via != Via::Cli;
            !is_person && matches!(no_agent_above(Some(office)), Err(Doubt::Program(_) | Doubt::Agent(_)))
        };
        !self.ui.json && (wanted || self.session().is_some() || is_by_agent())
    }

    /// What proves that a person gave this command. From now on its records carry that.
    pub(crate) fn prove(&self, office: &Office) -> Proof {
        if let Some(known) = self.proof.get() {
            return known;
        }
        let proof = match self.given_proof() {
            Ok(Some(proof)) => proof,
            Ok(None) if Terminal::of_person(Some(office)).is_ok() => Proof::Terminal,
            Ok(None) => Proof::None,
            Err(error) => {
                self.warn_once(error.text());
                Proof::None
            }
        };
        // Only the command line is used by people; other surfaces serve programs.
        let proof = if self.station.via == Via::Cli { proof } else { Proof::None };
        self.proof.set(Some(proof));
        proof
    }

    /// A proof that needs no terminal.
    fn given_proof(&self) -> Result<Option<Proof>> {
        if switches::person() {
            return Ok(Some(Proof::Word));
        }
        let Some(file) = std::env::var_os(token::VARIABLE).filter(|file| !file.is_empty()) else { return Ok(None) };
        token::check(Path::new(&file))?;
        let found =
            |doubt: Doubt| CommandError::from(person::unproven(format!("the token proves nothing here: {doubt}")));
        no_agent_above(self.office().ok().as_ref()).map_err(found)?;
        Ok(Some(Proof::Token))
    }

    /// Requires that a person confirms an act by typing a word at their terminal, or gave a token.
    pub(crate) fn confirm(&self, act: &str, word: &str) -> Result<Proof> {
        let unproven = |why: &str| CommandError::from(person::unproven(format!("only a person can {act}: {why}")));
        if self.station.via != Via::Cli {
            return Err(unproven("this is not the command line"));
        }
        if let Some(known) = self.proof.get().filter(|proof| proof.is_confirmed()) {
            return Ok(known);
        }
        let proof = match self.given_proof()? {
            Some(proof) => proof,
            None => {
                let office = self.office().ok();
                let terminal = Terminal::of_person(office.as_ref()).map_err(|doubt| unproven(&doubt.to_string()));
                let confirmed = terminal?.confirms(act, word).map_err(|error| unproven(&error.to_string()))?;
                if !confirmed {
                    let message = format!("not confirmed: {word} was not typed");
                    return Err(CommandError::new(Kind::Refused, message).code("not_confirmed"));
                }
                Proof::Word
            }
        };
        self.proof.set(Some(proof));
        Ok(proof)
    }

    /// Whether a person confirmed this command before it asked anything: with a token, for example. From now on its records
    /// carry that.
    pub(crate) fn is_confirmed(&self) -> bool {
        if self.station.via != Via::Cli {
            return false;
        }
        if self.proof.get().is_none()
            && let Ok(Some(given)) = self.given_proof()
        {
            self.proof.set(Some(given));
        }
        self.proof.get().is_some_and(Proof::is_confirmed)
    }

    /// Whether there is a person to ask.
    pub(crate) fn has_person(&self) -> bool {
        let office = || self.office().ok();
        self.is_confirmed() || (self.station.via == Via::Cli && Terminal::of_person(office().as_ref()).is_ok())
    }

    /// Like [`Self::confirm`], if the acting agent is a person. Agents need no proof for what they may do as agents.
    pub(crate) fn confirm_as_person(&self, act: &str, word: &str) -> Result {
        let Some(speaker) = self.optional_speaker() else { return Ok(()) };
        match self.office()?.agent(&speaker)? {
            Some(agent) if agent.is_person() => self.confirm(act, word).map(drop),
            _ => Ok(()),
        }
    }

    /// Acts in the run that this command belongs to, even if its environment names none: a program that a supervisor
    /// started cannot leave its run by unsetting variables.
    pub(crate) fn stay_in_run(&mut self) -> Result {
        let hidden = |doubt: Doubt| {
            let error = CommandError::new(Kind::Refused, format!("a run could give this command: {doubt}"));
            error.code("hidden").hint("give it where the processes above it can be seen")
        };
        if let Some(run) = run_above(&self.office()?).map_err(hidden)? {
            self.station.own.session = Some(run.session);
        }
        Ok(())
    }

    /// Converts a path argument for a verb: relative to the worktree if it is below it.
    pub(crate) fn path(&self, path: PathBuf) -> PathBuf {
        let root = self.place().ok().and_then(|place| station::worktree_beside(&place.path, self.station.via));
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

    /// Warns about a session that has ended. Its mail is still accepted, so that nothing is lost.
    fn warn_of_session(&self, office: &Office) -> Result {
        let Some(id) = self.station.own.session.as_ref().filter(|_| self.command != "session") else { return Ok(()) };
        if let Some(ended) = views::session_over(office.store(), id)? {
            self.warn_once(ended);
        }
        Ok(())
    }

    /// The acting agent. Never guessed.
    pub(crate) fn speaker(&self) -> Result<Name> {
        Ok(self.optional_speaker().ok_or_else(no_speaker)?)
    }

    pub(crate) fn optional_speaker(&self) -> Option<Name> {
        self.station.own.agent.clone()
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.station.own.session.clone()
    }

    /// The acting agent, which must be registered.
    pub(crate) fn agent(&self, office: &mut Office) -> Result<Agent> {
        Ok(self.with_desk(office, |desk| desk.agent())?)
    }

    /// The acting agent, which must be registered and not retired.
    pub(crate) fn active_agent(&self, office: &mut Office) -> Result<Agent> {
        Ok(self.with_desk(office, |desk| desk.active_agent())?)
    }

    /// Acks an answer that a program waited for. Otherwise its agent would be started again for it, without end.
    pub(crate) fn ack_awaited_answer(&self, office: &mut Office, answer: MessageNo) -> Result {
        Ok(self.with_desk(office, |desk| desk.waited_for(answer))?)
    }

    /// Carries out the actions that follow from commits of this command.
    pub(crate) fn carrier(&self) -> Carrier {
        Carrier {
            program: self.host().program.clone(),
            caller: self.optional_speaker(),
            session: self.session(),
            via: self.station.via,
            remote: false,
        }
    }

    /// Carries out the actions that follow from what was settled, and prints their notes. A verb does this itself.
    pub(crate) fn carry_out(&self, office: &mut Office) {
        let mut done = self.carrier().carry_out(office);
        done.all_warnings().iter().for_each(|note| self.warn_once(notes::text(&self.ui, note)));
        done.next.iter().for_each(|note| self.ui.say(notes::text(&self.ui, note)));
    }

    /// Blocks until `look` finds something or the time is up. Settles what falls due while it waits.
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

    /// Remembers a write of several records, for errors that occur after it.
    pub(crate) fn note_stored(&self, what: impl Into<String>) {
        self.stored.borrow_mut().push(Stored { what: what.into(), id: None });
    }

    pub(crate) fn forget_stored(&self) {
        self.stored.borrow_mut().clear();
    }

    /// Adds what was stored before an error. If only the answer could not be printed, the error must not look as if the
    /// command had stored nothing.
    pub(crate) fn with_stored(&self, error: CommandError) -> CommandError {
        let stored = self.stored.borrow();
        match desk::is_after_write(&stored, &error) {
            true => desk::stored_but_not_shown(&stored, error.into_inner()).into(),
            false => error.after(&stored),
        }
    }

    pub(crate) fn new_id(&self) -> RecordId {
        self.host().ids.fresh(self.station.clock.wall())
    }

    /// For fences: the author of a message cannot predict it.
    pub(crate) fn new_nonce(&self) -> String {
        self.host().ids.nonce()
    }
}

/// The value from the command line, else from a variable. An empty variable counts as unset.
fn from_environment<T, E: std::fmt::Display>(
    given: Option<T>,
    variable: &str,
    parse: impl Fn(&str) -> std::result::Result<T, E>,
) -> poste_verbs::Result<Option<T>> {
    if given.is_some() {
        return Ok(given);
    }
    let Some(value) = std::env::var_os(variable).filter(|value| !value.is_empty()) else { return Ok(None) };
    let wrong = |why: String| poste_verbs::Error::usage(format!("environment variable {variable}: {why}"));
    let text = value.to_str().ok_or_else(|| wrong("not valid UTF-8".to_owned()))?;
    parse(text).map(Some).map_err(|error| wrong(error.to_string()))
}

/// Where a command works, from the command line and the environment.
pub(crate) fn station(global: &Global, command: &'static str, schema: Schema) -> poste_verbs::Result<Station> {
    let office = from_environment(global.office.clone(), "POSTE_HOME", |text| Ok::<_, String>(PathBuf::from(text)))?;
    let own = Identity {
        agent: from_environment(global.speaker.clone(), "POSTE_AGENT", |text| text.parse::<Name>())?,
        session: from_environment(global.session.clone(), "POSTE_SESSION", |text| text.parse::<Session>())?,
    };
    Ok(Station {
        office,
        own,
        via: via(command),
        program: command.to_owned(),
        lock_timeout: Duration::from_millis(LOCK_TIMEOUT_MS_DEFAULT),
        schema,
        clock: switches::clock()?.unwrap_or_else(|| Arc::new(SystemClock)),
        host: Arc::new(host()),
        command_line: notes::part_text,
        state: state::folder().map(ToOwned::to_owned),
    })
}

/// This process, as verbs need it.
fn host() -> Host {
    let run = std::env::var(RUN).ok().and_then(|run| run.parse().ok());
    Host { ids: Ids::seeded(switches::seed()), program: std::env::current_exe().ok(), run }
}

/// The recipients of a message, for people.
pub(crate) fn recipients_text(deliveries: &[poste_core::Address]) -> String {
    const SHOWN_MAX: usize = 6;
    match deliveries {
        [] => "no one".to_owned(),
        few if few.len() <= SHOWN_MAX => few.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        many => ui::count(many.len(), "recipient"),
    }
}
