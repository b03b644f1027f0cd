//! The API that every surface uses: open an office, propose changes, read views.

mod rules;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use rules::Rules;

use crate::error::Error;
use crate::fold::{Action, Outcome, Rejection, Verdict, foresee};
use crate::log::{Archive, Author, Content, Head, Intent, Position, Proposal, Record, Sealed, Sequencer, advance_id};
use crate::payload::Validators;
use crate::store::archive::{Archives, Line, Written};
use crate::store::clock::{Boot, Clock};
use crate::store::mirror::{self, Mirror, TakenOver};
use crate::store::session_pages;
use crate::store::tables::{Agent, Changes};
use crate::store::waiters::Waiter;
use crate::store::{
    Erased, Folder, Follower, Interest, Interrupt, LocalLog, OfficeFiles, Options, Store, WriteGuard, WriteLock,
    fresh_id,
};
use crate::text::{ContextName, Label, Name, RecordId};
use crate::time::Timestamp;
use crate::views::ArchiveBatch;

/// The log and tables of one workspace, whatever orders the log.
#[derive(Debug)]
pub struct Office {
    order: Order,
    validators: Validators,
}

/// What assigns positions to records.
#[derive(Debug)]
enum Order {
    /// This machine: append and fold are one transaction.
    Here(LocalLog),
    /// A sequencer for many machines: records are published to it, pulled from it and folded here.
    Followed(Follower),
}

impl Order {
    fn files(&self) -> &OfficeFiles {
        match self {
            Self::Here(log) => &log.files,
            Self::Followed(follower) => &follower.files,
        }
    }
}

impl Office {
    fn over(order: Order) -> Self {
        Self { order, validators: Validators::default() }
    }

    /// An in-memory office that follows a log.
    pub fn follow_in_memory(
        machine: &str,
        clock: Arc<dyn Clock>,
        sequencer: Box<dyn Sequencer>,
    ) -> Result<Self, Error> {
        Ok(Self::over(Order::Followed(Follower::in_memory(machine, clock, sequencer)?)))
    }

    /// Makes proposals durable and answers each with the fold's decision. A proposal that breaks the rules is refused
    /// on its own, before the append.
    pub fn submit(&mut self, proposals: &[Proposal], rules: &Rules) -> Result<Vec<Outcome>, Error> {
        let unfit = self.unfit(proposals, rules)?;
        let mut sealed = Vec::with_capacity(proposals.len());
        for (proposal, unfit) in proposals.iter().zip(&unfit) {
            if unfit.is_none() {
                sealed.push(Sealed::seal(proposal, self.store().machine()?)?);
            }
        }
        if sealed.len() == proposals.len() {
            return self.append(sealed);
        }
        let decided = if sealed.is_empty() { Vec::new() } else { self.append(sealed)? };
        let at = self.head()?.at;
        let mut decided = decided.into_iter();
        let outcomes = proposals.iter().zip(unfit).filter_map(|(proposal, unfit)| match unfit {
            None => decided.next(),
            Some(rejection) => Some(unwritten(proposal, rejection, at)),
        });
        Ok(outcomes.collect())
    }

    fn append(&mut self, sealed: Vec<Sealed>) -> Result<Vec<Outcome>, Error> {
        match &mut self.order {
            Order::Here(log) => log.append(sealed),
            Order::Followed(follower) => follower.append(sealed),
        }
    }

    /// A proposal with a fresh id. A caller with its own id sets it afterwards.
    pub fn proposal(&self, author: &Author, intent: Intent, content: Option<Content>) -> Proposal {
        let Author { actor, session, via, proof } = author.clone();
        Proposal { id: fresh_id(), actor, session, via, proof, sent_at: self.wall(), intent, content }
    }

    /// [`submit`](Self::submit) for one proposal.
    pub fn propose(&mut self, proposal: &Proposal, rules: &Rules) -> Result<Outcome, Error> {
        let outcome = self.submit(std::slice::from_ref(proposal), rules)?.pop();
        outcome.ok_or_else(|| Error::Damaged("the log returned no answer".to_owned()))
    }

    /// [`propose`](Self::propose) for what Poste proposes automatically, each time it looks. A log that keeps refusals
    /// would grow with every look, so what the fold would refuse now is refused here and not published.
    pub fn propose_unless_refused(&mut self, proposal: &Proposal, rules: &Rules) -> Result<Outcome, Error> {
        match self.foresee(proposal)? {
            None => self.propose(proposal, rules),
            Some(rejection) => Ok(unwritten(proposal, rejection, self.head()?.at)),
        }
    }

    /// Why the fold would refuse a proposal now, on a log that keeps refusals. Any other log drops refusals anyway.
    pub fn foresee(&mut self, proposal: &Proposal) -> Result<Option<Rejection>, Error> {
        // Tables that are not up to date cannot predict a decision.
        if !self.follows() || self.settle()? == Settled::No {
            return Ok(None);
        }
        let (position, at) = (self.head()?.position.next(), self.now()?);
        let record = Record { position, at, sealed: Sealed::seal(proposal, self.store().machine()?)? };
        foresee(&self.store().tables()?, &record)
    }

    pub fn store(&self) -> &Store {
        self.files().store()
    }

    fn files(&self) -> &OfficeFiles {
        self.order.files()
    }

    fn files_mut(&mut self) -> &mut OfficeFiles {
        match &mut self.order {
            Order::Here(log) => &mut log.files,
            Order::Followed(follower) => &mut follower.files,
        }
    }

    /// The id of this machine in this office. A copy of the folder has a different one.
    pub fn machine(&self) -> Result<&Label, Error> {
        self.store().machine()
    }

    /// Keeps out all writers until the guard is dropped.
    pub fn lock(&self) -> Result<Option<WriteGuard>, Error> {
        self.files().hold()
    }

    /// Remembers that this machine's `poste.toml` is based on this policy version.
    pub fn see_policy(&mut self, version: u64) -> Result<(), Error> {
        self.files_mut().see_policy(version)
    }

    /// The id for a record that advances a workflow. Every engine that finds the same thing to do derives the same id.
    /// Any other intent gets a fresh id.
    pub fn advance_id(&self, intent: &Intent) -> Result<RecordId, Error> {
        match advance_id(intent) {
            Some(base) => self.free_id(&base),
            None => Ok(fresh_id()),
        }
    }

    /// The first id that is not taken: this one, or the next after it.
    pub fn free_id(&self, base: &str) -> Result<RecordId, Error> {
        self.store().tables()?.next_id(base)
    }

    /// The newest record that is folded here.
    pub fn head(&self) -> Result<Head, Error> {
        Ok(self.store().tables()?.cursor.head)
    }

    /// Writes a self-contained copy of log and tables to a new file. Returns the head of the copy.
    pub fn snapshot(&self, into: &Path) -> Result<Head, Error> {
        self.store().copy_into(into)?;
        Ok(Store::open_copy(into)?.tables()?.cursor.head)
    }

    /// Whether a sequencer orders the log, for many machines.
    pub fn follows(&self) -> bool {
        matches!(self.order, Order::Followed(_))
    }

    /// Folds what was published elsewhere. Does nothing in an office that orders its own log.
    pub fn follow(&mut self) -> Result<(), Error> {
        match &mut self.order {
            Order::Here(_) => Ok(()),
            Order::Followed(follower) => follower.follow(),
        }
    }
}

/// The answer to a proposal that was refused before the append.
fn unwritten(proposal: &Proposal, rejection: Rejection, at: Timestamp) -> Outcome {
    let verdict = Verdict::Rejected(rejection);
    Outcome { id: proposal.id.clone(), position: None, at, repeat: false, verdict }
}

/// The location of an office, and how to open it.
#[derive(Debug, Clone)]
pub struct Place {
    /// The `.poste` folder.
    pub path: PathBuf,
    pub clock: Arc<dyn Clock>,
    pub options: Options,
}

impl Place {
    /// Creates the office if it does not exist; any number of processes may do so at once. Returns whether it was
    /// created.
    pub fn create(&self) -> Result<bool, Error> {
        LocalLog::create(&self.path, &self.clock, &self.options)
    }

    pub fn open(&self) -> Result<Office, Error> {
        let log = LocalLog::open(&self.path, self.clock.clone(), self.options.clone())?;
        Ok(Office::over(Order::Here(log)))
    }

    /// Opens only the files, whatever orders the log. Nothing can be proposed through them.
    pub(crate) fn open_files(&self) -> Result<OfficeFiles, Error> {
        OfficeFiles::open(&self.path, self.clock.clone(), self.options.clone())
    }

    /// Keeps every writer out until the guard is dropped.
    pub(crate) fn lock(&self) -> Result<WriteGuard, Error> {
        let folder = Folder::open(&self.path).map_err(|error| Error::io(&self.path, error))?;
        WriteLock::new(&folder, &self.options.program).acquire(self.options.lock_timeout)
    }

    /// Creates an office that follows a log, if it does not exist. Returns whether it was created.
    pub fn create_following(&self) -> Result<bool, Error> {
        Follower::create(&self.path, &self.options)
    }

    /// Opens an office that follows a log.
    pub fn open_following(&self, sequencer: Box<dyn Sequencer>) -> Result<Office, Error> {
        let follower = Follower::open(&self.path, self.clock.clone(), self.options.clone(), sequencer)?;
        Ok(Office::over(Order::Followed(follower)))
    }
}

/// Whether views reflect everything that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Yes,
    /// A tick could not be appended; views mark what it would change as unconfirmed.
    No,
}

impl Office {
    /// Settles what is due before a view is read. A view is still useful when that fails.
    pub fn settle(&mut self) -> Result<Settled, Error> {
        let settled = match &mut self.order {
            Order::Here(log) => log.settle(),
            Order::Followed(follower) => follower.settle(Duration::ZERO),
        };
        match settled {
            Ok(()) => Ok(Settled::Yes),
            Err(
                Error::ReadOnly(_)
                | Error::Busy { .. }
                | Error::WalFull { .. }
                | Error::Lost { .. }
                | Error::NeedsUpgrade { .. }
                | Error::ClockLeap { .. }
                | Error::DiskFull { .. }
                | Error::Unreachable { .. },
            ) => Ok(Settled::No),
            Err(error) => Err(error),
        }
    }

    /// Like [`settle`](Self::settle), but waits for the lock and returns why it failed.
    pub(crate) fn settle_patiently(&mut self) -> Result<(), Error> {
        let patience = self.store().options().lock_timeout;
        match &mut self.order {
            Order::Here(log) => log.settle_patiently(),
            Order::Followed(follower) => follower.settle(patience),
        }
    }

    /// Takes the actions of the records committed through this office since the last call, ticks included. The caller
    /// that committed them carries them out.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.take_changes().into_actions()
    }

    /// Like [`take_actions`](Self::take_actions), including the agents that the changes concern.
    pub fn take_changes(&mut self) -> Changes {
        self.files_mut().take_changes()
    }

    /// The time that views measure ages against: the time that the next record would get.
    pub fn now(&self) -> Result<Timestamp, Error> {
        match &self.order {
            Order::Here(log) => Ok(log.files.reading()?.for_views()),
            // Only the sequencer knows its own clock, so views use this machine's.
            Order::Followed(_) => Ok(self.head()?.at.max(self.wall())),
        }
    }

    /// Erases redacted content from every file of the folder. The record alone only removes it from the tables.
    pub fn erase(&mut self) -> Result<Erased, Error> {
        self.files_mut().erase()
    }

    /// Updates the mirror of a shared context from the log. Keeps an edit made by hand unless `drop_edit` is set.
    pub fn mirror(&self, name: &ContextName, drop_edit: bool) -> Result<Option<Mirror>, Error> {
        mirror::write(self.store(), name, drop_edit)
    }

    /// Lets a mirror follow the log again, after the text edited in it was stored.
    pub fn take_over_mirror(&self, name: &ContextName, made_from: u64, edited: &str) -> Result<TakenOver, Error> {
        mirror::take_over(self.store(), name, made_from, edited)
    }

    /// Erases everything that was ever redacted once more.
    pub fn erase_all(&mut self) -> Result<Erased, Error> {
        self.files_mut().erase_all()
    }

    /// Writes finished conversations to a file of the archive. The caller must then append the record that names it, or
    /// call [`discard_archive`](Self::discard_archive).
    pub fn write_archive(&self, batch: &ArchiveBatch) -> Result<Archive, Error> {
        let archives = self.archives()?;
        // No process can erase at the same time, so an eraser finds only complete files or leftovers of dead processes.
        let _guard = self.files().hold()?;
        let lines = without_redacted(self.store(), &batch.lines)?;
        let head = head(self.store())?;
        let day = &self.now()?.to_string()[..10];
        // Processes that archive at the same moment, or that died here earlier, must not share a file name.
        for attempt in 1..=ARCHIVE_NAMES_MAX {
            let more = if attempt == 1 { String::new() } else { format!("-{attempt}") };
            let file = format!("{day}-{head}{more}.jsonl");
            if let Some(written) = archives.write(&file, &lines)? {
                let conversations = batch.conversations.clone();
                let Written { lines, digest } = written;
                return Ok(Archive { file, conversations, as_of: batch.as_of, lines, digest });
            }
        }
        Err(Error::Damaged(format!("the archive folder is full of files of record {head}")))
    }

    /// Deletes a file whose record was refused. If a record names the file after all, it belongs to another process by
    /// now.
    pub fn discard_archive(&self, archive: &Archive) -> Result<(), Error> {
        let archives = self.archives()?;
        let _guard = self.files().hold()?;
        match self.store().tables()?.has_archive_file(&archive.file)? {
            true => Ok(()),
            false => archives.discard(&archive.file),
        }
    }

    /// Writes the page of a closed session, which `render` makes from the log. Redacted content cannot get into it: no
    /// process can erase while the page is rendered and written.
    pub fn write_session_page<E: From<Error>>(
        &self,
        name: &str,
        render: impl FnOnce(&Store) -> Result<String, E>,
    ) -> Result<PathBuf, E> {
        let _guard = self.files().hold()?;
        Ok(session_pages::write(self.folder()?, name, &render(self.store())?)?)
    }

    fn archives(&self) -> Result<&Archives, Error> {
        self.store().archives().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))
    }

    /// Accepts a clock leap of more than a day, in the actor's name.
    pub fn accept_clock(&mut self, actor: &Name) -> Result<Option<i64>, Error> {
        match &mut self.order {
            Order::Here(log) => log.accept_clock(actor),
            Order::Followed(_) => Ok(None), // a leap concerns the sequencer's clock
        }
    }

    /// The sender's clock, for the envelope.
    pub fn wall(&self) -> Timestamp {
        self.files().clock().wall()
    }

    /// The clock that no one can set and that keeps running while the machine sleeps. It guards leases.
    pub fn boot(&self) -> Boot {
        self.files().clock().boot()
    }

    pub fn path(&self) -> Result<&Path, Error> {
        self.store().path().ok_or_else(|| Error::Damaged("the office has no folder".to_owned()))
    }

    /// The open folder of the office. Files in it are reached through it.
    pub fn folder(&self) -> Result<&Folder, Error> {
        self.files().folder()
    }

    pub fn agent(&self, name: &Name) -> Result<Option<Agent>, Error> {
        self.store().tables()?.agent(name.as_str())
    }

    /// Blocks until `look` finds something or the time is up. Calls `look` whenever the interest's subjects have
    /// changed, when something becomes due (no ring announces that), and every few seconds if the office has changed at
    /// all.
    pub fn wait_for<T>(
        &mut self,
        interest: &Interest,
        patience: Option<Duration>,
        look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        self.wait_unless(interest, patience, Stop::Never, look)
    }

    /// Like [`wait_for`](Self::wait_for), but returns early on `stop`.
    pub fn wait_unless<T>(
        &mut self,
        interest: &Interest,
        patience: Option<Duration>,
        stop: Stop<'_>,
        look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let mut waiter = self.files().take_waiter()?;
        let found = self.wait_as(&mut waiter, interest, patience, stop, look);
        self.files().keep_waiter(waiter);
        found
    }

    fn wait_as<T>(
        &mut self,
        waiter: &mut Waiter,
        interest: &Interest,
        patience: Option<Duration>,
        stop: Stop<'_>,
        mut look: impl FnMut(&mut Self) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        let deadline = patience.map(|patience| now_instant() + patience);
        loop {
            // Something is due but the tick could not be appended: look anyway, and retry soon but not at once.
            let unsettled = (self.settle()? == Settled::No).then_some(UNSETTLED_PERIOD);
            // No local bell rings for records published elsewhere.
            let period = unsettled.or_else(|| self.follows().then_some(FOLLOW_PERIOD));
            let try_again = period.map(|period| now_instant() + period);
            // The order matters. A commit after the version is read is noticed before the pause. A commit after
            // `listen` rings, at the addresses that the agents have at that version.
            let seen = self.store().data_version()?;
            if patience != Some(Duration::ZERO) {
                waiter.listen(&self.word_of(interest)?);
            }
            if let Some(found) = look(self)? {
                return Ok(Some(found));
            }
            // As long as no other process commits, nothing else becomes due.
            let due = self.store().tables()?.next_due()?;
            loop {
                let left = deadline.map(|deadline| deadline.saturating_duration_since(now_instant()));
                if left.is_some_and(|left| left.is_zero()) || stop.is_over() {
                    return Ok(None);
                }
                let again_in = match (try_again, due) {
                    (Some(at), _) => Some(at.saturating_duration_since(now_instant())),
                    (None, Some(due)) => Some(self.time_until(due)?),
                    (None, None) => None,
                };
                let is_time = again_in.is_some_and(|left| left.is_zero());
                if is_time || self.store().data_version()? != seen || waiter.is_deaf() {
                    break;
                }
                let pause = [left, again_in].into_iter().flatten().min().unwrap_or(Duration::MAX);
                waiter.pause(pause, stop.interrupt());
                // A deleted file never changes, so fail instead of waiting for it.
                self.store().check_identity()?;
            }
        }
    }

    /// Computed again before each pause: the log's clock may have jumped while this process slept.
    fn time_until(&self, due: Timestamp) -> Result<Duration, Error> {
        Ok(Duration::from_millis(u64::try_from(due.since_ms(self.now()?)).unwrap_or(0)))
    }

    /// What a waiter is rung for, at the current addresses of its agents.
    fn word_of(&self, interest: &Interest) -> Result<String, Error> {
        let agents = interest.mail_of().iter().map(|name| self.agent(name)).collect::<Result<Vec<_>, _>>()?;
        Ok(interest.word(agents.iter().flatten()))
    }
}

/// What ends a wait early.
#[derive(Clone, Copy)]
pub enum Stop<'a> {
    Never,
    /// Another thread raises it.
    Raised(&'a Interrupt),
    /// Called whenever the waiter wakes, at least every few seconds. [`wake`](crate::store::wake) triggers a call at
    /// once.
    When(&'a dyn Fn() -> bool),
}

impl std::fmt::Debug for Stop<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Never => "Never",
            Self::Raised(_) => "Raised",
            Self::When(_) => "When",
        })
    }
}

impl<'a> Stop<'a> {
    fn is_over(&self) -> bool {
        match self {
            Self::Never => false,
            Self::Raised(interrupt) => interrupt.is_raised(),
            Self::When(is_over) => is_over(),
        }
    }

    fn interrupt(&self) -> Option<&'a Interrupt> {
        match self {
            Self::Raised(interrupt) => Some(interrupt),
            Self::Never | Self::When(_) => None,
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "waiting is measured on the machine, not in the log")]
fn now_instant() -> Instant {
    Instant::now()
}

/// Content that was erased after it was read must not come back in a file. The fold will refuse the archive; this
/// covers a process that dies before it proposes the record.
fn without_redacted<'lines>(store: &Store, lines: &'lines [Line]) -> Result<Cow<'lines, [Line]>, Error> {
    let tables = store.tables()?;
    let mut lines = Cow::Borrowed(lines);
    for index in 0..lines.len() {
        if lines[index].content.is_some() && tables.redaction(lines[index].position)?.is_some() {
            lines.to_mut()[index].content = None;
        }
    }
    Ok(lines)
}

/// Maximum number of file names tried for one archive.
const ARCHIVE_NAMES_MAX: u32 = 100;

/// How often a waiter retries settling.
const UNSETTLED_PERIOD: Duration = Duration::from_millis(100);

/// How often a waiter polls the sequencer that orders the log.
const FOLLOW_PERIOD: Duration = Duration::from_millis(250);

/// The end of the log, for cursors.
pub fn head(store: &Store) -> Result<Position, Error> {
    Ok(store.tables()?.cursor.head.position)
}
