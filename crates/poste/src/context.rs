//! What a command works with: the office, the speaker, the clock, fresh ids.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use clap::ColorChoice;
use poste_core::Timestamp;
use poste_core::fold::{Effect, Outcome, Verdict};
use poste_core::log::{Ack, Content, ContextRead, Intent, MessageNo, Proposal, Shown};
use poste_core::office::{Office, Place};
use poste_core::store::artifact::Worktree;
use poste_core::store::clock::{Boot, Clock, SystemClock};
use poste_core::store::schema::Schema;
use poste_core::store::tables::Agent;
use poste_core::store::{LOCK_TIMEOUT_MS_DEFAULT, Options, discover};
use poste_core::text::{ContextName, Name, RecordId, Session};
use poste_core::views;

use crate::cli::{Global, duration};
use crate::error::{CommandError, Kind};
use crate::explain::{explain, unknown_agent};
use crate::ui::{Kept, Ui};
use crate::{Result, ui};

#[derive(Debug)]
pub(crate) struct Cx {
    pub ui: Ui,
    global: Global,
    command: &'static str,
    schema: Schema,
    clock: Arc<dyn Clock>,
    random: Random,
    stored: RefCell<Vec<Stored>>,
    /// Of a command that was called in this process: what is to be marked once its answer was handed on.
    marks: RefCell<Vec<Mark>>,
    /// An office that whoever called has open already: opening one takes longer than most commands.
    lent: RefCell<Option<Office>>,
}

/// The code of an error: it takes a name to speak, and none was given.
pub(crate) const NO_SPEAKER: &str = "no_speaker";

/// Something that was put before the speaker. It is marked after it was printed, so nothing is marked in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Mark {
    Shown(Vec<MessageNo>),
    ContextRead(ContextName, u64),
}

/// A write of this command that is committed, for whoever cannot be shown its answer.
#[derive(Debug)]
struct Stored {
    what: String,
    id: Option<RecordId>,
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
            random: Random::from_environment(),
            stored: RefCell::default(),
            marks: RefCell::default(),
            lent: RefCell::default(),
        })
    }

    /// Keeps what the command prints, for whoever called it in this process.
    pub(crate) fn keep(&mut self) -> Rc<RefCell<Kept>> {
        let (ui, kept) = Ui::kept(self.clock.wall());
        self.ui = ui;
        kept
    }

    /// The first opening of an office takes this one, if it is still the one on the disk.
    pub(crate) fn lend(&self, office: Office) {
        *self.lent.borrow_mut() = Some(office);
    }

    fn office(&self) -> Result<Office> {
        let lent = self.lent.borrow_mut().take().filter(|office| office.store().check_identity().is_ok());
        match lent {
            Some(office) => Ok(office),
            None => Ok(self.place()?.open()?),
        }
    }

    pub(crate) fn into_marks(self) -> Vec<Mark> {
        self.marks.into_inner()
    }

    /// What is piped in. If the command was called in this process, stdin belongs to whoever that one talks with.
    pub(crate) fn stdin(&self) -> Result<std::io::Stdin> {
        match self.ui.is_kept() {
            true => Err(CommandError::usage("nothing can be piped in here").hint("give the text itself instead of -")),
            false => Ok(std::io::stdin()),
        }
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
        self.ui.now = office.now()?;
        Ok(office)
    }

    /// For commands that write: this machine's poste.toml comes first.
    pub(crate) fn open_to_write(&mut self) -> Result<Office> {
        let mut office = self.office()?;
        office.sync_policy()?;
        self.ui.now = office.now()?;
        self.warn_of_session(&office)?;
        Ok(office)
    }

    /// Mail is taken from a session that is over, too: what somebody has to say must not be lost to that. But it is told.
    fn warn_of_session(&self, office: &Office) -> Result {
        let Some(id) = self.global.session.as_ref().filter(|_| self.command != "session") else { return Ok(()) };
        if let Some(session) = office.store().tables()?.session(id)?
            && !session.is_live()
        {
            self.ui.warn(crate::commands::session::over_text(&session));
        }
        Ok(())
    }

    /// Who speaks. Never a guess.
    pub(crate) fn speaker(&self) -> Result<Name> {
        self.global.speaker.clone().ok_or_else(|| {
            CommandError::usage("who speaks? No name was given")
                .code(NO_SPEAKER)
                .hint("pass --as NAME or set POSTE_AGENT")
        })
    }

    pub(crate) fn optional_speaker(&self) -> Option<Name> {
        self.global.speaker.clone()
    }

    pub(crate) fn session(&self) -> Option<Session> {
        self.global.session.clone()
    }

    /// The speaker as a registered agent.
    pub(crate) fn agent(&self, office: &Office) -> Result<Agent> {
        let name = self.speaker()?;
        match office.agent(&name)? {
            Some(agent) => Ok(agent),
            None => Err(unknown_agent(office, &name)?),
        }
    }

    /// The speaker as an agent mail can come to.
    pub(crate) fn active_agent(&self, office: &Office) -> Result<Agent> {
        let agent = self.agent(office)?;
        if agent.is_active() {
            return Ok(agent);
        }
        let message = format!("{} is retired, so nothing would come", agent.name);
        let hint = format!("revive it: poste register {} --update", agent.name);
        Err(CommandError::new(Kind::Refused, message).code("retired").hint(hint))
    }

    /// The folder below which the speaker's artifacts must be.
    pub(crate) fn worktree(&self, office: &Office, speaker: &Name) -> Result<Worktree> {
        let registered = office.agent(speaker)?.and_then(|agent| agent.worktree).map(PathBuf::from);
        let cwd = self.cwd()?;
        let root = registered.or_else(|| discover::git_top(&cwd));
        let beside_office = || office.path().ok().and_then(|path| path.parent()).map(PathBuf::from);
        let root = root.or_else(beside_office).unwrap_or(cwd);
        Ok(Worktree::new(&root)?.apart_from(office.path()?))
    }

    /// Whether a supervisor started whoever speaks here, and watches over it.
    pub(crate) fn is_in_run(&self, office: &Office) -> Result<bool> {
        let run =
            self.global.session.as_ref().map(|session| views::run(office.store(), session)).transpose()?.flatten();
        Ok(run.is_some_and(|run| run.how.is_none()))
    }

    /// A program that waited for an answer has it: to start it once more for that would never end.
    pub(crate) fn waited_for(&self, office: &mut Office, answer: MessageNo) -> Result {
        if self.is_in_run(office)? {
            let ack = self.proposal(office, Intent::Ack(Ack { message: answer }), None, None)?;
            // Refused: somebody saw to it already.
            self.propose(office, &ack)?;
        }
        Ok(())
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
        Proposal {
            id: id.unwrap_or_else(|| self.new_id()),
            actor,
            session: self.session(),
            sent_at: office.wall(),
            intent,
            content,
        }
    }

    /// Proposes and expects to be accepted.
    pub(crate) fn decide(&self, office: &mut Office, proposal: &Proposal) -> Result<(Outcome, Effect)> {
        let outcome = self.propose(office, proposal)?;
        match outcome.verdict.clone() {
            Verdict::Accepted(effect) => Ok((outcome, effect)),
            Verdict::Rejected(rejection) => Err(explain(office, proposal, rejection.into())?),
        }
    }

    /// Proposes, and remembers what was accepted.
    pub(crate) fn propose(
        &self,
        office: &mut Office,
        proposal: &Proposal,
    ) -> std::result::Result<Outcome, poste_core::Error> {
        let outcome = office.propose(proposal)?;
        if let Verdict::Accepted(effect) = &outcome.verdict {
            let what = stored_text(proposal, &outcome, effect);
            self.stored.borrow_mut().push(Stored { what, id: Some(outcome.id.clone()) });
            if let Some(number) = effect.message().filter(|_| !outcome.repeat) {
                crate::wake::after_send(self, office, &[number]);
            }
            if !outcome.repeat {
                crate::commands::workflow::go_on_after(self, office, &proposal.intent);
            }
        }
        Ok(outcome)
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
        const NAMED_MAX: usize = 8;
        let stored = self.stored.borrow();
        if stored.is_empty() || !(error.is_unprinted() || error.kind == Kind::Internal) {
            return error;
        }
        let mut what: Vec<&str> = stored.iter().take(NAMED_MAX).map(|stored| stored.what.as_str()).collect();
        if stored.len() > NAMED_MAX {
            what.push("and more");
        }
        let message = format!("stored, and could not be shown: {}", what.join("; "));
        let hints = error.hints().to_vec();
        let told = CommandError::new(Kind::UnknownOutcome, message).cause(error.message);
        let told = hints.into_iter().fold(told, CommandError::hint);
        match stored.iter().rev().find_map(|stored| stored.id.as_ref()) {
            Some(id) => told.hint(format!("do not write it again; see it: poste log why --id {id}")),
            None => told.hint("it is done; do not do it again"),
        }
    }

    /// Marks what was just printed as shown to the speaker.
    pub(crate) fn mark_shown(&self, office: &mut Office, numbers: Vec<MessageNo>) -> Result {
        self.mark(office, Mark::Shown(numbers))
    }

    /// Marks what was just printed. If it was not, but kept for whoever called, that one marks it after handing it on.
    pub(crate) fn mark(&self, office: &mut Office, mark: Mark) -> Result {
        if self.ui.is_kept() {
            self.marks.borrow_mut().push(mark);
            return Ok(());
        }
        self.mark_now(office, mark)
    }

    pub(crate) fn mark_now(&self, office: &mut Office, mark: Mark) -> Result {
        let intents = match mark {
            Mark::Shown(numbers) => {
                let chunks = numbers.chunks(poste_core::limits::SHOWN_MAX);
                chunks.map(|chunk| Intent::Shown(Shown { messages: chunk.to_vec() })).collect()
            }
            Mark::ContextRead(name, version) => vec![Intent::ContextRead(ContextRead { name, version })],
        };
        for intent in intents {
            let proposal = self.proposal(office, intent, None, None)?;
            match office.propose(&proposal)?.verdict {
                Verdict::Accepted(_) => {}
                // Shown here before: the mark stands.
                Verdict::Rejected(rejection) if rejection.code == poste_core::fold::Code::NothingToDo => {}
                Verdict::Rejected(rejection) => return Err(rejection.into()),
            }
        }
        Ok(())
    }

    pub(crate) fn new_id(&self) -> RecordId {
        let uuid = self.random.uuid_v7(self.clock.wall());
        uuid.to_string().parse().expect("a UUID is printable ASCII")
    }

    /// For fences: unpredictable to whoever wrote the message.
    pub(crate) fn new_nonce(&self) -> String {
        self.random.bytes()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn stored_text(proposal: &Proposal, outcome: &Outcome, effect: &Effect) -> String {
    let id = &outcome.id;
    match effect {
        Effect::Sent(sent) => format!("message #{}, id {id}", sent.number),
        Effect::Claimed(claimed) => {
            let numbers: Vec<String> = claimed.items.iter().map(|item| format!("#{}", item.number)).collect();
            format!("the claim of {} with token {}, id {id}", numbers.join(", "), claimed.token)
        }
        _ => {
            let position = outcome.position.map(|position| format!(" at record {position}")).unwrap_or_default();
            format!("{}{position}, id {id}", proposal.intent.kind().name)
        }
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

/// Randomness for ids and fences; tests give a seed so that output can be compared.
#[derive(Debug)]
struct Random {
    seed: Option<u64>,
    drawn: Cell<u64>,
}

impl Random {
    fn from_environment() -> Self {
        let seed = std::env::var("POSTE_TEST_SEED").ok().and_then(|text| text.parse().ok());
        Self { seed, drawn: Cell::new(0) }
    }

    fn bytes(&self) -> [u8; 16] {
        let Some(seed) = self.seed else { return uuid::Uuid::new_v4().into_bytes() };
        self.drawn.set(self.drawn.get() + 1);
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_le_bytes());
        hasher.update(&self.drawn.get().to_le_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        bytes
    }

    fn uuid_v7(&self, at: Timestamp) -> uuid::Uuid {
        if self.seed.is_none() {
            return uuid::Uuid::now_v7();
        }
        let mut random = [0; 10];
        random.copy_from_slice(&self.bytes()[..10]);
        let ms = u64::try_from(at.ms()).unwrap_or(0);
        uuid::Builder::from_unix_timestamp_millis(ms, &random).into_uuid()
    }
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
